"""The supported dtypes, their names, and their hierarchy of kinds.

A dtype is a native `numpy.dtype` (with bfloat16, the 8-bit floats and the narrow integers of
ml_dtypes) or an `ExtendedDtype` such as `key<fry>`, whose elements are small NumPy arrays.
Not here: what two dtypes promote to (`promotion.py`).
"""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np

from kiln.base.errors import three_lines
from kiln.base.options.config import options
from kiln.base.pickled import pickled_as, reduced
from kiln.base.source import current_source

DType = Any
"""A `numpy.dtype` or an `ExtendedDtype`."""
DTypeLike = Any
"""Anything that `as_dtype` accepts: dtypes, names, scalar types of Python, NumPy and kiln."""

float0: np.dtype[Any] = np.dtype([("float0", np.void, 0)])


class extended(np.generic):
    """The kind of all extended dtypes, for `issubdtype`."""


class prng_key(extended):
    """The kind of random key dtypes, for `issubdtype`."""


class ExtendedDtype:
    """A dtype whose elements are small arrays: `physical_shape` elements of `physical_dtype`."""

    __slots__ = ("itemsize", "name", "physical_dtype", "physical_shape")

    type: Any = extended
    kind = "V"

    def __init__(
        self, name: str, physical_shape: tuple[int, ...], physical_dtype: np.dtype[Any]
    ) -> None:
        self.name = name
        self.physical_shape = physical_shape
        self.physical_dtype = physical_dtype
        self.itemsize = int(np.prod(physical_shape, dtype=int)) * physical_dtype.itemsize

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, ExtendedDtype)
            and type(self) is type(other)
            and self.name == other.name
        )

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


_KEY_WORDS = {"phx2": 1, "fry": 2, "phx4": 2, "fry4": 4, "rbg": 4, "urbg": 4}
MOST_KEY_WORDS = 4
_OF_WORDS: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint32),
    2: np.dtype(np.uint64),
    4: np.dtype(np.complex128),
}


@pickled_as("KeyDtype")
class KeyDtype(ExtendedDtype):
    """The dtype of typed random keys; `tag` names the generator (`fry` is threefry2x32).

    Raises: ValueError for a tag that is not that of a generator.
    """

    __slots__ = ("tag", "words")
    type = prng_key

    def __init__(self, tag: str) -> None:
        # The uint32 words of a key are one element, so that operations which only move elements
        # treat arrays of keys like any others. Four words are the parts of a complex number, the
        # only type of 128 bits that all engines move; nothing computes with it.
        if tag not in _KEY_WORDS:
            raise ValueError(
                three_lines(
                    f"a dtype of keys for {tag!r:.40} at {current_source()}",
                    "there is no generator with this tag",
                    f"use one of {', '.join(_KEY_WORDS)}",
                )
            )
        self.words = _KEY_WORDS[tag]
        super().__init__(f"key<{tag}>", (), _OF_WORDS[self.words])
        self.tag = tag

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced("KeyDtype", self.tag)


_SHORT = {
    "bool": "bool",
    "bfloat16": "bf16",
    "float0": "float0",
    **{f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("u", "") for bits in (1, 2, 4)},
    **{
        f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("u", "") for bits in (8, 16, 32, 64)
    },
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"complex{bits}": f"c{bits}" for bits in (64, 128)},
}


def _from_ml_dtypes(*names: str) -> dict[str, np.dtype[Any]]:
    return {name: np.dtype(getattr(ml_dtypes, name)) for name in names if hasattr(ml_dtypes, name)}


