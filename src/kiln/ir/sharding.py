"""Where the parts of an array live: meshes, partition specs, shardings, all of them plain values.

A sharding cuts an array into equal blocks and says which device holds which block. Devices are
whatever an engine calls so: hashable objects with an `id` and a `platform`.
"""

from __future__ import annotations

import collections
import itertools
import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kiln.base.config import override
from kiln.base.errors import three_lines
from kiln.base.source import current_source

Index = tuple[slice, ...]


class _Unconstrained:
    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "UNCONSTRAINED"


UNCONSTRAINED = _Unconstrained()


class PartitionSpec:
    """Which mesh axes cut which dimension: per dimension None, an axis name, or several names.

    `P.UNCONSTRAINED` leaves a dimension to the compiler, in `with_sharding_constraint`.
    """

    __slots__ = ("entries",)
    UNCONSTRAINED: ClassVar[Any] = UNCONSTRAINED

    def __init__(self, *entries: Any) -> None:
        self.entries = tuple(_entry(e) for e in entries)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: Any) -> Any:
        return self.entries[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PartitionSpec):
            return self.entries == other.entries
        return isinstance(other, tuple) and self.entries == other

    def __hash__(self) -> int:
        return hash(self.entries)

    def __repr__(self) -> str:
        return f"P({', '.join(map(repr, self.entries))})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PartitionSpec, self.entries


def _entry(entry: Any) -> Any:
    if isinstance(entry, (list, tuple)):
        names = tuple(entry)
        return None if not names else names[0] if len(names) == 1 else names
    return entry


def axes_of(entry: Any) -> tuple[Any, ...]:
    """Return the mesh axes that one entry of a PartitionSpec names."""
    if entry is None or entry is UNCONSTRAINED:
        return ()
    return entry if isinstance(entry, tuple) else (entry,)


class _Entered(threading.local):
    """The contexts of `with mesh:` that this thread is in."""

    def __init__(self) -> None:
        self.contexts: list[AbstractContextManager[None]] = []


_entered = _Entered()


class Mesh:
    """Devices arranged in a grid whose axes have names.

    As a context (`with mesh:`) it is the mesh that a bare PartitionSpec speaks of.

    Raises: ValueError if names and axes differ in number, or a name or a device comes twice.
    """

    def __init__(self, devices: Any, axis_names: str | Sequence[Any]) -> None:
        self.devices = np.array(devices, dtype=object)
        self.devices.flags.writeable = False
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        self.axis_names: tuple[Any, ...] = names
        asked = (
            f"Mesh of devices of shape {self.devices.shape} with axis_names={names} "
            f"at {current_source()}"
        )
        if len(names) != self.devices.ndim:
            raise ValueError(
                three_lines(
                    asked,
                    f"{self.devices.ndim} axes of devices need as many names, got {len(names)}",
                    "reshape the devices, or give one name per axis",
                )
            )
        if len(set(names)) != len(names):
            raise ValueError(
                three_lines(asked, "an axis name comes twice", "give each axis its own name")
            )
        self._flat: tuple[Any, ...] = tuple(self.devices.flat)
        if len(set(self._flat)) != len(self._flat):
            raise ValueError(
                three_lines(asked, "a device comes twice", "give every place a device of its own")
            )
        self._key = (self.axis_names, self.devices.shape, self._flat)
        self._hash = hash(self._key)

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return self.devices.shape

    @property
    def shape(self) -> collections.OrderedDict[Any, int]:
        """Axis name -> size."""
        return collections.OrderedDict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        """The number of devices."""
        return self.devices.size

    @property
    def flat(self) -> tuple[Any, ...]:
        """The devices in row-major order."""
        return self._flat

    @property
    def device_ids(self) -> np.ndarray:
        """The numbers of the devices, in the shape of the mesh."""
        ids = np.array([d.id for d in self._flat], dtype=np.int64)
        return ids.reshape(self.devices.shape)

    @property
    def empty(self) -> bool:
        """Whether the mesh has no devices."""
        return self.size == 0

    def __enter__(self) -> Mesh:
        context = override(mesh=self)
        context.__enter__()
        _entered.contexts.append(context)
        return self

    def __exit__(self, *error: Any) -> None:
        _entered.contexts.pop().__exit__(*error)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Mesh) and self._hash == other._hash and self._key == other._key
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Mesh(axis_sizes={self.axis_sizes}, axis_names={self.axis_names})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Not as an array of objects: NumPy crashes on a spoilt pickle of one.
        return _mesh, (self._flat, self.axis_sizes, self.axis_names)


def _mesh(flat: Sequence[Any], sizes: Sequence[int], axis_names: Sequence[Any]) -> Mesh:
    devices = np.empty(len(flat), dtype=object)
    devices[:] = flat
    return Mesh(devices.reshape(sizes), axis_names)


