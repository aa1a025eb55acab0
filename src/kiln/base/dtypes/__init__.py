"""The interface to dtypes for the layers above, which import this module.

The parts: `kinds.py` (which dtypes exist), `promotion.py` (operands -> dtype and weakness),
`scalar_types.py` (`kiln.numpy.float32` and others). Here: conversions by kind, checks of requested
dtypes, and conversions of Python scalars.
"""

from __future__ import annotations

import sys
import types
import warnings
from typing import Any

import numpy as np

from kiln.base.dtypes.kinds import (
    NARROW_FLOATS,
    NARROW_SIGNED,
    NARROW_UNSIGNED,
    SUPPORTED,
    DType,
    DTypeLike,
    ExtendedDtype,
    KeyDtype,
    as_dtype,
    bfloat16,
    bit_width,
    canonicalize_dtype,
    extended,
    finfo,
    float0,
    float8_e4m3b11fnuz,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    iinfo,
    int4,
    is_extended,
    is_float,
    is_supported,
    issubdtype,
    long_name,
    prng_key,
    short_name,
    uint4,
)
from kiln.base.dtypes.promotion import (
    common_dtype,
    default_complex_dtype,
    default_float_dtype,
    default_int_dtype,
    default_uint_dtype,
    dtype,
    is_python_scalar,
    is_weak,
    lattice_result_type,
    promote_types,
    python_scalar_dtypes,
    result_type,
    scalar_dtype,
)
from kiln.base.dtypes.scalar_types import SCALAR_TYPES, ScalarType, set_scalar_constructor
from kiln.base.errors import TypePromotionError, three_lines
from kiln.base.options.config import options
from kiln.base.source import current_source, is_internal

__all__ = [
    "NARROW_FLOATS",
    "NARROW_SIGNED",
    "NARROW_UNSIGNED",
    "SCALAR_TYPES",
    "SUPPORTED",
    "DType",
    "DTypeLike",
    "ExtendedDtype",
    "KeyDtype",
    "ScalarType",
    "TypePromotionError",
    "as_dtype",
    "bfloat16",
    "bit_width",
    "canonicalize_dtype",
    "check_user_dtype",
    "coerce_python_scalar",
    "common_dtype",
    "default_complex_dtype",
    "default_float_dtype",
    "default_int_dtype",
    "default_uint_dtype",
    "dtype",
    "extended",
    "finfo",
    "float0",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "iinfo",
    "int4",
    "is_extended",
    "is_float",
    "is_python_scalar",
    "is_supported",
    "is_weak",
    "issubdtype",
    "lattice_result_type",
    "long_name",
    "prng_key",
    "promote_types",
    "python_scalar",
    "python_scalar_dtypes",
    "result_type",
    "scalar_dtype",
    "set_scalar_constructor",
    "short_name",
    "to_complex_dtype",
    "to_floating_dtype",
    "to_inexact_dtype",
    "to_numeric_dtype",
    "uint4",
    "user_stacklevel",
]

_WIDE = (SUPPORTED["int64"], SUPPORTED["uint64"])


def to_inexact_dtype(found: DTypeLike) -> DType:
    """Return the dtype in which functions such as sin compute: itself, or a float as wide."""
    known = as_dtype(found)
    if issubdtype(known, np.inexact):
        return canonicalize_dtype(known)
    return canonicalize_dtype(SUPPORTED["float64" if known in _WIDE else "float32"])


def to_numeric_dtype(found: DTypeLike) -> DType:
    """Return the dtype in which arithmetic is done: int32 for bool, else itself."""
    known = as_dtype(found)
    return SUPPORTED["int32"] if known == SUPPORTED["bool"] else canonicalize_dtype(known)


def to_floating_dtype(found: DTypeLike) -> DType:
    """Return the real floating dtype of the same width."""
    known = as_dtype(found)
    if known.kind == "c":
        return canonicalize_dtype(SUPPORTED["float32" if known.itemsize == 8 else "float64"])
    return to_inexact_dtype(known)


def to_complex_dtype(found: DTypeLike) -> DType:
    """Return the complex dtype that holds the values of this one."""
    known = to_inexact_dtype(found)
    if known.kind == "c":
        return known
    return SUPPORTED["complex128" if known == SUPPORTED["float64"] else "complex64"]


