from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from kiln.checkpoints.data_files import Damage, DataFiles
from kiln.checkpoints.entries import Entry, Layout
from kiln.checkpoints.plan import Plan
from kiln.checkpoints.tables import head_nbytes

SAVE = "0" * 32
WHOLE = Layout((1,), (0,))


def entry(number: int, shape: tuple[int, ...], layout: Layout | None) -> Entry:
    name = None if layout is None else "float32"
    return Entry(number, f"{number}", "array", None, name, shape, layout=layout)


def test_blocks_share_no_bytes_and_start_behind_the_head() -> None:
    pairs = Layout((4,), (0, 1, 1, 0))
    entries = [
        entry(0, (8,), WHOLE),
        entry(1, (), None),
        entry(2, (80,), pairs),
        entry(3, (0,), pairs),
        entry(4, (4,), Layout((4,), (2, 1, 1, 1))),
    ]
    plan = Plan(SAVE, entries)
    assert plan.files == {f"data-{process}-{SAVE}.bin" for process in range(3)}
    assert [plan.places(process).count for process in range(4)] == [5, 7, 1, 0]
    for process in range(3):
        offsets = plan.offsets(process)
        assert offsets[0] == head_nbytes(len(offsets)) >= 64 + 4 * len(offsets)
        assert all(offset % 64 == 0 for offset in offsets)
        assert all(a <= b for a, b in pairwise(offsets))
    # Its blocks of 80 bytes take 128, those without elements none.
    assert plan.offsets(0) == [128, 192, 320, 448, 448]


def test_blocks_that_cover_a_region_are_found_without_listing_all() -> None:
    layout = Layout((2, 3), (0, 1, 2, 3, 4, 5))
    plan = Plan(SAVE, [entry(0, (4, 6), layout)])
    files = DataFiles(lambda name: 1 // 0)
    for process in range(6):
        files.tables[f"data-{process}-{SAVE}.bin"] = np.array([process], "<u4")

    def owners(*box: tuple[int, int]) -> list[int]:
        (leaf,) = [entry(0, (4, 6), layout)]
        return [block.crc32 for block in plan.covering(leaf, box, files)]

    assert owners((0, 2), (2, 4)) == [1]
    assert owners((1, 3), (3, 5)) == [1, 2, 4, 5]
    assert owners((0, 4), (0, 6)) == list(range(6))
    assert owners((3, 3), (0, 6)) == []


def test_processes_with_as_many_blocks_share_their_places() -> None:
    plan = Plan(SAVE, [entry(0, (64,), Layout((64,), tuple(range(64))))])
    assert len({id(plan.places(process)) for process in range(64)}) == 1


def test_no_leaves_have_no_blocks() -> None:
    plan = Plan(SAVE, [])
    assert plan.files == set()
    assert plan.places(0).count == 0
    assert plan.offsets(0) == []


def test_only_the_files_of_a_region_are_opened() -> None:
    layout = Layout((3,), (0, 1, 2))
    leaf = entry(0, (3,), layout)
    opened = []

    def missing(name: str) -> int:
        opened.append(name)
        raise FileNotFoundError

    with pytest.raises(Damage, match=r"data-1-.* is missing"):
        Plan(SAVE, [leaf]).covering(leaf, ((1, 2),), DataFiles(missing))
    assert opened == [f"data-1-{SAVE}.bin"]