class Blocks(NamedTuple):
    """How an array is cut: into how many parts along each dimension, and who holds which.

    `at` has the block's coordinates for each device, in the sharding's order of devices.
    """

    parts: tuple[int, ...]
    at: tuple[tuple[int, ...], ...]


class Sharding:
    """Where an array lives. `devices` are in the order programs number them."""

    devices: tuple[Any, ...]
    memory_kind: str | None = None

    def blocks(self, ndim: int) -> Blocks:
        """Return how an array of rank `ndim` is cut."""
        raise NotImplementedError

    @property
    def device_set(self) -> frozenset[Any]:
        """The devices."""
        return frozenset(self.devices)

    @property
    def num_devices(self) -> int:
        """The number of devices."""
        return len(self.devices)

    @property
    def addressable_devices(self) -> frozenset[Any]:
        """The devices of this process."""
        return self.device_set

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices are this process's."""
        return True

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        raise NotImplementedError

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of one block.

        Raises: ValueError if the array cannot be cut this way.
        """
        require_fit(self, global_shape, "shard_shape")
        parts = self.blocks(len(global_shape)).parts
        return tuple(n // p for n, p in zip(global_shape, parts, strict=True))

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """Return what part of an array each device holds.

        Raises: ValueError if the array cannot be cut this way.
        """
        return dict(zip(self.devices, self.indices(global_shape), strict=True))

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """Return what part of an array each device of this process holds."""
        return self.devices_indices_map(global_shape)

    def indices(self, shape: Sequence[int]) -> list[Index]:
        """Return the parts of an array, in the order of the devices."""
        sizes = self.shard_shape(shape)
        parts, at = self.blocks(len(shape))
        return [
            tuple(
                slice(None) if p == 1 else slice(i * n, (i + 1) * n)
                for i, n, p in zip(place, sizes, parts, strict=True)
            )
            for place in at
        ]

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Tell whether two shardings put the same parts of arrays of rank `ndim` on each device."""
        if self == other:
            return True
        mine, theirs = self.blocks(ndim), other.blocks(ndim)
        return mine.parts == theirs.parts and dict(zip(self.devices, mine.at, strict=True)) == dict(
            zip(other.devices, theirs.at, strict=True)
        )


class SingleDeviceSharding(Sharding):
    """The whole array on one device."""

    def __init__(self, device: Any, *, memory_kind: str | None = None) -> None:
        self.devices = (device,)
        self._hash = hash(("single", device))

    @property
    def is_fully_replicated(self) -> bool:
        """Return True: there is only one block."""
        return True

    def blocks(self, ndim: int) -> Blocks:
        """Return one block."""
        return Blocks((1,) * ndim, ((0,) * ndim,))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and self.devices == other.devices

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self.devices[0]!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return SingleDeviceSharding, self.devices


class NamedSharding(Sharding):
    """A mesh, and which of its axes cut which dimension; along the others the array is repeated.

    Raises: ValueError for a name the mesh does not have, or one that is used twice.
    """

    def __init__(
        self, mesh: Mesh, spec: PartitionSpec | tuple[Any, ...], *, memory_kind: str | None = None
    ) -> None:
        self.mesh = mesh
        self.spec = spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec)
        self.devices = mesh.flat
        self._hash = hash((mesh, self.spec))
        self._blocks: dict[int, Blocks] = {}
        seen: set[Any] = set()
        for name in itertools.chain.from_iterable(map(axes_of, self.spec)):
            if name not in mesh.axis_names:
                raise ValueError(
                    three_lines(
                        f"NamedSharding({mesh}, {self.spec}) at {current_source()}",
                        f"Resource axis: {name} of {self.spec} is not found in mesh: "
                        f"{mesh.axis_names}",
                        "use the names of the mesh's axes",
                    )
                )
            if name in seen:
                raise ValueError(
                    three_lines(
                        f"NamedSharding({mesh}, {self.spec}) at {current_source()}",
                        f"{self.spec} has duplicate entries for `{name}`: a mesh axis can cut at "
                        "most one dimension",
                        "name each axis once",
                    )
                )
            seen.add(name)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        shape = self.mesh.shape
        return all(shape[name] == 1 for entry in self.spec for name in axes_of(entry))

    def blocks(self, ndim: int) -> Blocks:
        """Return how an array of rank `ndim` is cut."""
        found = self._blocks.get(ndim)
        if found is None:
            entries = [*self.spec, *[None] * (ndim - len(self.spec))][:ndim]
            found = self._blocks[ndim] = blocks_on(self.mesh, [axes_of(e) for e in entries])
        return found

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, NamedSharding)
            and self._hash == other._hash
            and self.mesh == other.mesh
            and self.spec == other.spec
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name!r}: {size}" for name, size in self.mesh.shape.items())
        return f"NamedSharding(mesh=Mesh({sizes}), spec={self.spec})"

    def __reduce__(self) -> tuple[Any, ...]:
        return NamedSharding, (self.mesh, self.spec)


