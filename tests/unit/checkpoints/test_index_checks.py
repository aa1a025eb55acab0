"""Crafted indices: one documented error, or what the index says; never another file or a crash."""

from __future__ import annotations

import copy
import json
import os
import random
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import checkpoints
from kiln.checkpoints import Checkpoint
from kiln.checkpoints.index import NAME
from kiln.checkpoints.index_checks import are_tiles, require_apart
from kiln.errors import CheckpointError, CorruptCheckpointError
from tests.contract.marks import contract

SECRET = "secret of another folder"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Return a checkpoint with leaves of every kind, beside a file that is none of it."""
    (tmp_path / "secret").write_text(SECRET * 10)
    mesh = kiln.make_mesh((2, 2), ("x", "y"))
    split = kiln.NamedSharding(mesh, kiln.P("x", "y"))
    tree = {
        "split": kiln.device_put(jnp.arange(16.0).reshape(4, 4), split),
        "here": kiln.device_put(jnp.ones(3), kiln.devices()[0]),
        "list": [np.arange(6, dtype=np.int16), np.float32(2), (jnp.ones((0, 2)), None)],
        "python": {"i": 3, "f": 0.5, "c": 1j, "b": True, "s": "text", "y": b"\x00\xff"},
        "key": kiln.random.key(0),
        "empty": {},
    }
    checkpoints.save(tmp_path / "c", tree, metadata={"a": [1, None]})
    return tmp_path / "c"


def content_of(folder: Path) -> Any:
    return json.loads((folder / NAME).read_bytes())["content"]


def write(folder: Path, content: Any) -> None:
    """Write an index with a right checksum, as only somebody who knows kiln's format does."""
    text = json.dumps(content, separators=(",", ":"))
    head = {"format": "kiln checkpoint", "version": 1, "crc32": zlib.crc32(text.encode())}
    whole = json.dumps(head, separators=(",", ":"))[:-1] + ',"content":' + text + "}\n"
    (folder / NAME).write_text(whole)


def leaf_of(content: Any, path: str) -> Any:
    return next(leaf for leaf in content["leaves"] if leaf["path"] == path)


def test_what_is_written_again_is_read(saved: Path) -> None:
    before = (saved / NAME).read_bytes()
    write(saved, content_of(saved))
    assert (saved / NAME).read_bytes() == before
    assert checkpoints.restore(saved)["python"]["y"] == b"\x00\xff"


OUTSIDE = [
    "../secret",
    "../../../../../../etc/passwd",
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
    block = leaf_of(content, "list/0")["blocks"][0]
    block.update(file=name, offset=0)
    write(saved, content)
    opened = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda *a, **k: opened.append(str(a[0])) or real(*a, **k))
    with pytest.raises(
        CorruptCheckpointError, match="is not the name of a file of blocks"
    ) as caught:
        checkpoints.restore(saved)
    assert len(str(caught.value).splitlines()) == 3
    assert opened == [str(saved / NAME)]


@contract("18.2")
@pytest.mark.parametrize("is_index", [True, False])
@pytest.mark.parametrize("what", ["link outside", "link inside", "pipe", "folder"])
def test_files_that_are_none_are_refused(saved: Path, is_index: bool, what: str) -> None:
    path = saved / NAME if is_index else next(saved.glob("data-*.bin"))
    kept = saved / "kept"
    path.rename(kept)
    match what:
        case "link outside":
            path.symlink_to(saved.parent / "secret")
        case "link inside":
            path.symlink_to("kept")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
    with pytest.raises(CorruptCheckpointError, match=r"link, or not a file|is not a file"):
        checkpoints.restore(saved)
    # The folder itself may be named by a link.
    path.rmdir() if what == "folder" else path.unlink()
    kept.rename(path)
    (saved.parent / "latest").symlink_to("c")
    assert checkpoints.restore(saved.parent / "latest")["python"]["i"] == 3


