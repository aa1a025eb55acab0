"""The types of the stages of ahead-of-time compilation."""

from kiln.jit.function import JitFunction as Wrapped
from kiln.jit.stages import ArgInfo, Compiled, Lowered, Traced

__all__ = ["ArgInfo", "Compiled", "Lowered", "Traced", "Wrapped"]
