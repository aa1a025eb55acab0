from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kiln.checkpoints import blocks
from kiln.checkpoints.blocks import BlockReader, write_blocks
from kiln.checkpoints.data_files import DataFiles, file_name, open_inside
from kiln.checkpoints.entries import Entry, Layout
from kiln.checkpoints.plan import Plan

SAVE = "5" * 32


@pytest.fixture
def files(tmp_path: Path) -> Iterator[DataFiles]:
    """Return the data files of a folder."""
    found = DataFiles(lambda name: open_inside(tmp_path, name, "r"))
    yield found
    found.close()


def written(folder: Path, x: np.ndarray, layout: Layout) -> tuple[Entry, Plan]:
    """Write an array as the processes of a layout would."""
    entry = Entry(0, "w", "array", None, x.dtype.name, x.shape, layout=layout)
    plan = Plan(SAVE, [entry])
    rows, columns = (n // p for n, p in zip(x.shape, layout.grid, strict=True))
    places = list(np.ndindex(layout.grid))
    for process in set(layout.owners):
        parts = [
            x[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
            for (i, j), owner in zip(places, layout.owners, strict=True)
            if owner == process
        ]
        write_blocks(folder / file_name(process, SAVE), plan, process, parts, lambda _: None)
    return entry, plan


def test_regions_of_blocks_in_several_files(tmp_path: Path, files: DataFiles) -> None:
    x = np.arange(48, dtype=np.int32).reshape(6, 8)
    entry, plan = written(tmp_path, x, Layout((2, 4), (0, 1, 1, 0, 7, 7, 0, 1)))
    assert {path.name for path in tmp_path.iterdir()} == plan.files
    for _ in range(40):
        (a, b), (c, d) = (sorted(np.random.randint(0, n + 1, 2)) for n in (6, 8))
        index = (slice(int(a), int(b)), slice(int(c), int(d)))
        found = BlockReader(entry, plan, files, "r").region(index)
        np.testing.assert_array_equal(found, x[index])
    np.testing.assert_array_equal(BlockReader(entry, plan, files, "r").whole(), x)


def test_large_blocks_are_read_and_written_in_pieces(
    tmp_path: Path, files: DataFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_CHUNK", 7)
    x = np.arange(100, dtype=np.int16)
    entry = Entry(0, "w", "array", None, "int16", x.shape, layout=Layout((1,), (0,)))
    plan = Plan(SAVE, [entry])
    counts: list[int] = []
    write_blocks(tmp_path / file_name(0, SAVE), plan, 0, [x[::-1]], counts.append)
    assert sum(counts) == 200
    assert max(counts) == 7
    found = BlockReader(entry, plan, files, "r").whole()
    np.testing.assert_array_equal(found, x[::-1])
    assert found.ctypes.data % 64 == 0


def test_a_process_without_blocks_writes_no_file(tmp_path: Path) -> None:
    entry = Entry(0, "w", "array", None, "int16", (4,), layout=Layout((1,), (0,)))
    write_blocks(tmp_path / file_name(3, SAVE), Plan(SAVE, [entry]), 3, [], lambda _: None)
    assert list(tmp_path.iterdir()) == []
