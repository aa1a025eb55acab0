"""Dtypes by name (`float32`, `int_`, ...), kinds of dtypes, constants, predicates on dtypes.

A dtype's name is callable and makes arrays: `kiln.numpy.float32(1)`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.dtypes import SCALAR_TYPES, promote_types
from kiln.base.dtypes.questions import can_cast, finfo, iinfo, issubdtype, kind_of
from kiln.base.source import current_source
from kiln.core.arrays.array import Array
from kiln.core.trace import is_typed
from kiln.numpy.creation.arrays import array, asarray
from kiln.numpy.promotion import operands

ndarray = Array
newaxis = None
pi, e, inf, nan, euler_gamma = math.pi, math.e, math.inf, math.nan, float(np.euler_gamma)

bool_ = bool = SCALAR_TYPES["bool"]
int1, int2, int4 = SCALAR_TYPES["int1"], SCALAR_TYPES["int2"], SCALAR_TYPES["int4"]
int8, int16 = SCALAR_TYPES["int8"], SCALAR_TYPES["int16"]
int32, int64 = SCALAR_TYPES["int32"], SCALAR_TYPES["int64"]
uint1, uint2, uint4 = SCALAR_TYPES["uint1"], SCALAR_TYPES["uint2"], SCALAR_TYPES["uint4"]
uint8, uint16 = SCALAR_TYPES["uint8"], SCALAR_TYPES["uint16"]
uint32, uint64 = SCALAR_TYPES["uint32"], SCALAR_TYPES["uint64"]
float16, bfloat16 = SCALAR_TYPES["float16"], SCALAR_TYPES["bfloat16"]
float32, float64 = SCALAR_TYPES["float32"], SCALAR_TYPES["float64"]
complex64, complex128 = SCALAR_TYPES["complex64"], SCALAR_TYPES["complex128"]
float4_e2m1fn = SCALAR_TYPES["float4_e2m1fn"]
float6_e2m3fn, float6_e3m2fn = SCALAR_TYPES["float6_e2m3fn"], SCALAR_TYPES["float6_e3m2fn"]
float8_e3m4, float8_e4m3 = SCALAR_TYPES["float8_e3m4"], SCALAR_TYPES["float8_e4m3"]
float8_e4m3b11fnuz = SCALAR_TYPES["float8_e4m3b11fnuz"]
float8_e4m3fn, float8_e4m3fnuz = SCALAR_TYPES["float8_e4m3fn"], SCALAR_TYPES["float8_e4m3fnuz"]
float8_e5m2, float8_e5m2fnuz = SCALAR_TYPES["float8_e5m2"], SCALAR_TYPES["float8_e5m2fnuz"]
float8_e8m0fnu = SCALAR_TYPES["float8_e8m0fnu"]
int_, uint = SCALAR_TYPES["int_"], SCALAR_TYPES["uint"]
float_, complex_ = SCALAR_TYPES["float_"], SCALAR_TYPES["complex_"]
single, double = SCALAR_TYPES["single"], SCALAR_TYPES["double"]
csingle, cdouble = SCALAR_TYPES["csingle"], SCALAR_TYPES["cdouble"]

dtype = np.dtype
generic, number, object_ = np.generic, np.number, np.object_
integer, signedinteger, unsignedinteger = np.integer, np.signedinteger, np.unsignedinteger
inexact, floating, complexfloating = np.inexact, np.floating, np.complexfloating
flexible, character = np.flexible, np.character

__all__ = [
    "can_cast",
    "finfo",
    "iinfo",
    "iscomplexobj",
    "isdtype",
    "isrealobj",
    "isscalar",
    "issubdtype",
    "iterable",
    "promote_types",
    "result_type",
]


def _make(value: Any, found: Any) -> Any:
    return array(value, dtypes.check_user_dtype(found, found.name))


dtypes.set_scalar_constructor(_make)


def result_type(*args: Any) -> Any:
    """Return the dtype that arrays, scalars and dtypes promote to.

    Python numbers adopt the dtype of the arrays of their kind.

    Example:
        >>> jnp.result_type(jnp.int8(1), 2.0), jnp.result_type(jnp.bfloat16, 2.0)
        (dtype('float32'), dtype(bfloat16))
    """
    return dtypes.result_type(*args)


_KINDS: dict[str, Any] = {
    "bool": np.bool_,
    "signed integer": np.signedinteger,
    "unsigned integer": np.unsignedinteger,
    "integral": np.integer,
    "real floating": np.floating,
    "complex floating": np.complexfloating,
    "numeric": np.number,
}


def isdtype(dtype: Any, kind: Any) -> bool:  # type: ignore[valid-type]
    """Tell whether a dtype is of a kind: a dtype, a name such as 'integral', or a tuple of them.

    Raises: ValueError for an unknown name.
    Example:
        >>> jnp.isdtype(jnp.float16, "real floating"), jnp.isdtype(jnp.int8, ("integral", "bool"))
        (True, True)
    """
    kinds = kind if isinstance(kind, tuple) else (kind,)
    for one in kinds:
        if isinstance(one, str) and one not in _KINDS:
            try:
                dtypes.as_dtype(one)
            except TypeError:
                raise ValueError(
                    f"isdtype({dtype}, {kind!r}) at {current_source()}\n"
                    f"Unrecognized kind {one!r}\n"
                    f"use a dtype or one of {', '.join(_KINDS)}"
                ) from None
    found = kind_of(dtype)
    return any(dtypes.issubdtype(found, _KINDS.get(one, one)) for one in kinds)


def iscomplexobj(x: Any) -> Any:
    """Tell whether the dtype is complex, regardless of the values.

    Example:
        >>> jnp.iscomplexobj(jnp.array([1.0])), jnp.iscomplexobj(1j)
        (False, True)
    """
    if x is None or isinstance(x, (str, bool, int, float, complex)):
        return isinstance(x, complex)
    if not hasattr(x, "dtype") or (isinstance(x, type) and issubclass(x, np.generic)):
        (x,) = operands("iscomplexobj", asarray(x))
    return dtypes.issubdtype(x.dtype, np.complexfloating)


def isrealobj(x: Any) -> Any:
    """Tell whether the dtype is not complex.

    Example:
        >>> jnp.isrealobj(jnp.array([1.0]))
        True
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> Any:
    """Tell whether `element` is a Python or NumPy scalar, or an array without axes.

    NumPy's is False for arrays without axes.

    Example:
        >>> jnp.isscalar(3), jnp.isscalar(jnp.array(3)), jnp.isscalar(jnp.array([3]))
        (True, True, False)
    """
    if np.isscalar(element):
        return True
    if hasattr(element, "__jax_array__"):
        element = element.__jax_array__()
    return (isinstance(element, np.ndarray) or is_typed(element)) and not element.shape


def iterable(y: Any) -> Any:
    """Tell whether `y` can be iterated over.

    Example:
        >>> jnp.iterable(jnp.arange(3)), jnp.iterable(jnp.array(3))
        (True, False)
    """
    try:
        iter(y)
    except TypeError:
        return False
    return True