CRAFTED: dict[str, Any] = {
    "no leaves": lambda c: c.pop("leaves"),
    "leaves of another kind": lambda c: c.update(leaves={"a": 1}),
    "too few leaves": lambda c: c["leaves"].pop(),
    "a tree of fewer": lambda c: c.update(tree=None),
    "a tree of more": lambda c: c["tree"]["dict"].append(["more", None]),
    "a tree of an unknown kind": lambda c: c.update(tree={"set": []}),
    "a tree of no objects": lambda c: c.update(tree="list"),
    "a key that is not a name": lambda c: c["tree"]["dict"][0].__setitem__(0, [1]),
    "a path that is not a text": lambda c: c["leaves"][0].update(path=3),
    "two leaves with one path": lambda c: c["leaves"][0].update(path=c["leaves"][1]["path"]),
    "an unknown kind": lambda c: c["leaves"][0].update(kind="code"),
    "a kind that is a list": lambda c: c["leaves"][0].update(kind=["array"]),
    "no number": lambda c: leaf_of(c, "python/i").update(value="x"),
    "a number of too many digits": lambda c: leaf_of(c, "python/i").update(value="9" * 10_000),
    "no bool": lambda c: leaf_of(c, "python/b").update(value="yes"),
    "no bytes": lambda c: leaf_of(c, "python/y").update(value="0"),
    "an unknown dtype": lambda c: leaf_of(c, "split").update(dtype="object"),
    "no dtype": lambda c: leaf_of(c, "split").update(dtype=None),
    "a negative size": lambda c: leaf_of(c, "split").update(shape=[-4, -4]),
    "a size that is true": lambda c: leaf_of(c, "split").update(shape=[True, 4]),
    "sizes beyond all memory": lambda c: leaf_of(c, "split").update(shape=[2**62, 2**62]),
    "too many axes": lambda c: leaf_of(c, "split").update(shape=[1] * 1000),
    "a block outside": lambda c: leaf_of(c, "split")["blocks"][0].update(start=[3, 3]),
    "a block of other axes": lambda c: leaf_of(c, "split")["blocks"][0].update(start=[0]),
    "a negative offset": lambda c: leaf_of(c, "split")["blocks"][0].update(offset=-1),
    "an offset beyond all files": lambda c: leaf_of(c, "here")["blocks"][0].update(offset=2**63),
    "an offset of 10**400": lambda c: leaf_of(c, "here")["blocks"][0].update(offset=10**400),
    "bytes of another": lambda c: leaf_of(c, "here")["blocks"][0].update(
        offset=leaf_of(c, "list/0")["blocks"][0]["offset"]
    ),
    "an unknown generator": lambda c: leaf_of(c, "key").update(implementation="md5"),
    "a generator of other words": lambda c: leaf_of(c, "key").update(implementation="rbg"),
    "words of another number": lambda c: leaf_of(c, "key").update(shape=[1]),
    "a sharding that is a text": lambda c: leaf_of(c, "split").update(sharding="x"),
    "an axis twice": lambda c: leaf_of(c, "split")["sharding"].update(spec=["x", "x"]),
    "an unknown axis": lambda c: leaf_of(c, "split")["sharding"].update(spec=["z"]),
    "more devices than places": lambda c: leaf_of(c, "split")["sharding"].update(
        axes=[["x", 2], ["y", 1]]
    ),
    "an unknown type of axes": lambda c: leaf_of(c, "split")["sharding"].update(
        types=["Auto", "mro"]
    ),
    "a device that is a number": lambda c: leaf_of(c, "here")["sharding"].update(device=3),
}


@contract("18.2")
@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_indices_are_refused(saved: Path, name: str) -> None:
    content = content_of(saved)
    CRAFTED[name](content)
    write(saved, content)
    with pytest.raises(CorruptCheckpointError, match="is damaged") as caught:
        Checkpoint(saved)
    assert len(str(caught.value).splitlines()) == 3
    assert len(str(caught.value)) < 2000


@contract("18.2")
@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 100_000, "\xff", "NaN"])
def test_texts_that_are_no_indices_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text, encoding="latin-1")
    with pytest.raises(CorruptCheckpointError, match="is damaged"):
        checkpoints.restore(tmp_path)