def check_user_dtype(wanted: DTypeLike, fun_name: str) -> DType:
    """Return the dtype that arrays get if a user requests `fun_name(..., dtype=wanted)`.

    Warns if an explicit 64-bit dtype is narrowed; Python's types are not explicit.
    Raises: TypeError if it is not a dtype, or not one that arrays can have.
    """
    try:
        found = canonicalize_dtype(wanted)
    except TypeError as error:
        _, wrong, remedy = [*str(error).splitlines(), *["", ""]][:3]
        raise TypeError(
            three_lines(
                f"{fun_name}(..., dtype={_shown(wanted)}) at {current_source()}",
                wrong or str(error),
                remedy or "use a dtype such as kiln.numpy.float32, or its name, 'float32'",
            )
        ) from None
    if wanted is found or any(wanted is python for python in (bool, int, float, complex)):
        return found
    asked = as_dtype(wanted)
    if not isinstance(asked, ExtendedDtype) and asked.itemsize != found.itemsize:
        if options().explicit_x64_dtypes == "error":
            raise ValueError(
                three_lines(
                    f"{fun_name}(..., dtype={asked}) at {current_source()}",
                    f"Explicitly requested dtype {asked} requested in {fun_name} is not available",
                    "type kiln.config.update('jax_enable_x64', True), or set KILN_ENABLE_X64=1",
                )
            )
        warnings.warn(
            f"Explicitly requested dtype {asked} requested in {fun_name} is not available, "
            f"and will be truncated to dtype {found}. To enable more dtypes, type "
            "kiln.config.update('jax_enable_x64', True) or set KILN_ENABLE_X64=1.",
            UserWarning,
            stacklevel=user_stacklevel(),
        )
    return found


def _shown(wanted: DTypeLike) -> str:
    return wanted.__name__ if isinstance(wanted, type) else repr(wanted)[:80]


def user_stacklevel() -> int:
    """Return the `stacklevel` that makes a warning of our caller point at the user's line."""
    level = 1
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
        level += 1
    return level


# Floats below this convert to every NumPy float dtype without overflow warnings.
_SAFE = 60_000.0
_INT_RANGE: dict[Any, tuple[int, int]] = {
    found: (int(iinfo(found).min), int(iinfo(found).max))
    for found in SUPPORTED.values()
    if issubdtype(found, np.integer)
}


def coerce_python_scalar(value: Any, dtype: DType | None = None, *, wrap: bool = False) -> Any:
    """Return a Python scalar as a NumPy scalar of `dtype` (default: the one of its type).

    With `wrap`, an int that fits in the default int dtype wraps around in a narrower one, like a
    converted computed value. Floats become ints by truncation.
    Raises: OverflowError for an int that the dtype cannot hold.
    """
    if dtype is None:
        dtype = scalar_dtype(value)[0]
    if type(value) is float and -_SAFE < value < _SAFE and dtype.kind == "f":
        return dtype.type(value)
    limits = _INT_RANGE.get(dtype)
    if limits is None:
        if isinstance(value, int) and dtype != SUPPORTED["bool"]:
            value = float(value)
        with np.errstate(over="ignore"):
            return dtype.type(value)
    value = int(value)
    low, high = limits
    if low <= value <= high:
        return dtype.type(value)
    if wrap:
        default_low, default_high = _INT_RANGE[default_int_dtype()]
        if default_low <= value <= default_high:
            value &= (1 << bit_width(dtype)) - 1
            return dtype.type(value - (1 << bit_width(dtype)) if value > high else value)
    raise OverflowError(
        three_lines(
            f"Python int {value} was used as a value of dtype {dtype} at {current_source()}",
            f"Python int {value} too large to convert to {dtype}"
            if dtype == default_int_dtype()
            else f"Python integer {value} out of bounds for {dtype}",
            f"{dtype} holds {low} to {high}; use a wider dtype"
            + ("" if dtype.itemsize == 8 else ", or kiln.config.update('jax_enable_x64', True)"),
        )
    )


def python_scalar(value: Any, dtype: DType) -> Any:
    """Convert a number to a Python scalar of the kind of `dtype`, as in weakly typed literals."""
    if issubdtype(dtype, np.complexfloating):
        return complex(value)
    if issubdtype(dtype, np.floating):
        return float(value.real)
    return bool(value) if dtype == SUPPORTED["bool"] else int(value.real)
