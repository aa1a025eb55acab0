"""`pjit`, the former name of `jit` with shardings."""

from kiln.api.jit import jit as pjit

__all__ = ["pjit"]
