"""NumPy meanings that agree with compiled code where NumPy does not.

Integer division by zero, shifts past the width, powers of integers, signed zeros, conversions of
nan and of floats out of range: the results are XLA's, so that eager and compiled code agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.base import dtypes

Meaning = Callable[..., Any]


def is_integer(x: np.ndarray) -> bool:
    """Tell whether an array holds integers."""
    return dtypes.issubdtype(x.dtype, np.integer)


def divide(x: np.ndarray, y: np.ndarray) -> Any:
    """Divide; integers truncate, and give all bits set where y is 0."""
    if not is_integer(x):
        return np.divide(x, y)
    low, high = dtypes.iinfo(x.dtype).min, dtypes.iinfo(x.dtype).max
    zero = y == 0
    safe = np.where(zero, 1, y).astype(x.dtype)
    if low < 0:
        # The only overflow, low / -1, gives low again.
        safe = np.where((x == low) & (safe == -1), 1, safe).astype(x.dtype)
    quotient = np.floor_divide(x, safe)
    remainder = x - quotient * safe
    quotient = quotient + ((remainder != 0) & ((x < 0) != (safe < 0)))
    return np.where(zero, -1 if low < 0 else high, quotient).astype(x.dtype)


def remainder(x: np.ndarray, y: np.ndarray) -> Any:
    """Return the remainder of truncating division; x where the integer y is 0."""
    if not is_integer(x):
        return np.fmod(x, y)
    safe = np.where(y == 0, 1, y).astype(x.dtype)
    if dtypes.iinfo(x.dtype).min < 0:
        safe = np.where(safe == -1, 1, safe).astype(x.dtype)
    return np.where(y == 0, x, np.fmod(x, safe)).astype(x.dtype)


def power(x: np.ndarray, y: np.ndarray) -> Any:
    """Raise to a power; y may be an integer with a float x."""
    if not is_integer(x):
        # NumPy takes the square root for one exponent of 0.5, which differs at -inf and -0.
        shape = np.broadcast_shapes(x.shape, y.shape)
        exponents = np.broadcast_to(y, shape).astype(x.dtype).reshape(-1)
        return np.power(np.broadcast_to(x, shape).reshape(-1), exponents).reshape(shape)
    return integer_power(x, y)


def integer_power(x: np.ndarray, y: np.ndarray) -> Any:
    """Raise integers to integer powers, wrapping around; negative powers truncate to -1, 0 or 1."""
    negative = y < 0
    out = np.ones(np.broadcast_shapes(x.shape, y.shape), x.dtype)
    base, exponent = x, np.where(negative, 0, y)
    while exponent.any():
        out = np.where(exponent & 1, out * base, out).astype(x.dtype)
        base, exponent = base * base, exponent >> 1
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(y & 1, -1, 1), 0))
    # Combined with int64, uint64 would be converted to float64.
    return np.where(negative, inverse.astype(x.dtype), out)


def constant_power(x: np.ndarray, y: int) -> Any:
    """Raise to a constant integer power."""
    if is_integer(x):
        return integer_power(x, np.asarray(y))
    return x * x if y == 2 else np.power(x, x.dtype.type(y))


def shift_left(x: np.ndarray, n: np.ndarray) -> Any:
    """Shift; 0 where n is not below the width."""
    wide, amount = _shift_amount(x, n)
    return np.where(wide, 0, np.left_shift(x, amount)).astype(x.dtype)


def shift_right_arithmetic(x: np.ndarray, n: np.ndarray) -> Any:
    """Shift the sign in; only the sign is left where n is not below the width."""
    wide, amount = _shift_amount(x, n)
    signed = x.view(f"i{x.dtype.itemsize}")
    shifted = np.right_shift(signed, amount.view(signed.dtype)).view(x.dtype)
    return np.where(wide, np.where(signed < 0, -1, 0).astype(x.dtype), shifted)


def shift_right_logical(x: np.ndarray, n: np.ndarray) -> Any:
    """Shift zeros in; 0 where n is not below the width."""
    wide, amount = _shift_amount(x, n)
    unsigned = x.view(f"u{x.dtype.itemsize}")
    shifted = np.right_shift(unsigned, amount.view(unsigned.dtype)).view(x.dtype)
    return np.where(wide, 0, shifted).astype(x.dtype)


def _shift_amount(x: np.ndarray, n: np.ndarray) -> tuple[Any, Any]:
    wide = (n < 0) | (n >= dtypes.iinfo(x.dtype).bits)
    return wide, np.where(wide, 0, n).astype(x.dtype)


def population_count(x: np.ndarray) -> Any:
    """Count the bits that are set."""
    return np.bitwise_count(x.view(f"u{x.dtype.itemsize}")).astype(x.dtype)


def leading_zeros(x: np.ndarray) -> Any:
    """Count the zero bits above the highest one that is set."""
    bits = 8 * x.dtype.itemsize
    value = x.view(f"u{x.dtype.itemsize}").astype(np.uint64)
    width = np.zeros(x.shape, np.int64)
    for _ in range(bits):
        width += value != 0
        value = value >> np.uint64(1)
    return (bits - width).astype(x.dtype)


def sign(x: np.ndarray) -> Any:
    """Return -1, 0 or 1; float zeros keep their sign, and nan is nan."""
    if x.dtype.kind in "iu":
        return np.sign(x)
    if x.dtype.kind == "c":
        return np.where(x == 0, x, np.sign(x))
    return np.where((x == 0) | (x != x), x, np.copysign(x.dtype.type(1), x))


def maximum(x: np.ndarray, y: np.ndarray) -> Any:
    """Return the larger; nans propagate, and 0 is larger than -0."""
    return _settle_zeros(np.maximum(x, y), x, y, 0.0)


def minimum(x: np.ndarray, y: np.ndarray) -> Any:
    """Return the smaller; nans propagate, and -0 is smaller than 0."""
    return _settle_zeros(np.minimum(x, y), x, y, -0.0)


def _settle_zeros(out: Any, x: np.ndarray, y: np.ndarray, winner: float) -> Any:
    if out.dtype.kind in "biuc" or np.count_nonzero(out) == out.size:
        return out
    tie = (x == 0) & (y == 0) & (np.signbit(x) != np.signbit(y))
    return np.where(tie, out.dtype.type(winner), out) if tie.any() else out


def clamp(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> Any:
    """Clamp x between two bounds."""
    return minimum(maximum(x, low), high)


def next_after(x: np.ndarray, y: np.ndarray) -> Any:
    """Return the next number after x towards y; y where they are equal."""
    return np.where(x == y, y, np.nextafter(x, y))


def join_complex(x: np.ndarray, y: np.ndarray) -> Any:
    """Return x + iy, keeping the signs of zeros."""
    wide = np.complex128 if x.dtype == np.float64 else np.complex64
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), wide)
    out.real, out.imag = x, y
    return out


def round_half_away(x: np.ndarray) -> Any:
    """Round to the nearest integer, ties away from zero."""
    whole = np.trunc(x)
    # Adding 1/2 first would round 0.49999997 up.
    away = np.abs(x - whole) >= x.dtype.type(0.5)
    return np.copysign(np.abs(whole) + away.astype(x.dtype), x)


def convert(x: np.ndarray, dtype: Any) -> Any:
    """Convert to a dtype; floats to integers truncate, saturate, and send nan to 0."""
    if x.dtype == dtype:
        return x
    floating = dtypes.issubdtype(x.dtype, np.floating)
    if dtypes.issubdtype(x.dtype, np.complexfloating) and dtype != np.bool_:
        if dtypes.issubdtype(dtype, np.complexfloating):
            return x.astype(dtype)
        x, floating = x.real, True
    if dtype == np.bool_:
        return x != 0
    if floating and dtypes.issubdtype(dtype, np.integer):
        info = dtypes.iinfo(dtype)
        wide = x.astype(np.float64)
        whole = np.where(np.isnan(wide), 0.0, np.trunc(wide))
        inside = np.clip(whole, float(info.min), float(info.max))
        # The largest int64 has no float64; compare before converting.
        out = np.where(inside >= float(info.max), 0, inside).astype(dtype)
        return np.where(inside >= float(info.max), np.asarray(info.max, dtype), out)
    if dtypes.issubdtype(x.dtype, np.integer) and x.dtype.kind == "V":
        # ml_dtypes converts integers of less than a byte to those of NumPy only.
        x = x.astype(np.int32)
    return x.astype(dtype)
