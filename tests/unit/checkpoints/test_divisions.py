"""How shardings over the devices of several processes are divided; the devices are made up."""

from __future__ import annotations

import numpy as np
import pytest

from kiln.base.process import identity
from kiln.base.process.identity import Processes
from kiln.base.records import Record
from kiln.checkpoints.divisions import Divisions
from kiln.checkpoints.entries import Layout
from kiln.sharding import Mesh, NamedSharding
from kiln.sharding import PartitionSpec as P


class _Device(Record):
    id: int
    process_index: int
    platform: str = "cpu"


def over(*spec: str | None) -> NamedSharding:
    """Return a sharding over 2 x 4 devices, two of each process, in rows of two processes."""
    devices = [_Device(i, i // 2) for i in range(8)]
    grid = np.empty(8, object)
    grid[:] = devices
    return NamedSharding(Mesh(grid.reshape(2, 4), ("a", "b")), P(*spec))


@pytest.mark.parametrize(
    ("spec", "owners", "mine"),
    [
        (("a", "b"), (0, 0, 1, 1, 2, 2, 3, 3), {0: (0, 1), 1: (0, 1), 3: (0, 1)}),
        # Blocks that several processes hold are written by the first of them.
        (("b",), (0, 0, 1, 1), {0: (0, 1), 1: (0, 1), 2: (), 3: ()}),
        (("a",), (0, 2), {0: (0,), 1: (), 2: (0,), 3: ()}),
        ((None, "a"), (0, 2), {0: (0,), 2: (0,)}),
        ((), (0,), {0: (0,), 1: (), 2: (), 3: ()}),
    ],
)
def test_each_block_has_one_owner(
    spec: tuple[str, ...],
    owners: tuple[int, ...],
    mine: dict[int, tuple[int, ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for process, wanted in mine.items():
        monkeypatch.setattr(identity, "_here", Processes(process, 4))
        layout, shards = Divisions().division(over(*spec), 2)
        assert layout.owners == owners
        assert shards == wanted


def test_equal_shardings_share_what_describes_them() -> None:
    divisions = Divisions()
    layout, _ = divisions.division(over("a"), 2)
    assert divisions.division(over("a"), 2)[0] is layout
    assert divisions.division(over("a"), 1)[0] == Layout((2,), (0, 0))
    assert divisions.described(over("a"), 2) is divisions.described(over("a"), 2)
    assert divisions.whole(2) is divisions.whole(2)
