"""Checkpoints of version 1: those that are stored are read, and crafted ones are refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import checkpoints
from kiln.checkpoints import Checkpoint
from kiln.checkpoints.data_files import INDEX
from kiln.checkpoints.first_version import are_tiles, require_apart
from kiln.errors import CorruptCheckpointError
from kiln.sharding import NamedSharding, P, make_mesh
from tests.contract.marks import contract
from tests.unit.checkpoints.crafted import content_of, first_version, leaf_of, write

ROWS = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Return a checkpoint that two processes wrote in version 1."""
    return first_version(tmp_path / "c")


def test_every_leaf_comes_back(saved: Path) -> None:
    place = NamedSharding(make_mesh((4,), ("x",)), P("x"))
    with Checkpoint(saved) as checkpoint:
        checkpoint.verify()
        assert checkpoint.metadata == {"step": 3}
        assert checkpoint.structs()["both"].shape == (8, 4)
        np.testing.assert_array_equal(checkpoint.read("both", place), ROWS)
    found = checkpoints.restore(
        saved, sharding=lambda path: place if path in ("both", "columns") else None
    )
    np.testing.assert_array_equal(found["both"], ROWS)
    np.testing.assert_array_equal(found["columns"], ROWS.astype(jnp.bfloat16))
    np.testing.assert_array_equal(found["whole"], ROWS[0])
    assert found["key"] == kiln.random.key(7)
    np.testing.assert_array_equal(found["list"][0], np.arange(6, dtype=np.int16))
    assert found["list"][1] == np.float32(2)
    assert found["list"][2][0].shape == (0, 2)
    assert found["list"][2][1] is None
    assert found["python"] == {"i": 3, "s": "text", "y": b"\x00\xff"}


def test_it_is_replaced_by_the_next_save(saved: Path) -> None:
    # Of a save by several processes that was killed.
    (saved / "part-1.json").write_text("")
    checkpoints.save(saved, {"w": ROWS})
    assert len(os.listdir(saved)) == 2
    np.testing.assert_array_equal(checkpoints.restore(saved)["w"], ROWS)


def test_its_damage_is_named_by_path(saved: Path) -> None:
    data = next(saved.glob("data-1-*"))
    whole = data.read_bytes()
    data.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(CorruptCheckpointError, match="both: 32 bytes at 0 of its file data-1-"):
        Checkpoint(saved).verify()
    assert Checkpoint(saved)["python/i"] == 3


def test_a_missing_block_is_not_made_up(saved: Path) -> None:
    content = content_of(saved)
    leaf_of(content, "both")["blocks"].pop()
    write(saved, content)
    with pytest.raises(CorruptCheckpointError, match="both: its blocks have 24 of the 32 elements"):
        Checkpoint(saved).read("both")


@contract("18.2")
def test_blocks_that_overlap_leave_nothing_unread(saved: Path) -> None:
    content = content_of(saved)
    blocks = leaf_of(content, "both")["blocks"]
    # As many elements as the array has, and one corner of it in no block.
    blocks[0]["start"] = blocks[1]["start"]
    write(saved, content)
    with pytest.raises(CorruptCheckpointError, match="both: its blocks overlap"):
        Checkpoint(saved).read("both")


OUTSIDE = [
    "../secret",
    "/etc/passwd",
    "/dev/zero",
    ".",
    "",
    "..",
    "sub/data-0-" + "0" * 32 + ".bin",
    "data-0-" + "0" * 32 + ".bin/../../secret",
    "data-0-" + "0" * 32 + ".bin\x00",
    "data-0-" + "0" * 32 + ".bin\n",
    "index.json",
]


@contract("18.2")
@pytest.mark.parametrize("name", OUTSIDE)
def test_names_stay_in_the_folder(saved: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = content_of(saved)
    leaf_of(content, "both")["blocks"][0].update(file=name, offset=0)
    write(saved, content)
    opened = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda *a, **k: opened.append(str(a[0])) or real(*a, **k))
    with pytest.raises(CorruptCheckpointError, match="is not the name of a file of blocks"):
        checkpoints.restore(saved)
    assert opened == [str(saved / INDEX)]


CRAFTED: dict[str, dict[str, Any]] = {
    "a block outside": {"start": [7, 3]},
    "a block of other axes": {"start": [0]},
    "a negative offset": {"offset": -1},
    "an offset beyond all files": {"offset": 2**63},
    "an offset of 10**400": {"offset": 10**400},
    "bytes of another": {"offset": 64},
    "a checksum of five bytes": {"crc32": 2**32},
    "no file": {"file": None},
}


@contract("18.2")
@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_blocks_are_refused(saved: Path, name: str) -> None:
    content = content_of(saved)
    leaf_of(content, "both")["blocks"][0].update(CRAFTED[name])
    write(saved, content)
    with pytest.raises(CorruptCheckpointError, match="is damaged") as caught:
        Checkpoint(saved)
    assert len(str(caught.value).splitlines()) == 3


SPLIT = {"axes": [["x", 1]], "types": ["Auto"], "devices": ["cpu:0"], "spec": [None, "x"]}


@contract("18.2")
def test_other_crafted_leaves_are_refused(saved: Path) -> None:
    for path, change in [
        ("both", {"sharding": "x"}),
        ("whole", {"sharding": SPLIT}),
        ("both", {"blocks": {}}),
        ("both", {"blocks": [3]}),
        ("list/0", {"sharding": {"device": "cpu:0"}}),
        ("python/i", {"blocks": [1]}),
    ]:
        content = content_of(saved)
        leaf_of(content, path).update(change)
        write(saved, content)
        with pytest.raises(CorruptCheckpointError, match="is damaged"):
            Checkpoint(saved)


def test_grids_are_tiles_and_nothing_else_is() -> None:
    halves = [((0, 0), (2, 2)), ((0, 2), (2, 2)), ((2, 0), (2, 2)), ((2, 2), (2, 2))]
    assert are_tiles(halves, (4, 4))
    assert are_tiles([((0, 0), (4, 4))], (4, 4))
    assert are_tiles([((), ())], ())
    assert are_tiles([*halves, ((4, 0), (0, 2))], (4, 4))
    assert are_tiles([], (0, 3))
    assert not are_tiles([], (4,))
    assert not are_tiles([], ())
    assert not are_tiles([((), ()), ((), ())], ())
    assert not are_tiles(halves[:3], (4, 4))
    assert not are_tiles([*halves[:3], halves[0]], (4, 4))
    assert not are_tiles([((0,), (3,)), ((2,), (2,))], (4,))
    assert not are_tiles([((1,), (3,))], (4,))


def test_bytes_are_of_one_block() -> None:
    require_apart([("a", 0, 4), ("a", 4, 4), ("b", 2, 4), ("a", 2, 0)])
    with pytest.raises(ValueError, match="share bytes"):
        require_apart([("a", 4, 4), ("a", 0, 5)])