@contract("18.2")
@pytest.mark.parametrize("depth", [100, 250, 320, 400, 1000, 10_000])
def test_trees_of_any_depth_are_read_or_refused(saved: Path, depth: int) -> None:
    start = '{"list":[' * depth + "null" + "]}" * depth
    leaf = json.dumps(leaf_of(content_of(saved), "python/i") | {"path": "a"})
    text = f'{{"tree":{start},"metadata":null,"leaves":[{leaf}]}}'.replace(" ", "")
    head = f'{{"format":"kiln checkpoint","version":1,"crc32":{zlib.crc32(text.encode())}'
    (saved / NAME).write_text(f'{head},"content":{text}}}\n')
    try:
        found = checkpoints.restore(saved)
    except CorruptCheckpointError:
        assert depth > 100
        return
    for _ in range(depth):
        (found,) = found
    assert found == 3


@contract("18.2")
def test_blocks_that_overlap_leave_nothing_unread(saved: Path) -> None:
    content = content_of(saved)
    blocks = leaf_of(content, "split")["blocks"]
    # As many elements as the array has, and one corner of it in no block.
    blocks[0]["start"] = blocks[1]["start"]
    write(saved, content)
    for read in (checkpoints.restore, lambda path: Checkpoint(path)["split"]):
        with pytest.raises(CorruptCheckpointError, match="split: its blocks overlap"):
            read(saved)


@contract("18.2")
def test_memory_is_not_taken_for_bytes_that_are_not_there(saved: Path) -> None:
    content = content_of(saved)
    leaf = leaf_of(content, "list/0")
    leaf["shape"] = [2**40]
    leaf["blocks"][0]["shape"] = [2**40]
    leaf["blocks"][0]["offset"] = 2**20
    write(saved, content)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptCheckpointError, match="ends after 0 of"):
            checkpoints.restore(saved)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


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


HOSTILE: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3, 2**31, 2**63, 2**64, -(2**63), 10**30, 0.5, 1e308),
    *(float("nan"), float("inf"), "", "a", "..", "/", "../../etc/passwd", "index.json", "array"),
    *("none", "int", "keys", "float32", "float0", "uint32", "int4", "cpu:0", "x", "y", "\ud800"),
    *([], [[]], {}, [0], [-1], [2**62] * 3, ["x"], {"device": "cpu:0"}, {"list": [None]}),
    *({"dict": [["a", None]]}, {"tuple": []}, [1] * 65, "9" * 5000, "0x1"),
]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place of a JSON value: a container and a key."""
    if not isinstance(value, (dict, list)):
        return
    for key, child in list(value.items() if isinstance(value, dict) else enumerate(value)):
        yield value, key
        yield from places(child)


def mutate(content: Any, chance: random.Random) -> None:
    """Change some places of an index: other values, missing ones, those of other places."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        found = list(places(content))
        container, key = chance.choice(found)
        match chance.randrange(5):
            case 0 | 1:
                container[key] = copy.deepcopy(chance.choice(HOSTILE))
            case 2:
                del container[key]
            case 3:
                other, name = chance.choice(found)
                container[key] = copy.deepcopy(other[name])
            case 4:
                old = container[key]
                if type(old) is int:
                    container[key] = old + chance.choice((-1, 1, 64, 2**20))
                elif isinstance(container, list):
                    container.insert(chance.randrange(len(container) + 1), old)


@contract("18.2")
@pytest.mark.parametrize(
    ("count", "seed"), [(300, 0), *[pytest.param(5000, n, marks=pytest.mark.full) for n in (1, 2)]]
)
def test_mutated_indices_give_the_error_or_what_they_say(
    saved: Path, count: int, seed: int
) -> None:
    whole, chance = content_of(saved), random.Random(seed)
    refused: list[str] = []
    for _ in range(count):
        content = copy.deepcopy(whole)
        mutate(content, chance)
        try:
            write(saved, content)
        except (RecursionError, ValueError):
            continue
        try:
            with Checkpoint(saved) as checkpoint:
                checkpoint.structs()
                found = {path: checkpoint[path] for path in checkpoint}
                checkpoint.restore()
        except CheckpointError as error:
            refused.append(str(error))
            continue
        for leaf in content["leaves"]:
            value = found[leaf["path"]]
            assert SECRET not in repr(value)
            if leaf["dtype"] is not None:
                size = len(leaf["shape"]) - (leaf["kind"] == "keys")
                assert list(value.shape) == leaf["shape"][:size]
    # Some change what need not be true: the metadata, a path, a text.
    assert count * 0.5 < len(refused) < count
    assert {len(text.splitlines()) for text in refused} == {3}
