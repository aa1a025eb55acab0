"""Shardings in StableHLO: Shardy's meshes and attributes.

Devices are numbered from 0 in the order of the placement that a program is compiled for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from kiln.base.named_tuples import NamedTuple
from kiln.core.engines.engine import Placement
from kiln.engines.xla.stablehlo import text
from kiln.ir.shardings.mesh import UNCONSTRAINED, Mesh, PartitionSpec, axes_of
from kiln.ir.shardings.sharding import NamedSharding, Sharding, named_like

HOST = "host"


class Manual(NamedTuple):
    """A region for one device of a mesh; `axes` are those it refers to by name."""

    mesh: Mesh
    axes: tuple[Any, ...]


class Partition:
    """The meshes of a module; none for a single device."""

    def __init__(self, placement: Placement | None) -> None:
        self.placement = placement if placement is not None and len(placement.devices) > 1 else None
        self.devices: tuple[Any, ...] = self.placement.devices if self.placement else ()
        self.manual: Manual | None = None
        self._symbols: dict[Mesh, str] = {}
        self._calls_host = False

    @property
    def count(self) -> int:
        """The number of partitions of the program."""
        return len(self.devices) or 1

    def inputs(self, ndims: Sequence[int]) -> list[str]:
        """Return the attribute of each input; "" where there is none."""
        if self.placement is None:
            return [""] * len(ndims)
        return [
            self.attribute(s, n) for s, n in zip(self.placement.in_shardings, ndims, strict=True)
        ]

    def outputs(self, ndims: Sequence[int]) -> list[str]:
        """Return the attribute of each output; "" where there is none."""
        if self.placement is None:
            return [""] * len(ndims)
        return [
            "" if s is None else self.attribute(s, n)
            for s, n in zip(self.placement.out_shardings, ndims, strict=True)
        ]

    def attribute(self, sharding: Sharding, ndim: int) -> str:
        """Return a sharding as an attribute of an argument or result."""
        return f"sdy.sharding = #sdy.sharding{self.body(sharding, ndim)}"

    def repeated(self, ndim: int) -> str:
        """Return the attribute of a replicated value."""
        return "" if self.placement is None else self.attribute(self._everywhere(), ndim)

    def whole(self, ndim: int) -> str:
        """Return the sharding of a replicated value; "" for a single device."""
        if self.placement is None or self.count == 1 or self.manual:
            return ""
        return self.body(self._everywhere(), ndim)

    def _everywhere(self) -> NamedSharding:
        assert self.placement is not None
        mesh = self.placement.mesh or Mesh(self.devices, "devices")
        return NamedSharding(mesh, PartitionSpec())

    def body(
        self,
        sharding: Sharding,
        ndim: int,
        *,
        open_dims: bool = False,
        whole: Collection[Any] = (),
    ) -> str:
        """Return `<@mesh, [{"x"}, {}]>`; with `open_dims`, others may be sharded further.

        But not along the axes in `whole`.
        """
        if not isinstance(sharding, NamedSharding):
            sharding = named_like(sharding.devices, sharding.blocks(ndim), None)
        entries = [*sharding.spec, *[None] * (ndim - len(sharding.spec))]
        more = ["?"] if open_dims else []
        dims = [
            "{?}"
            if entry is UNCONSTRAINED
            else "{" + ", ".join([*(f'"{name}"' for name in axes_of(entry)), *more]) + "}"
            for entry in entries
        ]
        sums = _listed(sharding.mesh, "replicated", whole)
        sums += _listed(sharding.mesh, "unreduced", sharding.unreduced)
        return f"<@{self._symbol(sharding.mesh)}, [{', '.join(dims)}]{sums}>"

    @contextmanager
    def inside(self, manual: Manual) -> Iterator[None]:
        """Emit operations for one device of a mesh, until the context ends."""
        outer, self.manual = self.manual, manual
        try:
            yield
        finally:
            self.manual = outer

    def numbers(self, mesh: Mesh) -> list[int]:
        """Return the program's numbers of the devices of a mesh, in the order of the mesh."""
        number = {device: i for i, device in enumerate(self.devices)}
        return [number[d] for d in mesh.flat]

    def groups(self, names: Sequence[Any]) -> list[list[int]]:
        """Return the groups of devices that communicate along mesh axes, by number.

        Within a group they are in row-major order of the named axes.
        """
        assert self.manual is not None
        mesh = self.manual.mesh
        grid = np.array(self.numbers(mesh)).reshape(mesh.axis_sizes)
        last = [mesh.axis_names.index(name) for name in names]
        rest = [i for i in range(grid.ndim) if i not in last]
        count = math.prod(mesh.axis_sizes[i] for i in last)
        found: list[list[int]] = grid.transpose(*rest, *last).reshape(-1, count).tolist()
        return found

    def host_call(self, results: int) -> str:
        """Return the attribute of a call to the host, which one device makes for all."""
        if self.placement is None:
            return ""
        self._calls_host = True
        each = ", ".join([f"<@{HOST}, []>"] * max(1, results))
        return f", sdy.sharding = #sdy.sharding_per_value<[{each}]>"

    def over_devices(self, sharding: NamedSharding) -> NamedSharding:
        """Convert a sharding over an abstract mesh to one over the devices of the program.

        The devices are in the order of the program's own mesh, if that has the same sizes.
        """
        mesh, devices = sharding.mesh, self.devices
        own = self.placement.mesh if self.placement is not None else None
        if own is not None and own.axis_sizes == mesh.axis_sizes:
            devices = own.flat
        grid = np.array(devices, dtype=object).reshape(mesh.axis_sizes)
        kinds = mesh.axis_types if sharding.unreduced else None
        return NamedSharding(Mesh(grid, mesh.axis_names, kinds), sharding.spec)

    def _symbol(self, mesh: Mesh) -> str:
        if not mesh.are_all_axes_auto:
            # Axis types do not make a different mesh.
            mesh = Mesh(mesh.devices, mesh.axis_names)
        found = self._symbols.get(mesh)
        if found is None:
            count = len(self._symbols)
            found = self._symbols[mesh] = f"mesh_{count - 1}" if count else "mesh"
        return found

    def lines(self) -> list[str]:
        """Return the definitions of the meshes."""
        found = []
        for mesh, symbol in self._symbols.items():
            axes = ", ".join(f'"{name}"={size}' for name, size in mesh.shape.items())
            ids = self.numbers(mesh)
            order = f", device_ids={text.int_list(ids)}" if ids != sorted(ids) else ""
            found.append(f"  sdy.mesh @{symbol} = <[{axes}]{order}>")
        if self._calls_host:
            found.append(f"  sdy.mesh @{HOST} = <[], device_ids=[0]>")
        return found


def _listed(mesh: Mesh, what: str, axes: Collection[Any]) -> str:
    names = ", ".join(f'"{name}"' for name in mesh.axis_names if name in axes)
    return f", {what}={{{names}}}" if names else ""
