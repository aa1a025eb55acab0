"""How arrays of one sharding are divided among processes: computed once for all such leaves."""

from __future__ import annotations

import itertools
from typing import Any

from kiln.base.process.identity import process_index
from kiln.checkpoints.entries import Layout
from kiln.checkpoints.shardings import described
from kiln.ir.shardings.sharding import Sharding

Division = tuple[Layout, tuple[int, ...]]
"""A layout, and which shards of this process are its blocks, in order; others are copies."""


class Divisions:
    """The divisions and the descriptions of the shardings of one tree.

    Thousands of leaves share few shardings, each of which lists all devices.
    """

    def __init__(self) -> None:
        self._whole: dict[int, Layout] = {}
        self._divisions: dict[tuple[Sharding, int], Division] = {}
        self._described: dict[tuple[Sharding, int], dict[str, Any]] = {}

    def whole(self, ndim: int) -> Layout:
        """Return the layout of a leaf of this rank that process 0 writes as one block."""
        found = self._whole.get(ndim)
        if found is None:
            found = self._whole[ndim] = Layout((1,) * ndim, (0,))
        return found

    def division(self, sharding: Sharding, ndim: int) -> Division:
        """Return how arrays of this rank are divided: each block is written once."""
        found = self._divisions.get((sharding, ndim))
        if found is None:
            found = self._divisions[sharding, ndim] = _division(sharding, ndim)
        return found

    def described(self, sharding: Sharding, ndim: int) -> dict[str, Any]:
        """Return a description of a sharding that can be written as JSON, the same each time."""
        found = self._described.get((sharding, ndim))
        if found is None:
            found = self._described[sharding, ndim] = described(sharding, ndim)
        return found


def _division(sharding: Sharding, ndim: int) -> Division:
    grid, at = sharding.blocks(ndim)
    first: dict[tuple[int, ...], int] = {}
    for device, place in enumerate(at):
        first.setdefault(place, device)
    here = {device: number for number, device in enumerate(sharding.addressable_order)}
    # In row-major order.
    writers = [first[place] for place in itertools.product(*map(range, grid))]
    if sharding.is_fully_addressable:
        owners = (process_index(),) * len(writers)
    else:
        owners = tuple([sharding.devices[device].process_index for device in writers])
    mine = tuple([here[device] for device in writers if device in here])
    return Layout(grid, owners), mine
