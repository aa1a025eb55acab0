"""Predicates on dtypes for users, who may pass a dtype, a name, a scalar type or an array.

As in NumPy, None means float64. The functions of the same names in `kinds.py` accept only dtypes,
and are cached.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base.dtypes import kinds, promotion
from kiln.base.dtypes.kinds import DType, DTypeLike, ExtendedDtype, as_dtype

_SAID = (type, str, np.dtype, ExtendedDtype)


_SCALARS: tuple[tuple[Any, type], ...] = (
    (np.bool_, bool),
    (np.integer, int),
    (np.floating, float),
    (np.complexfloating, complex),
)


def _asked(x: Any) -> Any:
    """Return the dtype of an object that has one, such as an array; keep dtypes unchanged."""
    if isinstance(x, _SAID):
        return x
    if x is None:
        return float
    return x.dtype if isinstance(x, np.ndarray) or hasattr(x, "aval") else as_dtype(x)


def issubdtype(arg1: DTypeLike, arg2: DTypeLike) -> bool:
    """Tell whether `arg1` is the dtype `arg2`, or of the kind `arg2` (`floating`, `prng_key`).

    Example:
        >>> jnp.issubdtype(jnp.bfloat16, jnp.floating), jnp.issubdtype(jnp.int32, jnp.floating)
        (True, False)
    """
    return kinds.issubdtype(_asked(arg1), _asked(arg2))


def finfo(dtype: DTypeLike) -> Any:
    """Return the limits of a floating-point or complex dtype, as `numpy.finfo`.

    Besides NumPy's types it has bfloat16 and the narrow floats of machine learning.

    Example:
        >>> jnp.finfo(jnp.bfloat16).eps, jnp.finfo(jnp.float32).max
        (0.0078125, np.float32(3.4028235e+38))
    """
    return kinds.finfo(_asked(dtype))


def iinfo(int_type: DTypeLike) -> Any:
    """Return the limits of an integer dtype, as `numpy.iinfo`.

    `int_type` is an integer dtype; a Python int stands for the default one.

    Example:
        >>> jnp.iinfo(jnp.int8).min, jnp.iinfo(int).max
        (-128, 9223372036854775807)
    """
    return kinds.iinfo(_asked(int if type(int_type) is int else int_type))


def can_cast(from_: DTypeLike, to: DTypeLike, casting: Any = "safe") -> bool:
    """Tell whether one dtype can be cast to another under a casting rule, as in NumPy.

    Example:
        >>> jnp.can_cast(jnp.int16, jnp.int32), jnp.can_cast(jnp.float32, jnp.int32)
        (True, False)
    """
    if from_ is None or to is None:
        raise TypeError(f"can_cast({from_!r:.60}, {to!r:.60})\nNone is not a dtype\nname a dtype")
    return np.can_cast(as_dtype(_asked(from_)), as_dtype(_asked(to)), casting)


def canonicalize_dtype(dtype: DTypeLike, allow_extended_dtype: bool = False) -> DType:
    """Return the dtype that arrays get if this one is requested: 32 bits wide unless x64 is on.

    Raises: TypeError if it is not a dtype, ValueError for an extended one unless allowed.
    """
    return kinds.canonicalize_dtype(float if dtype is None else dtype, allow_extended_dtype)


def kind_of(x: DTypeLike) -> DType:
    """Return the dtype that an object is or has."""
    return as_dtype(_asked(x))


def itemsize_bits(dtype: DTypeLike) -> int:
    """Return the number of bits of one element.

    Raises: ValueError for None.
    """
    if dtype is None:
        raise ValueError("itemsize_bits(None)\ndtype cannot be None.\nname a dtype")
    found = as_dtype(_asked(dtype))
    return 8 if found == np.dtype(bool) else kinds.bit_width(found)


def scalar_type_of(x: Any) -> type:
    """Return the class of Python numbers that an array's elements become.

    Raises: TypeError for elements that are not numbers.
    """
    found = promotion.dtype(x)
    for kind, scalar in _SCALARS:
        if kinds.issubdtype(found, kind):
            return scalar
    raise TypeError(f"scalar_type_of({x!r:.60})\nInvalid scalar value\npass an array of numbers")
