"""Shardings: which device holds which part of an array, as plain values.

A sharding splits an array into equal blocks and says which device holds which block. Devices are
defined by engines: hashable objects with an `id` and a `platform`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.lazy import sharding_pictures
from kiln.base.named_tuples import NamedTuple
from kiln.base.pickled import pickled_as, reduced
from kiln.base.process.identity import Processes, processes
from kiln.base.source import current_source
from kiln.ir.shardings.abstract_mesh import AbstractMesh, AxisType
from kiln.ir.shardings.mesh import UNCONSTRAINED, Mesh, PartitionSpec, axes_of

Index = tuple[slice, ...]


class Blocks(NamedTuple):
    """How an array is split: how many blocks per dimension, and which device holds which.

    `at` has the block's coordinates for each device, in the sharding's order of devices.
    """

    parts: tuple[int, ...]
    at: tuple[tuple[int, ...], ...]


class Sharding:
    """How an array is distributed. `devices` are in the order in which programs number them."""

    devices: tuple[Any, ...]
    memory_kind: str | None = None
    is_explicit = False
    """Whether it is over a mesh with Explicit axes."""
    unreduced: frozenset[Any] = frozenset()
    """The mesh axes along which each device holds a partial sum."""

    def blocks(self, ndim: int) -> Blocks:
        """Return how an array of rank `ndim` is split."""
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
        return frozenset([self.devices[i] for i in self.addressable_order])

    @property
    def addressable_order(self) -> Sequence[int]:
        """Which of the devices belong to this process, by their numbers in `devices`."""
        here = processes()
        if here.count == 1:
            return range(len(self.devices))
        return _order_in(self, here)

    @property
    def _addressable_device_assignment(self) -> tuple[Any, ...]:
        # Libraries read it from JAX's shardings.
        return tuple([self.devices[i] for i in self.addressable_order])

    @property
    def _device_assignment(self) -> tuple[Any, ...]:
        # JAX's tests read it.
        return self.devices

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all devices belong to this process."""
        return processes().count == 1 or len(self.addressable_order) == len(self.devices)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        raise NotImplementedError

    def holders(self) -> tuple[bool, ...] | None:
        """Tell for each device whether it holds the values of an array.

        The others hold zeros, which are summed too. None if nothing is unreduced.
        """
        return None

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of one block.

        Raises: ValueError if the array cannot be sharded this way.
        """
        require_fit(self, global_shape, "shard_shape")
        parts = self.blocks(len(global_shape)).parts
        return tuple(n // p for n, p in zip(global_shape, parts, strict=True))

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """Return which part of an array each device holds.

        Raises: ValueError if the array cannot be sharded this way.
        """
        return dict(zip(self.devices, self.indices(global_shape), strict=True))

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> dict[Any, Index]:
        """Return which part of an array each device of this process holds."""
        indices = self.addressable_indices(global_shape)
        return {
            self.devices[i]: index for i, index in zip(self.addressable_order, indices, strict=True)
        }

    def indices(self, shape: Sequence[int]) -> list[Index]:
        """Return the parts of an array, in the order of the devices."""
        return self._indices(shape, range(len(self.devices)))

    def addressable_indices(self, shape: Sequence[int]) -> list[Index]:
        """Return the parts of an array that this process holds, in the order of the devices."""
        return self._indices(shape, self.addressable_order)

    def _indices(self, shape: Sequence[int], which: Sequence[int]) -> list[Index]:
        sizes = self.shard_shape(shape)
        parts, at = self.blocks(len(shape))
        return [
            tuple(
                [
                    slice(None) if p == 1 else slice(i * n, (i + 1) * n)
                    for i, n, p in zip(at[device], sizes, parts, strict=True)
                ]
            )
            for device in which
        ]

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Tell whether two shardings put the same parts of arrays of rank `ndim` on each device."""
        if self == other:
            return True
        if self.unreduced or other.unreduced:
            if self.unreduced != other.unreduced or self.holders() != other.holders():
                return False
        mine, theirs = self.blocks(ndim), other.blocks(ndim)
        return mine.parts == theirs.parts and dict(zip(self.devices, mine.at, strict=True)) == dict(
            zip(other.devices, theirs.at, strict=True)
        )


