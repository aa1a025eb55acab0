"""Meshes (devices along named axes) and partition specs, as plain values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from kiln import _runtime
from kiln.base.errors import three_lines
from kiln.base.pickled import pickled_as, reduced
from kiln.base.process.identity import processes
from kiln.base.source import current_source
from kiln.ir.shardings.abstract_mesh import (
    EMPTY,
    AbstractDevice,
    AbstractMesh,
    AxisKinds,
    AxisType,
    axis_types_for,
)


class _Unconstrained:
    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced("UNCONSTRAINED")


UNCONSTRAINED = _Unconstrained()


@pickled_as("UNCONSTRAINED")
def _unconstrained() -> Any:
    return UNCONSTRAINED


class PartitionSpec:
    """Which mesh axes shard which dimension: per dimension None, an axis name, or several names.

    `P.UNCONSTRAINED` leaves a dimension to the compiler, in `with_sharding_constraint`. Along an
    `unreduced` axis each device holds a partial sum; along a `reduced` one all hold the same value,
    and gradients are unreduced.

    Raises: ValueError for an axis in two places, or a name None.
    Example:
        >>> kiln.P("rows", None), kiln.P(("a", "b"))
        (P('rows', None), P(('a', 'b')))
    """

    __slots__ = ("entries", "reduced", "unreduced")
    UNCONSTRAINED: ClassVar[Any] = UNCONSTRAINED

    def __init__(
        self, *entries: Any, unreduced: Collection[Any] = (), reduced: Collection[Any] = ()
    ) -> None:
        self.entries = tuple(_entry(e) for e in entries)
        self.unreduced = frozenset(unreduced)
        self.reduced = frozenset(reduced)
        if self.unreduced or self.reduced:
            self._check()

    def _check(self) -> None:
        splitting = {name for entry in self.entries for name in axes_of(entry)}
        wrong = ""
        for kind, names in (("unreduced", self.unreduced), ("reduced", self.reduced)):
            if None in names:
                wrong = f"{kind} cannot contain None. Got {set(names)}"
            elif names & splitting:
                wrong = f"partitions cannot overlap with {kind} axes: {set(names & splitting)}"
        if self.unreduced & self.reduced:
            wrong = f"unreduced and reduced axes overlap: {set(self.unreduced & self.reduced)}"
        if wrong:
            raise ValueError(
                three_lines(
                    f"PartitionSpec of {self.entries}, unreduced={set(self.unreduced)}, "
                    f"reduced={set(self.reduced)} at {current_source()}",
                    wrong,
                    "name each mesh axis once",
                )
            )

    def update(self, **changes: Any) -> PartitionSpec:
        """Return a spec with other `partitions`, `unreduced` or `reduced` axes."""
        entries = changes.pop("partitions", self.entries)
        sums = {"unreduced": self.unreduced, "reduced": self.reduced, **changes}
        return PartitionSpec(*entries, **sums)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: Any) -> Any:
        return self.entries[index]

    def index(self, value: Any) -> int:
        """Return the first dimension with an entry.

        Raises: ValueError if there is none.
        """
        return self.entries.index(_entry(value))

    def count(self, value: Any) -> int:
        """Return the number of dimensions with an entry."""
        return self.entries.count(_entry(value))

    def __init_subclass__(cls) -> None:
        raise TypeError(
            three_lines(
                f"class {cls.__name__} at {current_source()}",
                "Subclassing `jax.P` is prohibited: specs are compared by value",
                "write a function that returns a PartitionSpec",
            )
        )

    def __add__(self, other: Any) -> PartitionSpec:
        return self._with(other, (*self.entries, *other), "__add__")

    def __radd__(self, other: Any) -> PartitionSpec:
        return self._with(other, (*other, *self.entries), "__radd__")

    def _with(self, other: Any, entries: Any, method: str) -> PartitionSpec:
        unreduced, reduced = self.unreduced, self.reduced
        if isinstance(other, PartitionSpec):
            unreduced, reduced = unreduced | other.unreduced, reduced | other.reduced
        elif unreduced or reduced:
            kind = "unreduced" if unreduced else "reduced"
            raise TypeError(
                three_lines(
                    f"{self} and {other} added at {current_source()}",
                    f"{kind} in `{method}` of PartitionSpec needs a PartitionSpec on both sides",
                    "write spec.update(partitions=(...))",
                )
            )
        return PartitionSpec(*entries, unreduced=unreduced, reduced=reduced)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PartitionSpec):
            return self._key() == other._key()
        return isinstance(other, tuple) and self._key() == (other, frozenset(), frozenset())

    def __hash__(self) -> int:
        return hash(self.entries)

    def _key(self) -> tuple[Any, ...]:
        return self.entries, self.unreduced, self.reduced

    def __repr__(self) -> str:
        more = [
            f"{name}={set(axes)}"
            for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced))
            if axes
        ]
        return f"P({', '.join([*map(repr, self.entries), *more])})"

    def __reduce__(self) -> tuple[Any, ...]:
        sums = [tuple(sorted(names, key=str)) for names in (self.unreduced, self.reduced)]
        return reduced("PartitionSpec", self.entries, *sums)


@pickled_as("PartitionSpec")
def _spec(entries: Any, unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*entries, unreduced=unreduced, reduced=reduced)


def _entry(entry: Any) -> Any:
    if isinstance(entry, (list, tuple)):
        names = tuple(entry)
        if any(isinstance(name, (list, tuple)) for name in names):
            raise ValueError(
                three_lines(
                    f"PartitionSpec with the entry {entry} at {current_source()}",
                    "A tuple inside PartitionSpec cannot contain a nested tuple",
                    "name the mesh axes that split one dimension in one tuple",
                )
            )
        return None if not names else names[0] if len(names) == 1 else names
    return entry


def axes_of(entry: Any) -> tuple[Any, ...]:
    """Return the mesh axes that one entry of a PartitionSpec names."""
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


class Mesh(AxisKinds, _runtime.OptionValue):
    """Devices arranged in a grid whose axes have names.

    As a context (`with mesh:`) it is the mesh that a bare PartitionSpec refers to. `axis_types` say
    for each axis who decides what is split along it; for Explicit ones, the types of arrays do.

    Raises: ValueError if names and axes differ in number, or a name or device is repeated.
    """

    option = "mesh"

    def __init__(
        self, devices: Any, axis_names: str | Sequence[Any], axis_types: Any = None
    ) -> None:
        self.devices = np.array(devices, dtype=object)
        self.devices.flags.writeable = False
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        self.axis_names: tuple[Any, ...] = names
        asked = (
            f"Mesh of devices of shape {self.devices.shape} with axis_names={names} "
            f"at {current_source()}"
        )
        if None in names:
            raise ValueError(
                three_lines(asked, "Mesh axis names cannot be None.", "name each axis by a string")
            )
        if len(names) != self.devices.ndim:
            raise ValueError(
                three_lines(
                    asked,
                    "Mesh requires the ndim of its first argument (devices) to equal the length of "
                    f"its second (axis_names), but got {self.devices.ndim} and {len(names)}",
                    "reshape the devices, or give one name per axis",
                )
            )
        if len(set(names)) != len(names):
            raise ValueError(
                three_lines(asked, "an axis name comes twice", "give each axis its own name")
            )
        self.axis_types = axis_types_for(names, axis_types, "Mesh")
        self.is_explicit = AxisType.Explicit in self.axis_types
        # A mesh without axes has no devices.
        self._flat: tuple[Any, ...] = tuple(self.devices.flat) if names else ()
        if len(set(self._flat)) != len(self._flat):
            raise ValueError(
                three_lines(asked, "a device comes twice", "give every place a device of its own")
            )
        self._key = (self.axis_names, self.devices.shape, self._flat, self.axis_types)
        self._hash = hash(self._key)

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self.devices.shape

    @property
    def size(self) -> int:
        """The number of devices."""
        return len(self._flat)

    @property
    def flat(self) -> tuple[Any, ...]:
        """The devices in row-major order."""
        return self._flat

    @property
    def device_ids(self) -> np.ndarray:
        """The ids of the devices, in the shape of the mesh."""
        ids = np.array([d.id for d in self._flat], dtype=np.int64)
        return ids.reshape(self.devices.shape)

    @property
    def empty(self) -> bool:
        """Whether the mesh has no devices."""
        return self.size == 0

    @property
    def abstract_mesh(self) -> AbstractMesh:
        """The axes without the devices."""
        if not self.axis_names:
            return EMPTY
        first = self._flat[0]
        device = AbstractDevice(getattr(first, "device_kind", ""), None, first.platform)
        return AbstractMesh(
            self.axis_sizes, self.axis_names, self.axis_types, abstract_device=device
        )

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh in this process.

        Raises: ValueError if its devices are not a block of the mesh.
        """
        if not self.is_multi_process:
            return self
        here = processes().index
        is_local = np.array([d.process_index == here for d in self._flat], dtype=bool)
        places = np.nonzero(is_local.reshape(self.devices.shape))
        block = self.devices[np.ix_(*[np.unique(along) for along in places])]
        if not block.size or block.size != is_local.sum():
            raise ValueError(
                three_lines(
                    f"local_mesh of {self} at {current_source()}",
                    f"the devices of process {here} in it do not form a block along its axes",
                    "order the devices by process: kiln.make_mesh does",
                )
            )
        return Mesh(block, self.axis_names, self.axis_types)

    @property
    def local_devices(self) -> list[Any]:
        """The devices of this process."""
        here = processes()
        return [d for d in self._flat if here.count == 1 or d.process_index == here.index]

    @property
    def is_multi_process(self) -> bool:
        """Whether other processes own devices of the mesh."""
        return processes().count > 1 and len(self.local_devices) != len(self._flat)

    def update(self, devices: Any = None, axis_names: Any = None, axis_types: Any = None) -> Mesh:
        """Return a mesh with other devices, names or kinds of axes."""
        return Mesh(
            self.devices if devices is None else devices,
            self.axis_names if axis_names is None else axis_names,
            self.axis_types if axis_types is None else axis_types,
        )

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Mesh) and self._hash == other._hash and self._key == other._key
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return (
            f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names}, "
            f"axis_types={self.axis_types})"
        )

    def __str__(self) -> str:
        sizes = "".join(f"{name!r}: {size}, " for name, size in self.shape.items())
        return f"Mesh({sizes}axis_types={self.axis_types})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Not as an array of objects: NumPy crashes on a corrupted pickle of one.
        return reduced("Mesh", self._flat, self.axis_sizes, self.axis_names, self.axis_types)


@pickled_as("Mesh")
def _mesh(
    flat: Sequence[Any], sizes: Sequence[int], axis_names: Sequence[Any], axis_types: Any = None
) -> Mesh:
    devices = np.empty(len(flat), dtype=object)
    devices[:] = flat
    return Mesh(devices.reshape(sizes), axis_names, axis_types)
