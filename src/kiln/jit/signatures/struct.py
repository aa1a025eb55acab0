"""ShapeDtypeStruct: the type of an array, passed in place of an array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.pickled import pickled_as, reduced
from kiln.base.source import current_source
from kiln.core.arrays.array import ArrayOperators
from kiln.core.ref import Ref
from kiln.core.trace import aval_of
from kiln.ir.ref_type import AbstractRef
from kiln.ir.shardings.formats import Format, Layout
from kiln.ir.shardings.mesh import PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding, Sharding, require_fit
from kiln.ir.sizes.size import Dim, product
from kiln.ir.types import ShapedArray, ShardedArray, typed
from kiln.ops.sharding import resolved, without_layout

_VALUES = (ArrayOperators, Ref, np.ndarray, np.generic)


class ShapeDtypeStruct:
    """The shape and dtype of an array that need not exist, and optionally its sharding.

    With `is_ref` it is the type of a reference to such an array. Immutable. The dtype is kept as
    given; whether 64 bits become 32 is decided where it is used.

    Raises: ValueError without a dtype, or if `sharding` is not a sharding.
    Example:
        >>> kiln.eval_shape(lambda x: x @ x, kiln.ShapeDtypeStruct((3, 3), jnp.float32))
        ShapeDtypeStruct(shape=(3, 3), dtype=float32)
        >>> kiln.jit(jnp.sum).lower(kiln.ShapeDtypeStruct((3,), jnp.int32)).out_info
        ShapeDtypeStruct(shape=(), dtype=int32)
    """

    __slots__ = ("dtype", "is_ref", "shape", "sharding", "weak_type")

    shape: tuple[Any, ...]
    dtype: Any
    sharding: Sharding | None
    weak_type: bool
    is_ref: bool

    def __init__(
        self,
        shape: Sequence[Dim],
        dtype: Any,
        *,
        sharding: Any = None,
        weak_type: bool = False,
        is_ref: bool = False,
    ) -> None:
        if dtype is None:
            raise ValueError(
                three_lines(
                    f"ShapeDtypeStruct({shape}, None) at {current_source()}",
                    "the dtype must be specified, got None",
                    "write ShapeDtypeStruct(shape, 'float32')",
                )
            )
        dtypes.canonicalize_dtype(dtype)
        if isinstance(sharding, Format) and sharding.layout is Layout.AUTO:
            raise ValueError(
                three_lines(
                    f"ShapeDtypeStruct({shape}, {dtype}, sharding={sharding}) at "
                    f"{current_source()}",
                    "`Layout.AUTO` cannot be used in place of a device-local layout in a "
                    "`ShapeDtypeStruct`",
                    "leave the layout out: Format(sharding=...)",
                )
            )
        sharding = without_layout(sharding, "ShapeDtypeStruct")
        if isinstance(sharding, PartitionSpec):
            sharding = resolved(sharding, "ShapeDtypeStruct")
        if isinstance(sharding, NamedSharding) and len(sharding.spec) > len(shape):
            asked = f"ShapeDtypeStruct({shape}, {dtype}, sharding={sharding}) at {current_source()}"
            require_fit(sharding, shape, asked)
        if sharding is not None and not isinstance(sharding, Sharding):
            raise ValueError(
                three_lines(
                    f"ShapeDtypeStruct({shape}, {dtype}, sharding={sharding!r:.80})"
                    f" at {current_source()}",
                    f"sharding must be a sharding, got {type(sharding)}",
                    "write sharding=NamedSharding(mesh, PartitionSpec(...))",
                )
            )
        given = (tuple(shape), dtypes.as_dtype(dtype), sharding, bool(weak_type), bool(is_ref))
        names = ("shape", "dtype", "sharding", "weak_type", "is_ref")
        for name, value in zip(names, given, strict=True):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(
            three_lines(
                f"assignment to {name} of {self!r} at {current_source()}",
                "a ShapeDtypeStruct is immutable",
                f"write struct.update({name}=...), which returns a new one",
            )
        )

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """Return a struct with some of shape, dtype, sharding, weak_type, is_ref replaced."""
        values = {name: changes.pop(name, getattr(self, name)) for name in self.__slots__}
        if changes:
            raise TypeError(
                three_lines(
                    f"update() of {self!r} with {', '.join(changes)} at {current_source()}",
                    f"a ShapeDtypeStruct has no {', '.join(changes)}",
                    f"change one of {', '.join(sorted(self.__slots__))}",
                )
            )
        return ShapeDtypeStruct(**values)

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """Return the type of an array, a number, or a struct, with its sharding.

        Raises: TypeError for what is not an array.
        Source: the behavior of `jax.ShapeDtypeStruct.like`.
        Example:
            >>> kiln.ShapeDtypeStruct.like(jnp.ones((2, 3)))
            ShapeDtypeStruct(shape=(2, 3), dtype=float32)
        """
        aval = type_of_struct(x) or aval_of(x)
        place = getattr(x, "sharding", None) if getattr(x, "committed", True) else None
        return cls(aval.shape, aval.dtype, sharding=place, weak_type=aval.weak_type)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Any:
        """The number of elements."""
        return product(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return int(self.shape[0])

    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.sharding, self.weak_type, self.is_ref

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        place = "" if self.sharding is None else f", sharding={self.sharding}"
        weak = ", weak_type=True" if self.weak_type else ""
        ref = ", is_ref=True" if self.is_ref else ""
        name = dtypes.long_name(self.dtype)
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={name}{place}{weak}{ref})"

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced("ShapeDtypeStruct", *self._key())


@pickled_as("ShapeDtypeStruct")
def _rebuilt(
    shape: Any, dtype: Any, sharding: Any, weak_type: bool, is_ref: bool = False
) -> ShapeDtypeStruct:
    return ShapeDtypeStruct(shape, dtype, sharding=sharding, weak_type=weak_type, is_ref=is_ref)


def type_of_struct(x: Any) -> ShapedArray | None:
    """Return the type that an object stands for, or None if it does not stand for an array.

    Any object with a shape and a dtype but no value stands for an array; with `is_ref`, for a
    reference.
    """
    if isinstance(x, _VALUES) or hasattr(x, "__jax_array__"):
        return None
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if not isinstance(shape, tuple) or dtype is None:
        return None
    aval = ShapedArray(shape, dtypes.canonicalize_dtype(dtype), getattr(x, "weak_type", False))
    place = getattr(x, "sharding", None)
    if isinstance(place, Sharding):
        aval = typed(aval, place)
    return AbstractRef(aval) if getattr(x, "is_ref", False) is True else aval  # type: ignore[return-value]


def struct_of(aval: ShapedArray) -> ShapeDtypeStruct:
    """Return a type as a ShapeDtypeStruct."""
    place = aval.placing if type(aval) is ShardedArray else None
    return ShapeDtypeStruct(aval.shape, aval.dtype, sharding=place, weak_type=aval.weak_type)