@functools.lru_cache(1024)
def _order_in(sharding: Sharding, here: Processes) -> Sequence[int]:
    # It is asked for many times for each array, and each time would look at all devices.
    return tuple([i for i, d in enumerate(sharding.devices) if d.process_index == here.index])


@pickled_as("SingleDeviceSharding")
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
        return reduced("SingleDeviceSharding", *self.devices)


@pickled_as("NamedSharding")
class NamedSharding(Sharding):
    """A mesh, and which of its axes shard which dimension; the others replicate the array.

    Raises: ValueError for a name that the mesh does not have, or that is used twice.
    Example:
        >>> mesh = kiln.make_mesh((1,), ("i",))
        >>> kiln.device_put(jnp.arange(4), kiln.NamedSharding(mesh, kiln.P("i"))).sharding.spec
        P('i')
    """

    def __init__(
        self,
        mesh: Mesh | AbstractMesh,
        spec: PartitionSpec | tuple[Any, ...],
        *,
        memory_kind: str | None = None,
    ) -> None:
        if spec is None:
            raise TypeError(
                three_lines(
                    f"NamedSharding({mesh}, None) at {current_source()}",
                    "Unexpected None passed as spec for NamedSharding",
                    "write NamedSharding(mesh, P()) for an array that each device holds whole",
                )
            )
        self.mesh: Any = mesh
        self.spec = spec if isinstance(spec, PartitionSpec) else PartitionSpec(*spec)
        self.devices = mesh.flat
        self.is_explicit = mesh.is_explicit
        self._hash = hash((mesh, self.spec))
        self._blocks: dict[int, Blocks] = {}
        if self.spec.unreduced or self.spec.reduced:
            self.unreduced = self.spec.unreduced
            self._check_sums()
        if UNCONSTRAINED in self.spec.entries and not mesh.auto_axes and not mesh.empty:
            raise ValueError(
                three_lines(
                    f"NamedSharding({mesh}, {self.spec}) at {current_source()}",
                    f"{self.spec} cannot contain `P.UNCONSTRAINED` when no mesh axis_types are "
                    "`Auto`: nothing is left to the compiler",
                    "name mesh axes, or None",
                )
            )
        seen: set[Any] = set()
        for name in itertools.chain.from_iterable(map(axes_of, self.spec)):
            if name not in mesh.axis_names:
                raise ValueError(
                    three_lines(
                        f"NamedSharding({mesh}, {self.spec}) at {current_source()}",
                        f"Resource axis: {name} of {self.spec} is not found in mesh: "
                        f"{mesh.axis_names}.",
                        "use the names of the mesh's axes",
                    )
                )
            if name in seen:
                raise ValueError(
                    three_lines(
                        f"NamedSharding({mesh}, {self.spec}) at {current_source()}",
                        f"{self.spec} has duplicate entries for `{name}`: a mesh axis can shard at "
                        "most one dimension",
                        "name each axis once",
                    )
                )
            seen.add(name)

    def _check_sums(self) -> None:
        mesh, spec = self.mesh, self.spec
        kinds = dict(zip(mesh.axis_names, mesh.axis_types, strict=True))
        for kind, names in (("Unreduced", spec.unreduced), ("Reduced", spec.reduced)):
            wrong = ""
            if names - kinds.keys():
                wrong = f"{kind} axes {set(names)} not found in mesh: {mesh.axis_names}."
            elif any(kinds[name] is AxisType.Auto for name in names):
                wrong = (
                    f"{kind} axes can only refer to mesh axes that are of type `Explicit`. Got "
                    f"{set(names)} and mesh axis types: {mesh.axis_types}"
                )
            if wrong:
                raise ValueError(
                    three_lines(
                        f"NamedSharding({mesh}, {spec}) at {current_source()}",
                        wrong,
                        "name Explicit axes: make_mesh(..., axis_types=(AxisType.Explicit, ...))",
                    )
                )

    def holders(self) -> tuple[bool, ...] | None:
        """Tell for each device whether it is the first along the unreduced axes."""
        if not self.unreduced:
            return None
        last = [self.mesh.axis_names.index(name) for name in self.unreduced]
        return tuple(not any(at[i] for i in last) for at in np.ndindex(self.mesh.axis_sizes))

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        if self.unreduced:
            return False
        shape = self.mesh.shape
        return all(shape[name] == 1 for entry in self.spec for name in axes_of(entry))

    def update(self, **changes: Any) -> NamedSharding:
        """Return a sharding with another `mesh`, `spec` or `memory_kind`."""
        values = {"mesh": self.mesh, "spec": self.spec, "memory_kind": self.memory_kind, **changes}
        return NamedSharding(**values)

    def for_rank(self, ndim: int) -> NamedSharding:
        """Return the same sharding with an entry for each axis of arrays of rank `ndim`."""
        missing = ndim - len(self.spec)
        entries = (*self.spec, *[None] * missing)
        return self.update(spec=self.spec.update(partitions=entries)) if missing > 0 else self

    def blocks(self, ndim: int) -> Blocks:
        """Return how an array of rank `ndim` is split."""
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

    def _repr_html_(self) -> str | None:
        # One element for each part, of as many dimensions as the spec names.
        ndim = max(1, len(self.spec))
        return sharding_pictures.sharding_svg(self.blocks(ndim).parts, self) if ndim <= 2 else None

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name!r}: {size}" for name, size in self.mesh.shape.items())
        return f"NamedSharding(mesh=Mesh({sizes}), spec={self.spec})"

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced("NamedSharding", self.mesh, self.spec)


