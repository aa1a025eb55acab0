from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from kiln.checkpoints import blocks
from kiln.checkpoints.blocks import BlockReader, write_blocks
from kiln.checkpoints.index import LEAF, Entry
from kiln.checkpoints.leaves import Held, Part


def entry_of(tmp_path: Path, x: np.ndarray, *starts: tuple[slice, ...]) -> tuple[Entry, dict]:
    """Write an array as two processes would: every second block into another file."""
    found = []
    for process in (0, 1):
        parts = tuple(Part(tuple(s.start for s in index), x[index]) for index in starts[process::2])
        leaf = Held("w", "array", None, x.dtype.name, x.shape, parts=parts)
        (entry,) = write_blocks(tmp_path / f"data-{process}", [leaf], lambda _: None)
        found.append(entry)
    both = Entry(
        **{n: getattr(found[0], n) for n in LEAF},
        blocks=(*found[0].blocks, *found[1].blocks),
    )
    files = {f"data-{n}": os.open(tmp_path / f"data-{n}", os.O_RDONLY) for n in (0, 1)}
    return both, files


def test_regions_of_blocks_in_several_files(tmp_path: Path) -> None:
    x = np.arange(48, dtype=np.int32).reshape(6, 8)
    cuts = [(slice(i, i + 3), slice(j, j + 2)) for i in (0, 3) for j in (0, 2, 4, 6)]
    entry, files = entry_of(tmp_path, x, *cuts)
    try:
        for _ in range(40):
            (a, b), (c, d) = (sorted(np.random.randint(0, n + 1, 2)) for n in (6, 8))
            index = (slice(int(a), int(b)), slice(int(c), int(d)))
            np.testing.assert_array_equal(BlockReader(entry, files, "r").region(index), x[index])
        np.testing.assert_array_equal(BlockReader(entry, files, "r").whole(), x)
    finally:
        for opened in files.values():
            os.close(opened)


def test_large_blocks_are_read_and_written_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_CHUNK", 7)
    x = np.arange(100, dtype=np.int16)
    leaf = Held("w", "array", None, "int16", x.shape, parts=(Part((0,), x[::-1]),))
    counts: list[int] = []
    (entry,) = write_blocks(tmp_path / "data", [leaf], counts.append)
    assert sum(counts) == 200
    assert max(counts) == 7
    opened = os.open(tmp_path / "data", os.O_RDONLY)
    try:
        found = BlockReader(entry, {"data": opened}, "r").whole()
    finally:
        os.close(opened)
    np.testing.assert_array_equal(found, x[::-1])
    assert found.ctypes.data % 64 == 0