NARROW_FLOATS = _from_ml_dtypes(
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
NARROW_SIGNED = _from_ml_dtypes("int1", "int2", "int4")
NARROW_UNSIGNED = _from_ml_dtypes("uint1", "uint2", "uint4")
bfloat16 = np.dtype(ml_dtypes.bfloat16)
int4 = NARROW_SIGNED["int4"]
uint4 = NARROW_UNSIGNED["uint4"]
float8_e4m3fn = NARROW_FLOATS["float8_e4m3fn"]
float8_e5m2 = NARROW_FLOATS["float8_e5m2"]
float8_e4m3b11fnuz = NARROW_FLOATS["float8_e4m3b11fnuz"]
float8_e4m3fnuz = NARROW_FLOATS["float8_e4m3fnuz"]
float8_e5m2fnuz = NARROW_FLOATS["float8_e5m2fnuz"]

_NUMPY_NAMES = (
    "bool",
    *("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
SUPPORTED: dict[str, np.dtype[Any]] = {
    **{name: np.dtype(name) for name in _NUMPY_NAMES},
    "bfloat16": bfloat16,
    **NARROW_FLOATS,
    **NARROW_SIGNED,
    **NARROW_UNSIGNED,
}
"""Every NumPy dtype an array may have, by name."""

_KIND: dict[np.dtype[Any], type[np.generic]] = {
    bfloat16: np.floating,
    **dict.fromkeys(NARROW_FLOATS.values(), np.floating),
    **dict.fromkeys(NARROW_SIGNED.values(), np.signedinteger),
    **dict.fromkeys(NARROW_UNSIGNED.values(), np.unsignedinteger),
}
_ABSTRACT = frozenset(
    {
        np.generic,
        np.number,
        np.integer,
        np.signedinteger,
        np.unsignedinteger,
        np.inexact,
        np.floating,
        np.complexfloating,
        np.flexible,
        np.character,
        extended,
        prng_key,
    }
)
_PYTHON_TYPES: dict[type, np.dtype[Any]] = {
    bool: np.dtype(np.bool_),
    int: np.dtype(np.int64),
    float: np.dtype(np.float64),
    complex: np.dtype(np.complex128),
}
_NARROWED = {
    SUPPORTED[wide]: SUPPORTED[narrow]
    for wide, narrow in {
        "int64": "int32",
        "uint64": "uint32",
        "float64": "float32",
        "complex128": "complex64",
    }.items()
}


def as_dtype(dtype: DTypeLike) -> DType:
    """Return the dtype that a dtype, a name or a scalar type denotes; 64-bit ones are kept.

    Objects with a dtype denote it, as in NumPy, except arrays.
    Raises: TypeError for anything else.
    """
    if isinstance(dtype, (np.dtype, ExtendedDtype)):
        return dtype
    if isinstance(dtype, str):
        return np.dtype(dtype)
    if isinstance(dtype, type):
        if dtype in _PYTHON_TYPES:
            return _PYTHON_TYPES[dtype]
        own = getattr(dtype, "dtype", None)
        if isinstance(own, np.dtype):
            return own
        if dtype not in _ABSTRACT and issubclass(dtype, (np.generic, np.dtype)):
            return np.dtype(dtype)
        raise TypeError(
            three_lines(
                f"a dtype was requested as {dtype.__module__}.{dtype.__qualname__}"
                f" at {current_source()}",
                "an abstract kind does not say which dtype is meant"
                if dtype in _ABSTRACT
                else "this class is not a scalar type",
                "name one, such as kiln.numpy.float32",
            )
        )
    own = getattr(dtype, "dtype", None)
    is_array = isinstance(dtype, np.ndarray) or hasattr(dtype, "aval")
    if isinstance(own, (np.dtype, ExtendedDtype)) and not is_array:
        return own
    raise TypeError(
        three_lines(
            f"a dtype was requested as a value of type {type(dtype).__name__}"
            f" at {current_source()}",
            f"cannot interpret {dtype!r:.80} as a data type",
            "give a dtype such as kiln.numpy.float32 or 'float32' (of an array x: x.dtype)",
        )
    )


def is_extended(dtype: DTypeLike) -> bool:
    """Tell whether a dtype is extended."""
    return isinstance(dtype, ExtendedDtype)


def is_supported(dtype: DTypeLike) -> bool:
    """Tell whether arrays may have this dtype (in either byte order)."""
    try:
        return isinstance(dtype, ExtendedDtype) or (
            isinstance(dtype, np.dtype)
            and (dtype == float0 or dtype.newbyteorder("=") in _SUPPORTED_SET)
        )
    except TypeError:
        # Strings of variable length have no byte order.
        return False


_SUPPORTED_SET = frozenset(SUPPORTED.values())


def _table(x64: bool) -> dict[Any, DType]:
    table: dict[Any, DType] = {
        dtype: dtype if x64 else _NARROWED.get(dtype, dtype) for dtype in SUPPORTED.values()
    }
    table[float0] = float0
    return table


_CANONICAL_64 = _table(True)
_CANONICAL_32 = _table(False)


def canonicalize_dtype(dtype: DTypeLike, allow_extended: bool = True) -> DType:
    """Return the dtype that arrays get if this one is requested: 32 bits wide unless x64 is on.

    Raises: TypeError if it is not a dtype, or not one that arrays can have.
    """
    try:
        return (_CANONICAL_64 if options().enable_x64 else _CANONICAL_32)[dtype]
    except (KeyError, TypeError):
        return _canonicalize(dtype, allow_extended)


def _canonicalize(dtype: DTypeLike, allow_extended: bool) -> DType:
    found = as_dtype(dtype)
    if isinstance(found, ExtendedDtype):
        if allow_extended:
            return found
        raise ValueError(
            three_lines(
                f"a NumPy dtype is needed, got {found} at {current_source()}",
                f"dtype={found} is not a valid dtype here",
                "convert the keys with kiln.random.key_data first",
            )
        )
    # Strings of variable length, of the kind T, have no byte order either.
    native = found if found == float0 or found.kind == "T" else found.newbyteorder("=")
    table = _CANONICAL_64 if options().enable_x64 else _CANONICAL_32
    if native not in table:
        raise TypeError(
            three_lines(
                f"a dtype was requested: {found} at {current_source()}",
                f"only number and bool dtypes are supported, got dtype {found}",
                "convert to one of them first; strings and objects stay in Python or NumPy",
            )
        )
    return table[native]


def _class_of(dtype: DTypeLike) -> tuple[type[np.generic], DType | None]:
    """Return the class in NumPy's hierarchy, and the dtype if it is a concrete one."""
    if isinstance(dtype, type) and dtype in _ABSTRACT:
        return dtype, None
    if isinstance(dtype, type) and dtype in (object, str, bytes):
        # Arrays cannot have them, but users may ask whether a dtype is one of them.
        found = np.dtype(dtype)
        return found.type, found
    found = as_dtype(dtype)
    if isinstance(found, ExtendedDtype):
        return found.type, found
    return _KIND.get(found, found.type), found


@functools.lru_cache(maxsize=4096)
def issubdtype(a: DTypeLike, b: DTypeLike) -> bool:
    """Tell whether `a` is the dtype `b`, or of the kind `b` (`np.floating`, `prng_key`, ...)."""
    kind_a, dtype_a = _class_of(a)
    kind_b, dtype_b = _class_of(b)
    if dtype_b is not None:
        return dtype_a is not None and bool(dtype_a == dtype_b)
    return issubclass(kind_a, kind_b)


def is_float(dtype: DTypeLike) -> bool:
    """Tell whether a dtype is a real floating-point one."""
    return issubdtype(dtype, np.floating)


@functools.lru_cache(maxsize=256)
def long_name(dtype: DType) -> str:
    """Return `float32`, `key<fry>`, `float0`."""
    if dtype == float0:
        return "float0"
    return str(dtype.name)


@functools.lru_cache(maxsize=256)
def short_name(dtype: DType) -> str:
    """Return `f32`, `key<fry>`, `bf16`, `f8_e4m3fn`, `float0`."""
    name = long_name(dtype)
    if name in _SHORT:
        return _SHORT[name]
    return "f" + name.removeprefix("float") if name in NARROW_FLOATS else name


def bit_width(dtype: DTypeLike) -> int:
    """Return the number of bits per element, which is less than 8 for narrow dtypes."""
    found = as_dtype(dtype)
    name = long_name(found)
    if name in NARROW_SIGNED or name in NARROW_UNSIGNED:
        return int(name.rpartition("int")[2])
    if name.startswith(("float4_", "float6_")):
        return int(name[5])
    return int(found.itemsize) * 8


@functools.lru_cache(maxsize=256)
def finfo(dtype: DTypeLike) -> Any:
    """Return the limits of a floating-point or complex dtype, as `numpy.finfo`."""
    found = as_dtype(dtype)
    return ml_dtypes.finfo(found) if found in _KIND else np.finfo(found)


@functools.lru_cache(maxsize=256)
def iinfo(dtype: DTypeLike) -> Any:
    """Return the limits of an integer dtype, as `numpy.iinfo`."""
    found = as_dtype(dtype)
    return ml_dtypes.iinfo(found) if found in _KIND else np.iinfo(found)