def blocks_on(mesh: Mesh, axes: Sequence[Sequence[Any]]) -> Blocks:
    """Return how a mesh cuts dimensions by the given axes each."""
    sizes = mesh.shape
    parts = tuple(math.prod(sizes[name] for name in names) for names in axes)
    at = []
    for place in np.ndindex(mesh.axis_sizes):
        here = dict(zip(mesh.axis_names, place, strict=True))
        coordinates = []
        for names in axes:
            number = 0
            for name in names:
                number = number * sizes[name] + here[name]
            coordinates.append(number)
        at.append(tuple(coordinates))
    return Blocks(parts, tuple(at))


def named_like(devices: Sequence[Any], blocks: Blocks, mesh: Mesh | None) -> NamedSharding:
    """Return the sharding that cuts like `blocks`: in terms of the mesh if it can be said so."""
    if mesh is not None and set(mesh.flat) == set(devices):
        known = dict(zip(devices, blocks.at, strict=True))
        axes = _axes_like(mesh, blocks.parts, [known[d] for d in mesh.flat])
        if axes is not None:
            return NamedSharding(mesh, PartitionSpec(*_without_end(axes)))
    order = sorted(range(len(devices)), key=lambda i: blocks.at[i])
    copies = len(devices) // math.prod(blocks.parts)
    grid = np.array([devices[i] for i in order], dtype=object).reshape(*blocks.parts, copies)
    names = [f"dim{i}" for i in range(len(blocks.parts))]
    spec = [n if p > 1 else None for n, p in zip(names, blocks.parts, strict=True)]
    return NamedSharding(Mesh(grid, (*names, "copies")), PartitionSpec(*spec))


def _axes_like(
    mesh: Mesh, parts: Sequence[int], at: Sequence[tuple[int, ...]]
) -> list[tuple[Any, ...]] | None:
    sizes = mesh.shape
    usable = [name for name, size in sizes.items() if size > 1]
    found: list[tuple[Any, ...]] = []
    for dim, count in enumerate(parts):
        wanted = tuple((place[dim],) for place in at)
        candidates = (
            names
            for r in range(len(usable) + 1)
            for names in itertools.permutations(usable, r)
            if math.prod(sizes[n] for n in names) == count and blocks_on(mesh, [names]).at == wanted
        )
        names = next(candidates, None)
        if names is None:
            return None
        found.append(names)
    return found


def _without_end(axes: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    entries = list(axes)
    while entries and not entries[-1]:
        entries.pop()
    return entries


def misfit(sharding: Sharding, shape: Sequence[Any]) -> str:
    """Say why an array of the given shape cannot be cut this way; "" if it can."""
    if isinstance(sharding, NamedSharding) and len(sharding.spec) > len(shape):
        return (
            f"{sharding} is only valid for values of rank at least {len(sharding.spec)}, "
            f"but was applied to a value of rank {len(shape)}"
        )
    cuts = sharding.blocks(len(shape)).parts
    for axis, (size, parts) in enumerate(zip(shape, cuts, strict=True)):
        if parts > 1 and isinstance(size, int) and size % parts:
            return (
                f"{sharding} cuts axis {axis} into {parts} parts, but its size {size} is not "
                f"divisible by {parts} (the shape is {tuple(shape)})"
            )
    return ""


def fitted(sharding: Sharding, shape: Sequence[Any]) -> Sharding:
    """Return the sharding without the cuts of dimensions that it cannot cut into equal parts."""
    if not isinstance(sharding, NamedSharding) or not misfit(sharding, shape):
        return sharding
    sizes = sharding.mesh.shape
    entries = [
        None
        if isinstance(size, int) and size % math.prod(sizes[name] for name in axes_of(entry))
        else entry
        for size, entry in zip(shape, sharding.spec, strict=False)
    ]
    return NamedSharding(sharding.mesh, PartitionSpec(*entries, *sharding.spec[len(shape) :]))


def require_fit(sharding: Sharding, shape: Sequence[Any], asked: str) -> None:
    """Raise ValueError unless an array of the given shape can be cut this way."""
    wrong = misfit(sharding, shape)
    if wrong:
        raise ValueError(
            three_lines(
                asked,
                wrong,
                "choose a PartitionSpec that fits, or pad the array to a divisible size",
            )
        )
