"""Crafted indices: one documented error, or what the index says; never another file or a crash."""

from __future__ import annotations

import copy
import json
import os
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import checkpoints
from kiln.checkpoints import Checkpoint
from kiln.checkpoints.data_files import INDEX
from kiln.errors import CheckpointError, CorruptCheckpointError
from tests.contract.marks import contract
from tests.unit.checkpoints.crafted import content_of, first_version, leaf_of, write, write_text

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


def test_what_is_written_again_is_read(saved: Path) -> None:
    before = (saved / INDEX).read_bytes()
    write(saved, content_of(saved))
    assert (saved / INDEX).read_bytes() == before
    assert checkpoints.restore(saved)["python"]["y"] == b"\x00\xff"


OUTSIDE = ["../secret", "/etc/passwd", ".", "", "0" * 31, "0" * 32 + "\n", "0" * 31 + "/", "G" * 32]


@contract("18.2")
@pytest.mark.parametrize("name", OUTSIDE)
def test_names_stay_in_the_folder(saved: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = content_of(saved)
    content["save"] = name
    write(saved, content)
    opened = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda *a, **k: opened.append(str(a[0])) or real(*a, **k))
    with pytest.raises(CorruptCheckpointError, match="the name of the save") as caught:
        checkpoints.restore(saved)
    assert len(str(caught.value).splitlines()) == 3
    assert opened == [str(saved / INDEX)]


@contract("18.2")
@pytest.mark.parametrize("is_index", [True, False])
@pytest.mark.parametrize("what", ["link outside", "link inside", "pipe", "folder"])
def test_files_that_are_none_are_refused(saved: Path, is_index: bool, what: str) -> None:
    path = saved / INDEX if is_index else next(saved.glob("data-*.bin"))
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


BIG = [("list/0", 3 * 2**60), ("here", 2**60)]
"""Each fits into a file, and both together do not."""


def layout_of(content: Any, path: str) -> Any:
    return content["layouts"][leaf_of(content, path)["layout"]]


def sharding_of(content: Any, path: str) -> Any:
    return content["shardings"][leaf_of(content, path)["sharding"]]


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
    "no layout": lambda c: leaf_of(c, "split").update(layout=None),
    "an unknown layout": lambda c: leaf_of(c, "split").update(layout=len(c["layouts"])),
    "a negative layout": lambda c: leaf_of(c, "split").update(layout=-1),
    "a layout that is true": lambda c: leaf_of(c, "split").update(layout=True),
    "a layout of a value": lambda c: leaf_of(c, "python/i").update(layout=0),
    "a layout of other axes": lambda c: layout_of(c, "split").update(grid=[4]),
    "a layout of other blocks": lambda c: layout_of(c, "split").update(grid=[4, 4]),
    "a layout without blocks": lambda c: layout_of(c, "split").update(grid=[0, 2], owners=[]),
    "blocks that are not equal": lambda c: [
        c["layouts"].append({"grid": [4], "owners": [0] * 4}),
        leaf_of(c, "list/0").update(layout=len(c["layouts"]) - 1),
    ],
    "an owner that is a text": lambda c: layout_of(c, "split").update(owners=["0"] * 4),
    "a negative owner": lambda c: layout_of(c, "split").update(owners=[0, 0, 0, -1]),
    "an owner of too many digits": lambda c: layout_of(c, "split").update(owners=[10**9] * 4),
    "layouts of another kind": lambda c: c.update(layouts={}),
    "shardings of another kind": lambda c: c.update(shardings=3),
    "a checkpoint beyond all files": lambda c: [
        leaf_of(c, name).update(shape=[size]) for name, size in BIG
    ],
    "no save": lambda c: c.pop("save"),
    "an unknown generator": lambda c: leaf_of(c, "key").update(implementation="md5"),
    "a generator of other words": lambda c: leaf_of(c, "key").update(implementation="rbg"),
    "words of another number": lambda c: leaf_of(c, "key").update(shape=[1]),
    "a sharding that is a text": lambda c: c["shardings"].append("x"),
    "an unknown sharding": lambda c: leaf_of(c, "split").update(sharding=len(c["shardings"])),
    "a sharding of an array on the host": lambda c: leaf_of(c, "list/0").update(sharding=0),
    "a sharding of a value": lambda c: leaf_of(c, "python/i").update(sharding=0),
    "a sharding of more axes": lambda c: sharding_of(c, "split").update(spec=[None, None, "x"]),
    "a sharding that does not fit": lambda c: (
        sharding_of(c, "split").update(
            axes=[["x", 4], ["y", 1]], spec=[None, ["x", "y"]], devices=list("abcd")
        )
        or leaf_of(c, "split").update(shape=[4, 2])
    ),
    "an axis twice": lambda c: sharding_of(c, "split").update(spec=["x", "x"]),
    "an unknown axis": lambda c: sharding_of(c, "split").update(spec=["z"]),
    "more devices than places": lambda c: sharding_of(c, "split").update(axes=[["x", 2], ["y", 1]]),
    "an unknown type of axes": lambda c: sharding_of(c, "split").update(types=["Auto", "mro"]),
    "a device that is a number": lambda c: sharding_of(c, "here").update(device=3),
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
    (tmp_path / INDEX).write_text(text, encoding="latin-1")
    with pytest.raises(CorruptCheckpointError, match="is damaged"):
        checkpoints.restore(tmp_path)


@contract("18.2")
@pytest.mark.parametrize("depth", [100, 250, 320, 400, 1000, 10_000])
def test_trees_of_any_depth_are_read_or_refused(saved: Path, depth: int) -> None:
    start = '{"list":[' * depth + "null" + "]}" * depth
    content = content_of(saved)
    leaf = leaf_of(content, "python/i") | {"path": "a"}
    rest = json.dumps({**content, "leaves": [leaf]} | {"tree": 0}, separators=(",", ":"))
    write_text(saved, rest.replace('"tree":0', f'"tree":{start}'), 2)
    try:
        found = checkpoints.restore(saved)
    except CorruptCheckpointError:
        assert depth > 100
        return
    for _ in range(depth):
        (found,) = found
    assert found == 3


@contract("18.2")
def test_memory_is_not_taken_for_bytes_that_are_not_there(saved: Path) -> None:
    content = content_of(saved)
    leaf = leaf_of(content, "list/0")
    leaf["shape"] = [2**40]
    write(saved, content)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptCheckpointError, match=r"list/0: .* ends after [0-9]+ of"):
            checkpoints.restore(saved)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


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
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("count", "seed"), [(200, 0), *[pytest.param(5000, n, marks=pytest.mark.full) for n in (1, 2)]]
)
def test_mutated_indices_give_the_error_or_what_they_say(
    saved: Path, version: int, count: int, seed: int
) -> None:
    if version == 1:
        saved = first_version(saved.parent / "first")
    # The devices of the other process are called otherwise.
    text = json.dumps(content_of(saved)).replace("cpu:2048", "cpu:2").replace("cpu:2049", "cpu:3")
    whole, chance = json.loads(text), random.Random(seed)
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
