"""One row of the table of cases: how to apply a primitive, and to what."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.core.primitive import Primitive


@dataclasses.dataclass(frozen=True)
class Operand:
    """A random operand: floats uniform in [low, high), integers likewise, bools fair coins."""

    shape: tuple[int, ...]
    dtype: Any = "float32"
    low: float = -2.0
    high: float = 2.0
    values: Any = None
    """Exact values instead of random ones (indices, permutations)."""

    def make(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the operand."""
        dtype = np.dtype(self.dtype)
        if self.values is not None:
            return np.asarray(self.values, dtype).reshape(self.shape)
        if dtype.kind == "b":
            return rng.integers(0, 2, self.shape).astype(dtype)
        if dtype.kind in "iu":
            return rng.integers(int(self.low), int(self.high) + 1, self.shape).astype(dtype)
        drawn = rng.uniform(self.low, self.high, self.shape)
        if dtype.kind == "c":
            drawn = drawn + 1j * rng.uniform(self.low, self.high, self.shape)
        return np.asarray(drawn).astype(dtype)


@dataclasses.dataclass(frozen=True)
class Case:
    """`apply(*operands)` binds `primitive` once (among others at most shape operations).

    `differentiable` lists the operands checked by finite differences, adjoints and second order.
    `named` is (operand, axis) pairs that become one named dimension `n` in the checks of `infer`
    and `batch`, or a string: the reason why no dimension can be named.
    """

    primitive: Primitive
    apply: Callable[..., Any]
    operands: tuple[Operand, ...]
    name: str = ""
    differentiable: tuple[int, ...] = ()
    batch: bool = True
    named: tuple[tuple[int, int], ...] | str = ()
    tolerance: float = 1e-5
    """Relative and absolute, between engines and meaning."""
    derivative_tolerance: float = 1e-4
    """Against finite differences, in 64 bits."""

    @property
    def id(self) -> str:
        """The name shown by pytest."""
        types = ",".join(f"{o.dtype}{list(o.shape)}".replace(" ", "") for o in self.operands)
        return f"{self.primitive.name}-{self.name}{types}"
