"""What an element is: its type in memory, and its nodes, of which a complex number has two."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base.dtypes import short_name
from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.loop_ir.scalars import MACHINE_TYPES, NUMPY_TYPES, Value


class Unsupported(Exception):
    """The program, or a part of it, is not compiled by this engine; the text is the reason."""


class Complex(NamedTuple):
    """The parts of a complex scalar."""

    re: Value
    im: Value


Scalar = Value | Complex


def part_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the elements in memory: of a complex number, that of its parts."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def holds_nothing(dtype: np.dtype[Any]) -> bool:
    """Tell whether the elements have no bytes, as those of float0: none is read or written."""
    return dtype.itemsize == 0


def machine_type(dtype: np.dtype[Any]) -> str:
    """Return the machine type of a dtype's elements in memory.

    Raises: Unsupported for dtypes without one.
    """
    if holds_nothing(dtype):
        return "i1"
    found = MACHINE_TYPES.get(part_dtype(dtype))
    if found is None:
        raise Unsupported(f"no code is generated for the dtype {short_name(dtype)}")
    return found


def parts_of(x: Scalar) -> tuple[Value, ...]:
    """Return the nodes of a scalar: two if it is complex."""
    return x if isinstance(x, Complex) else (x,)


def real(x: Scalar) -> Value:
    """Return the node of a real scalar."""
    assert isinstance(x, Value)
    return x


def is_narrow(kind: str) -> bool:
    """Tell whether a machine type is a float of less than 32 bits."""
    return kind in ("f16", "bf16")


def numpy_type(kind: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a machine type."""
    return NUMPY_TYPES[kind]
