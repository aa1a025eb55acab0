"""What many processes write and read, counted: each writes its file here, one after the other."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kiln.checkpoints import Checkpoint, data_files
from kiln.checkpoints.blocks import write_blocks
from kiln.checkpoints.data_files import INDEX, file_name
from kiln.checkpoints.entries import Entry, Layout
from kiln.checkpoints.index import index_bytes
from kiln.checkpoints.plan import Plan
from kiln.errors import CorruptCheckpointError

SAVE = "a" * 32
LEAVES = 50
ROWS = 16


def sharding_over(count: int) -> dict[str, Any]:
    """Return the description of a sharding of rows over one device of each process."""
    names = [f"cpu:{2048 * process}" for process in range(count)]
    return {"axes": [["x", count]], "types": ["Auto"], "devices": names, "spec": ["x"]}


def saved(folder: Path, count: int) -> Path:
    """Save leaves of equal rows as processes do, each of which writes one block of each leaf."""
    layout, sharding = Layout((count, 1), tuple(range(count))), sharding_over(count)
    entries = [
        Entry(i, f"{i}", "array", None, "float32", (ROWS, 2), False, sharding, None, layout)
        for i in range(LEAVES)
    ]
    plan = Plan(SAVE, entries)
    folder.mkdir()
    rows = ROWS // count
    for process in range(count):
        parts = [
            np.full((rows, 2), i, np.float32) + process * rows + np.arange(rows)[:, None]
            for i in range(LEAVES)
        ]
        parts = [part.astype(np.float32) for part in parts]
        write_blocks(folder / file_name(process, SAVE), plan, process, parts, lambda _: None)
    tree = {"list": [None] * LEAVES}
    (folder / INDEX).write_bytes(index_bytes(tree, entries, None, SAVE))
    return folder


def wanted(leaf: int) -> np.ndarray:
    return np.full((ROWS, 2), leaf, np.float32) + np.arange(ROWS)[:, None]


def test_an_index_grows_with_leaves_and_processes_not_with_their_product(tmp_path: Path) -> None:
    sizes = {}
    for count in (1, 2, 4, 8, 16):
        folder = saved(tmp_path / f"{count}", count)
        # The owners and the devices are written once.
        lists = json.dumps([list(range(count)), sharding_over(count)["devices"]])
        once = len(lists.replace(" ", ""))
        sizes[count] = (folder / INDEX).stat().st_size - once
        with Checkpoint(folder) as checkpoint:
            assert len(checkpoint) == LEAVES
    assert max(sizes.values()) - min(sizes.values()) < 10


@pytest.mark.parametrize("most", [128, 3])
def test_a_process_reads_the_tables_of_files_that_it_needs(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "MOST_HELD", most)
    folder, real, read = saved(tmp_path / "c", 8), os.pread, []
    monkeypatch.setattr(os, "pread", lambda *a: read.append(a[1:]) or real(*a))
    with Checkpoint(folder) as checkpoint:
        reader = checkpoint._reader("3")
        np.testing.assert_array_equal(reader.region((slice(4, 6), slice(None))), wanted(3)[4:6])
        assert list(checkpoint._files.tables) == [file_name(2, SAVE)]
        # One row for each of its blocks.
        assert read == [(64 + 4 * LEAVES, 0)]
        for leaf in range(LEAVES):
            region = checkpoint._reader(f"{leaf}").region((slice(3, 6), slice(1, 2)))
            np.testing.assert_array_equal(region, wanted(leaf)[3:6, 1:2])
        assert list(checkpoint._files.tables) == [file_name(2, SAVE), file_name(1, SAVE)]
        for leaf in range(LEAVES):
            np.testing.assert_array_equal(checkpoint.read(f"{leaf}"), wanted(leaf))
        assert len(read) == 8
        checkpoint.verify()


def test_a_damaged_table_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    folder = saved(tmp_path / "c", 4)
    path = folder / file_name(1, SAVE)
    content = path.read_bytes()
    path.write_bytes(content[:70] + bytes([content[70] ^ 1]) + content[71:])
    with Checkpoint(folder) as checkpoint:
        with pytest.raises(CorruptCheckpointError, match=r"0: the table .* data-1-.* damaged") as e:
            checkpoint.read("0")
        assert len(str(e.value).splitlines()) == 3
        np.testing.assert_array_equal(
            checkpoint._reader("0").region((slice(8, 16), slice(None))), wanted(0)[8:]
        )


def test_a_file_of_another_process_is_not_taken(tmp_path: Path) -> None:
    folder = saved(tmp_path / "c", 4)
    (folder / file_name(2, SAVE)).write_bytes((folder / file_name(3, SAVE)).read_bytes())
    with (
        Checkpoint(folder) as checkpoint,
        pytest.raises(CorruptCheckpointError, match=r"data-2-.* is not the one that was written"),
    ):
        checkpoint.read("0")


def test_processes_of_many_blocks_hold_only_some_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_files, "MOST_HELD", 2)
    before = len(os.listdir("/dev/fd"))
    with Checkpoint(saved(tmp_path / "c", 8)) as checkpoint:
        assert len(os.listdir("/dev/fd")) == before
        np.testing.assert_array_equal(checkpoint.read("1"), wanted(1))
        assert len(os.listdir("/dev/fd")) == before + 2
    assert len(os.listdir("/dev/fd")) == before