@functools.lru_cache(256)
def simplest(sharding: Sharding) -> Sharding:
    """Return the sharding by which a compiler names the same parts.

    Its specification has no mesh axes of size 1, and no entries that shard nothing at its end. On
    meshes of one device programs keep the names.
    """
    if not isinstance(sharding, NamedSharding) or sharding.is_explicit:
        return sharding
    if len(sharding.devices) == 1:
        return sharding
    spec, sizes = sharding.spec, sharding.mesh.shape
    if spec.unreduced or spec.reduced or UNCONSTRAINED in spec.entries:
        return sharding
    kept: list[Any] = []
    for entry in spec:
        names = tuple(name for name in axes_of(entry) if sizes[name] > 1)
        kept.append(names if len(names) > 1 else names[0] if names else None)
    while kept and kept[-1] is None:
        kept.pop()
    found = spec.update(partitions=tuple(kept))
    return sharding if found == spec else sharding.update(spec=found)


def blocks_on(mesh: Mesh, axes: Sequence[Sequence[Any]]) -> Blocks:
    """Return how a mesh splits dimensions, each by the given axes."""
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
    """Return the sharding that splits like `blocks`, in terms of the mesh if possible."""
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
    """Return why an array of the given shape cannot be sharded this way; "" if it can."""
    if isinstance(sharding, NamedSharding) and len(sharding.spec) > len(shape):
        if not shape:
            return (
                f"For scalars the PartitionSpec should be P(): {sharding} is only valid for values "
                f"of rank at least {len(sharding.spec)}, but was applied to a value of rank 0"
            )
        return (
            f"{sharding} is only valid for values of rank at least {len(sharding.spec)}, "
            f"but was applied to a value of rank {len(shape)}"
        )
    counts = sharding.blocks(len(shape)).parts
    for axis, (size, parts) in enumerate(zip(shape, counts, strict=True)):
        if parts > 1 and isinstance(size, int) and size % parts:
            return (
                f"{sharding} splits axis {axis} into {parts} parts, which should evenly divide the "
                f"shape {tuple(shape)}: its size {size} is not divisible by {parts}"
            )
    return ""


def fitted(sharding: Sharding, shape: Sequence[Any]) -> Sharding:
    """Return the sharding without splits of dimensions that it cannot split into equal parts."""
    if not isinstance(sharding, NamedSharding) or not misfit(sharding, shape):
        return sharding
    sizes = sharding.mesh.shape
    entries = [
        None
        if isinstance(size, int) and size % math.prod(sizes[name] for name in axes_of(entry))
        else entry
        for size, entry in zip(shape, sharding.spec, strict=False)
    ]
    entries += sharding.spec[len(shape) :]
    return sharding.update(spec=sharding.spec.update(partitions=entries))


def require_fit(sharding: Sharding, shape: Sequence[Any], asked: str, whose: str = "") -> None:
    """Raise ValueError unless an array of the given shape can be sharded this way.

    The message says `whose` sharding it is.
    """
    wrong = misfit(sharding, shape)
    if wrong:
        raise ValueError(
            three_lines(
                asked,
                f"{whose}{wrong}",
                "choose a PartitionSpec that fits, or pad the array to a divisible size",
            )
        )
