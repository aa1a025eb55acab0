"""The types of values in a program.

A `ShapedArray` is a shape, a dtype and a weak-type flag. Dimensions are ints, or `Size` expressions
over named axes (`sizes/size.py`). A dtype is a `numpy.dtype` or an extended one such as `key<fry>`.
Inside `shard_map` a type also says along which mesh axes members may hold different values.

The type of an array that is split by Explicit axes of a mesh is a `ShardedArray`, which says which
mesh axes split which of its axes; otherwise it is a `ShapedArray`: programs without Explicit axes
never use the other class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import ShardingTypeError, three_lines
from kiln.base.options.config import options
from kiln.base.pickled import pickled_as, reduced
from kiln.base.source import current_source
from kiln.ir.shardings.abstract_mesh import EMPTY
from kiln.ir.shardings.manual_axes import ManualAxisType
from kiln.ir.shardings.mesh import UNCONSTRAINED, PartitionSpec, axes_of
from kiln.ir.shardings.sharding import NamedSharding, Sharding
from kiln.ir.shardings.sums import NO_SUMS, NOWHERE, Sums, Varying
from kiln.ir.sizes.size import Dim, product

Shape = tuple[Dim, ...]

_ADDRESSABLE = 2**63 - 1
"""The largest size of an array in bytes: XLA crashes the process for larger ones."""
_SURELY = 2**58
"""A number of elements that is within the limit for every dtype."""


class AbstractValue:
    """Base class of types: of arrays, references, and high values.

    The type of a high value (`core/hitypes.py`) says which arrays it consists of: `is_high`
    distinguishes it from types of arrays, and `has_qdd` says whether its values are mutable.
    """

    __slots__ = ()

    is_high = False
    has_qdd = False


@pickled_as("ShapedArray")
class ShapedArray(AbstractValue):
    """The type of an array: shape, dtype, weak type, and along which mesh axes it may vary.

    Immutable; equal types are interchangeable. A `sharding` is accepted, but not part of the type.

    Raises: ValueError for an array of more than 2^63 - 1 bytes.
    """

    __slots__ = ("__weakref__", "_hash", "dtype", "shape", "varying", "weak_type")

    shape: Shape
    dtype: Any
    weak_type: bool
    varying: Varying

    def __init__(
        self,
        shape: Sequence[Dim],
        dtype: Any,
        weak_type: bool = False,
        varying: Varying = NOWHERE,
        *,
        sharding: Any = None,
    ) -> None:
        self.shape = tuple(shape)
        # The dtypes that users write are classes, such as `jnp.float32`, or names.
        self.dtype = dtypes.as_dtype(dtype) if isinstance(dtype, (type, str)) else dtype
        self.weak_type = weak_type
        self.varying = varying
        if shape:
            size = prod(self.shape)
            if size.__class__ is int and size > _SURELY:
                _check_addressable(self, size)
        self._hash = hash((self.shape, self.dtype, weak_type, varying))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            type(other) is ShapedArray
            and self._hash == other._hash
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.weak_type == other.weak_type
            and self.varying == other.varying
        )

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return product(self.shape)

    def with_(
        self,
        *,
        shape: Sequence[Dim] | None = None,
        dtype: Any = None,
        weak_type: bool | None = None,
        varying: Varying | None = None,
    ) -> ShapedArray:
        """Return a copy of the type with some parts replaced."""
        return ShapedArray(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.weak_type if weak_type is None else weak_type,
            self.varying if varying is None else varying,
        )

    def without_axis(self, axis: int) -> ShapedArray:
        """Return the type of the elements of a stack along an axis."""
        shape = self.shape
        return ShapedArray(
            shape[:axis] + shape[axis + 1 :], self.dtype, self.weak_type, self.varying
        )

    def with_axis(self, axis: int, size: Dim) -> ShapedArray:
        """Return the type of a stack of such values along a new axis."""
        shape = self.shape
        return ShapedArray(
            (*shape[:axis], size, *shape[axis:]), self.dtype, self.weak_type, self.varying
        )

    @property
    def split(self) -> tuple[Any, ...]:
        """The split of each axis: None, an Explicit axis of a mesh, or several."""
        return (None,) * len(self.shape)

    @property
    def sums(self) -> Sums:
        """Along which Explicit axes it is unreduced, and along which reduced."""
        return NO_SUMS

    def update(self, **changes: Any) -> ShapedArray:
        """Return a copy with another `shape`, `dtype` or `weak_type`.

        With a `sharding` it tells that along Explicit axes. Types have no `memory_space`.
        """
        values = {"shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type}
        place = changes.pop("sharding", None)
        changes.pop("memory_space", None)
        found = ShapedArray(**{**values, "varying": self.varying, **changes})
        return typed(found, place)  # type: ignore[no-any-return]

    @property
    def sharding(self) -> NamedSharding:
        """A sharding that splits nothing, over the mesh in force."""
        mesh = options().mesh
        over = EMPTY if mesh is None else mesh.abstract_mesh
        return NamedSharding(over, PartitionSpec(*[None] * len(self.shape)))

    @property
    def vma(self) -> Varying:
        """The mesh axes along which the array may vary, inside `shard_map`."""
        return self.varying

    @property
    def mat(self) -> ManualAxisType:
        """What the type says about the Manual axes of the mesh, inside `shard_map`."""
        return ManualAxisType(varying=self.varying)

    def to_tangent_aval(self) -> ShapedArray:
        """Return the type of a tangent."""
        return self.tangent()

    def to_cotangent_aval(self) -> ShapedArray:
        """Return the type of a cotangent."""
        return self.tangent()

    to_ct_aval = to_cotangent_aval

    def normalize(self) -> ShapedArray:
        """Return the type used in comparisons: the strong one."""
        return self.strip_weak_type()

    def lo_ty(self) -> list[ShapedArray]:
        """Return the types of the arrays that a value consists of: this one."""
        return [self]

    def lower_val(self, value: Any) -> list[Any]:
        """Return the arrays that a value consists of: itself."""
        return [value]

    def raise_val(self, value: Any) -> Any:
        """Return the value that consists of an array: itself."""
        return value

    def dec_rank(self, size: Any, spec: int | None) -> ShapedArray:
        """Return the type of the elements of a stack along an axis; None if it is not a stack."""
        return self if spec is None else self.without_axis(spec)

    def inc_rank(self, size: Any, spec: int | None) -> ShapedArray:
        """Return the type of a stack along an axis; None means no stack."""
        return self if spec is None else self.with_axis(spec, size)

    def leading_axis_spec(self) -> int:
        """Return the first axis."""
        return 0

    def strip_weak_type(self) -> ShapedArray:
        """Return the strong type."""
        return self.with_(weak_type=False) if self.weak_type else self

    def tangent(self) -> ShapedArray:
        """Return the type of a tangent: the same for inexact dtypes, float0 for others."""
        if dtypes.issubdtype(self.dtype, np.inexact):
            return self
        return ShapedArray(self.shape, dtypes.float0, varying=self.varying)

    def physical(self) -> ShapedArray:
        """Return the type of the data: one plain element per element of an extended dtype."""
        if not dtypes.is_extended(self.dtype):
            return self
        return ShapedArray(self.shape, self.dtype.physical_dtype, varying=self.varying)

    def same_type(self, other: ShapedArray) -> bool:
        """Tell whether two arrays have the same shape and dtype."""
        return self.shape == other.shape and self.dtype == other.dtype

    def str_short(self, *, short_dtypes: bool = True) -> str:
        """Return `f32[3,4]`, or `float32[3,4]`."""
        name = dtypes.short_name(self.dtype) if short_dtypes else dtypes.long_name(self.dtype)
        return f"{name}[{','.join(map(str, self.shape))}]"

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short(short_dtypes=False)}{weak})"

    def __str__(self) -> str:
        return self.str_short(short_dtypes=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced("ShapedArray", self.shape, self.dtype, self.weak_type, self.varying)


def _check_addressable(aval: ShapedArray, size: int) -> None:
    count = size * int(aval.dtype.itemsize)
    if count > _ADDRESSABLE:
        raise ValueError(
            three_lines(
                f"an array {aval} of {count} bytes ({count / 2**60:.3g} EiB) at {current_source()}",
                f"array is too big: at most {_ADDRESSABLE} bytes have addresses",
                "use smaller sizes, or reduce part by part (lax.scan, lax.map) without the array",
            )
        )


Split = tuple[Any, ...]
"""For each axis of an array: None, the name of a mesh axis, or a tuple of names."""


class ShardedArray(ShapedArray):
    """The type of an array that mesh axes split, as `split` says.

    `placing` is the sharding over the mesh, with devices if it has some. The `sharding` that users
    see is over the mesh without devices, as in JAX.

    Raises: ShardingTypeError for a mesh axis that splits two axes, or an indivisible size.
    """

    __slots__ = ("placing", "split", "sums")

    placing: NamedSharding
    split: Split
    sums: Sums

    def __init__(
        self,
        shape: Sequence[Dim],
        dtype: Any,
        weak_type: bool = False,
        varying: Varying = NOWHERE,
        *,
        mesh: Any,
        split: Split,
        sums: Sums = NO_SUMS,
    ) -> None:
        super().__init__(shape, dtype, weak_type, varying)
        self.split = split
        self.sums = sums
        names = [name for entry in split for name in axes_of(entry)]
        if len(names) != len(set(names)):
            raise ShardingTypeError(
                three_lines(
                    f"the type {self} at {current_source()}",
                    "a mesh axis would split two axes of the array",
                    "say how it is to be sharded with out_sharding=, or reshard an operand: "
                    "kiln.reshard(x, P(...))",
                )
            )
        for size, entry in zip(self.shape, split, strict=True):
            parts = math.prod(mesh.shape[name] for name in axes_of(entry))
            if parts > 1 and isinstance(size, int) and size % parts:
                raise ShardingTypeError(
                    three_lines(
                        f"the type {self} at {current_source()}",
                        f"an axis of size {size} cannot be split into {parts} equal parts",
                        "say how it is to be sharded with out_sharding=, or reshard an operand: "
                        "kiln.reshard(x, P(...))",
                    )
                )
        self.placing = NamedSharding(mesh, PartitionSpec(*split, **sums._asdict()))
        self._hash = hash((self._hash, self.placing))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            type(other) is ShardedArray
            and self._hash == other._hash
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.weak_type == other.weak_type
            and self.varying == other.varying
            and self.placing == other.placing
        )

    def to_cotangent_aval(self) -> ShapedArray:
        """Return the type of a cotangent."""
        return dual(self.tangent())  # type: ignore[no-any-return]

    to_ct_aval = to_cotangent_aval

    @property
    def sharding(self) -> NamedSharding:
        """The sharding, over the mesh without devices."""
        return NamedSharding(self.placing.mesh.abstract_mesh, self.placing.spec)

    def with_(
        self,
        *,
        shape: Sequence[Dim] | None = None,
        dtype: Any = None,
        weak_type: bool | None = None,
        varying: Varying | None = None,
    ) -> ShapedArray:
        """Return a copy with some parts replaced.

        Raises: ShardingTypeError for another shape, whose sharding is unknown.
        """
        if shape is not None and tuple(shape) != self.shape:
            raise ShardingTypeError(
                three_lines(
                    f"the type {self} with shape {tuple(shape)} at {current_source()}",
                    "the type does not determine how an array of that shape is sharded",
                    "reshard the operand, kiln.reshard(x, P()), or wrap the function with "
                    "kiln.sharding.auto_axes(function, out_sharding=P(...))",
                )
            )
        return ShardedArray(
            self.shape,
            self.dtype if dtype is None else dtype,
            self.weak_type if weak_type is None else weak_type,
            self.varying if varying is None else varying,
            mesh=self.placing.mesh,
            split=self.split,
            sums=self.sums,
        )

    def update(self, **changes: Any) -> ShapedArray:
        """Return a copy with another `shape`, `dtype`, `weak_type` or `sharding`."""
        place = changes.pop("sharding", self.placing)
        return typed(plain(self).update(**changes), place)  # type: ignore[no-any-return]

    def without_axis(self, axis: int) -> ShapedArray:
        """Return the type of the elements of a stack along an axis."""
        return self._with_split(super().without_axis(axis), _dropped(self.split, axis))

    def with_axis(self, axis: int, size: Dim) -> ShapedArray:
        """Return the type of a stack of such values along a new axis, which nothing splits."""
        split = (*self.split[:axis], None, *self.split[axis:])
        return self._with_split(super().with_axis(axis, size), split)

    def _with_split(self, aval: ShapedArray, split: Split) -> ShapedArray:
        return with_split(aval, self.placing.mesh, split, self.sums)

    def tangent(self) -> ShapedArray:
        """Return the type of a tangent."""
        found = plain(self).tangent()
        return self if found.dtype == self.dtype else found

    def physical(self) -> ShapedArray:
        """Return the type of the data, without a sharding."""
        return plain(self).physical()  # type: ignore[no-any-return]

    def str_short(self, *, short_dtypes: bool = True) -> str:
        """Return `f32[8@x,2]`, or `float32[8@(x,y),2]`."""
        name = plain(self).with_(shape=()).str_short(short_dtypes=short_dtypes)
        axes = []
        for size, entry in zip(self.shape, self.split, strict=True):
            by = f"({','.join(map(str, entry))})" if isinstance(entry, tuple) else entry
            axes.append(f"{size}" if entry is None else f"{size}@{by}")
        marks = [
            f"{mark}:{','.join(sorted(map(str, names)))}"
            for mark, names in zip("UR", self.sums, strict=True)
            if names
        ]
        return f"{name[:-2]}[{','.join(axes)}]{'{' + ', '.join(marks) + '}' if marks else ''}"

    def __reduce__(self) -> tuple[Any, ...]:
        parts = self.shape, self.dtype, self.weak_type, self.varying, self.placing.mesh, self.split
        return reduced("ShardedArray", *parts, *self.sums)


@pickled_as("ShardedArray")
def _sharded_array(
    shape: Any, dtype: Any, weak_type: bool, varying: Any, mesh: Any, split: Any, *sums: Varying
) -> ShardedArray:
    return ShardedArray(shape, dtype, weak_type, varying, mesh=mesh, split=split, sums=Sums(*sums))


def _dropped(split: Split, axis: int) -> Split:
    return split[:axis] + split[axis + 1 :]


def plain(aval: Any) -> Any:
    """Return a type without a sharding; the same object if it has none already."""
    if type(aval) is not ShardedArray:
        return aval
    return ShapedArray(aval.shape, aval.dtype, aval.weak_type, aval.varying)


def with_split(
    aval: ShapedArray, mesh: Any, split: Sequence[Any], sums: Sums = NO_SUMS
) -> ShapedArray:
    """Return a type that holds how mesh axes split its axes, and along which it is a partial sum.

    Raises: ShardingTypeError for a mesh axis that splits two axes, or an indivisible size.
    """
    entries = tuple(split)
    if not any(entries) and sums == NO_SUMS:
        return plain(aval)  # type: ignore[no-any-return]
    return ShardedArray(
        aval.shape, aval.dtype, aval.weak_type, aval.varying, mesh=mesh, split=entries, sums=sums
    )


def dual(aval: Any) -> Any:
    """Return the type of a cotangent of values of a type: a partial sum for a reduced value."""
    if type(aval) is not ShardedArray or aval.sums == NO_SUMS:
        return aval
    return with_split(aval, aval.placing.mesh, aval.split, aval.sums.dual)


def typed(aval: Any, sharding: Sharding | None) -> Any:
    """Return the type of an array with a sharding: how Explicit axes split the array."""
    if sharding is None or not sharding.is_explicit:
        return plain(aval)
    assert isinstance(sharding, NamedSharding)
    mesh = sharding.mesh
    explicit = mesh.explicit_axes
    entries = [_only(entry, explicit) for entry in sharding.spec]
    entries += [None] * (aval.ndim - len(entries))
    spec = sharding.spec
    if not (spec.unreduced or spec.reduced):
        return with_split(aval, mesh, entries)
    sums = Sums(spec.unreduced.intersection(explicit), spec.reduced.intersection(explicit))
    return with_split(aval, mesh, entries, sums)


def _only(entry: Any, names: Sequence[Any]) -> Any:
    if entry is None or entry is UNCONSTRAINED:
        return None
    found = tuple(name for name in axes_of(entry) if name in names)
    return None if not found else found[0] if len(found) == 1 else found
