"""Whole small programs, as functions of the library (jax, or kiln in its place).

Each returns a tree of arrays: losses, parameters, gradients. Data are fixed NumPy arrays.
"""

from __future__ import annotations

from tests.programs import networks, numerics
from tests.programs.registry import MODELS

__all__ = ["MODELS", "networks", "numerics"]
