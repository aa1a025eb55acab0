from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import checkpoints
from kiln.base import dtypes
from kiln.checkpoints import data_files
from kiln.checkpoints.checkpoint import Checkpoint
from kiln.errors import CheckpointError, CorruptCheckpointError
from kiln.sharding import Mesh, NamedSharding, P, make_mesh
from tests.contract.marks import contract
from tests.unit.checkpoints.crafted import content_of, first_version, write


class Moments(NamedTuple):
    mean: Any
    count: Any


def over(count: int, *spec: Any) -> NamedSharding:
    return NamedSharding(make_mesh((count,), ("x",)), P(*spec))


def bits(x: Any) -> tuple[Any, ...]:
    if isinstance(x.dtype, dtypes.KeyDtype):
        x = kiln.random.key_data(x)
    value = np.asarray(x)
    return value.dtype, value.shape, value.tobytes()


@contract("18.1")
@pytest.mark.parametrize("name", [*dtypes.SUPPORTED, "float0"])
def test_every_dtype_comes_back(tmp_path: Path, name: str) -> None:
    dtype = dtypes.float0 if name == "float0" else dtypes.SUPPORTED[name]
    host = np.zeros((2, 3), dtype)
    if name != "float0":
        host = np.arange(6).reshape(2, 3).astype(dtype)
    with kiln.enable_x64(True):
        tree = {"host": host, "array": kiln.device_put(host), "none": host[:0]}
        # jaxlib has no arrays of some dtypes.
        if name != "float0" and not name.startswith("float6") and not name.endswith("int1"):
            tree["sharded"] = kiln.device_put(host, over(2, "x"))
    checkpoints.save(tmp_path / "c", tree)
    found = checkpoints.restore(tmp_path / "c")
    assert {k: bits(v) for k, v in found.items()} == {k: bits(v) for k, v in tree.items()}
    assert {k: type(v) for k, v in found.items()} == {k: type(v) for k, v in tree.items()}


@contract("18.1")
def test_leaves_come_back_as_they_were(tmp_path: Path) -> None:
    tree = {
        "numbers": [True, -(2**70), 0.1, float("inf"), 1 - 2j, complex("nan+1j"), ""],
        "texts": ("h/é\ud800", b"\0\xff", None),
        "scalars": [np.float32(0.1), np.int8(-1), np.bool_(True)],
        "weak": jnp.asarray(2.0),
        "keys": kiln.random.split(kiln.random.key(3), 4),
        "of another generator": kiln.random.key(3, impl="rbg"),
        "raw": kiln.random.PRNGKey(3),
        "empty": [{}, [], ()],
        1: {"a/b": 1, "": 2, "%": 3},
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "swapped": np.arange(3, dtype=">i4"),
    }
    tree = {str(k) if k == 1 else k: v for k, v in tree.items()}
    checkpoints.save(tmp_path / "c", tree, metadata={"run": [1, None]})
    found = checkpoints.restore(tmp_path / "c")
    assert repr(found["numbers"]) == repr(tree["numbers"])
    assert found["texts"] == tree["texts"]
    assert found["scalars"] == tree["scalars"]
    assert [type(x) for x in found["scalars"]] == [type(x) for x in tree["scalars"]]
    assert found["weak"].weak_type
    assert not found["raw"].weak_type
    for name in ("keys", "of another generator"):
        assert bits(found[name]) == bits(tree[name])
        assert found[name].dtype == tree[name].dtype
    assert kiln.random.uniform(found["keys"][1]) == kiln.random.uniform(tree["keys"][1])
    assert found["empty"] == tree["empty"]
    assert found["1"] == tree["1"]
    np.testing.assert_array_equal(found["fortran"], tree["fortran"])
    np.testing.assert_array_equal(found["swapped"], np.arange(3))
    assert found["fortran"].flags.writeable
    checkpoint = Checkpoint(tmp_path / "c")
    assert checkpoint.metadata == {"run": [1, None]}
    assert [checkpoint[p] for p in ("1/a%2Fb", "1/%", "1/%25")] == [1, 2, 3]


@contract("18.1")
@pytest.mark.parametrize("tree", [None, 5, (), {}, [None], np.float32(1)])
def test_trees_of_one_leaf_or_none(tmp_path: Path, tree: Any) -> None:
    checkpoints.save(tmp_path / "c", tree)
    assert checkpoints.restore(tmp_path / "c") == tree
    assert checkpoints.restore(tmp_path / "c", tree) == tree


@contract("18.2")
def test_other_containers_need_a_target(tmp_path: Path) -> None:
    tree = Moments(jnp.ones(2), {"a": 1})
    checkpoints.save(tmp_path / "c", tree)
    found = checkpoints.restore(tmp_path / "c")
    assert type(found) is dict
    assert found["count"] == {"a": 1}
    again = checkpoints.restore(tmp_path / "c", tree)
    assert type(again) is Moments
    np.testing.assert_array_equal(again.mean, np.ones(2))


@contract("18.3")
def test_arrays_come_back_where_they_were(tmp_path: Path) -> None:
    grid = make_mesh((2, 4), ("a", "b"))
    reversed_mesh = Mesh(np.array(kiln.devices()[:8])[::-1].reshape(8), ("r",))
    x = jnp.arange(64.0).reshape(8, 8)
    tree = {
        "both": kiln.device_put(x, NamedSharding(grid, P("a", "b"))),
        "one": kiln.device_put(x, NamedSharding(grid, P(None, "a"))),
        "joined": kiln.device_put(x, NamedSharding(grid, P(("a", "b")))),
        "copies": kiln.device_put(x, NamedSharding(grid, P())),
        "turned": kiln.device_put(x, NamedSharding(reversed_mesh, P("r"))),
        "third": kiln.device_put(x, kiln.devices()[2]),
        "keys": kiln.device_put(kiln.random.split(kiln.random.key(1), 8), over(8, "x")),
        "wide keys": kiln.device_put(
            kiln.random.split(kiln.random.key(1, impl="rbg"), 8), over(8, "x")
        ),
        "free": x,
    }
    checkpoints.save(tmp_path / "c", tree)
    found = checkpoints.restore(tmp_path / "c")
    for name, value in tree.items():
        assert found[name].sharding == value.sharding
        assert found[name].committed == value.committed
        assert bits(found[name]) == bits(value)
    # Each part is written once.
    content = content_of(tmp_path / "c")
    parts = {
        leaf["path"]: len(content["layouts"][leaf["layout"]]["owners"])
        for leaf in content["leaves"]
    }
    alone = {"copies": 1, "third": 1, "free": 1}
    assert parts == {**dict.fromkeys(tree, 8), "one": 2, **alone}


@contract("18.3")
@pytest.mark.parametrize("count", [1, 2, 4])
def test_onto_another_number_of_devices(tmp_path: Path, count: int) -> None:
    x = np.arange(128.0, dtype=np.float32).reshape(8, 16)
    keys = kiln.random.split(kiln.random.key(1), 8)
    tree = {
        "w": kiln.device_put(x, NamedSharding(make_mesh((4, 2), ("a", "b")), P("a", "b"))),
        "k": kiln.device_put(keys, over(8, "x")),
        "n": x,
    }
    checkpoints.save(tmp_path / "c", tree)
    for spec in [("x",), (None, "x"), ()]:
        place = over(count, *spec)
        target = {
            "w": kiln.ShapeDtypeStruct((8, 16), jnp.float32, sharding=place),
            "k": kiln.ShapeDtypeStruct((8,), keys.dtype, sharding=over(count, "x")),
            "n": np.zeros((8, 16), np.float32),
        }
        found = checkpoints.restore(tmp_path / "c", target)
        assert found["w"].sharding == place
        assert found["k"].sharding == over(count, "x")
        assert isinstance(found["n"], np.ndarray)
        chosen = checkpoints.restore(
            tmp_path / "c", sharding=lambda path, place=place: place if path == "w" else None
        )
        assert chosen["w"].sharding == place
        assert not chosen["k"].committed
        for tree_found in (found, chosen):
            assert bits(tree_found["w"]) == bits(x)
            assert bits(tree_found["k"]) == bits(keys)
    same = checkpoints.restore(tmp_path / "c", sharding=over(count, "x"))
    assert {str(leaf.sharding) for leaf in same.values()} == {str(over(count, "x"))}


@contract("18.3")
def test_devices_that_are_not_here_are_told(tmp_path: Path) -> None:
    checkpoints.save(tmp_path / "c", {"w": kiln.device_put(jnp.arange(4.0), over(4, "x"))})
    content = json.dumps(content_of(tmp_path / "c")).replace('"cpu:3"', '"cpu:99"')
    write(tmp_path / "c", json.loads(content))
    with pytest.raises(CheckpointError, match="w was on 4 devices") as caught:
        checkpoints.restore(tmp_path / "c")
    assert "sharding=" in str(caught.value).splitlines()[2]
    with pytest.raises(CheckpointError, match="w was on 4 devices"):
        Checkpoint(tmp_path / "c")["w"]
    assert Checkpoint(tmp_path / "c").structs()["w"].sharding is None
    assert Checkpoint(tmp_path / "c").read("w", over(2, "x")).sharding == over(2, "x")
    np.testing.assert_array_equal(
        checkpoints.restore(tmp_path / "c", {"w": np.ones(4, np.float32)})["w"], np.arange(4)
    )


@contract("18.1")
def test_reading_by_path_reads_no_more(tmp_path: Path) -> None:
    x = jnp.arange(64.0).reshape(8, 8)
    tree = {"a": {"w": kiln.device_put(x, over(8, "x"))}, "b": jnp.ones(3)}
    checkpoints.save(tmp_path / "c", tree)
    data = next((tmp_path / "c").glob("data-*"))
    content = bytearray(data.read_bytes())
    content[-1] ^= 1
    data.write_bytes(content)
    with Checkpoint(tmp_path / "c") as checkpoint:
        assert list(checkpoint) == ["a/w", "b"]
        assert len(checkpoint) == 2
        assert "a/w" in checkpoint
        assert bits(checkpoint["a/w"]) == bits(x)
        assert bits(checkpoint.read("a/w")) == bits(x)
        assert not checkpoint.read("a/w").committed
        with pytest.raises(CorruptCheckpointError, match="b: 12 bytes at 640"):
            checkpoint["b"]
        with pytest.raises(KeyError):
            checkpoint["a"]
        with pytest.raises(CheckpointError, match="not divisible"):
            checkpoint.read("a/w", over(3, "x"))
        assert "2 leaves, 268 bytes" in repr(checkpoint)


@contract("18.2")
def test_damage_is_named_by_path(tmp_path: Path) -> None:
    tree = {"a": jnp.arange(100.0), "b": jnp.arange(100.0), "c": 1}
    checkpoints.save(tmp_path / "c", tree)
    data = next((tmp_path / "c").glob("data-*"))
    whole = data.read_bytes()
    data.write_bytes(whole[:-5])
    with pytest.raises(CorruptCheckpointError, match=r"b: .* ends after 395 of 400") as caught:
        checkpoints.restore(tmp_path / "c")
    assert len(str(caught.value).splitlines()) == 3
    data.write_bytes(whole[:128] + bytes([whole[128] ^ 4]) + whole[129:-4])
    with pytest.raises(CorruptCheckpointError, match=r"a: .*; b: ") as caught:
        Checkpoint(tmp_path / "c").verify()
    assert len(str(caught.value).splitlines()) == 3
    data.unlink()
    with pytest.raises(CorruptCheckpointError, match=r"a: its file data-.* is missing"):
        checkpoints.restore(tmp_path / "c")
    data.write_bytes(whole)
    Checkpoint(tmp_path / "c").verify()


def test_a_reader_keeps_what_it_opened(tmp_path: Path) -> None:
    checkpoints.save(tmp_path / "c", {"w": jnp.ones(3)})
    with Checkpoint(tmp_path / "c") as before:
        checkpoints.save(tmp_path / "c", {"w": jnp.zeros(3)})
        np.testing.assert_array_equal(before["w"], np.ones(3))
    np.testing.assert_array_equal(checkpoints.restore(tmp_path / "c")["w"], np.zeros(3))


def test_a_closed_checkpoint_is_told(tmp_path: Path) -> None:
    checkpoints.save(tmp_path / "c", {"w": jnp.ones(3), "step": 3})
    before = len(os.listdir("/dev/fd"))
    with Checkpoint(tmp_path / "c") as checkpoint:
        pass
    with pytest.raises(ValueError, match="w is read after the checkpoint was closed") as caught:
        checkpoint["w"]
    assert len(str(caught.value).splitlines()) == 3
    assert checkpoint["step"] == 3
    assert len(os.listdir("/dev/fd")) == before


@contract("18.2")
def test_a_target_gives_weakness_and_place(tmp_path: Path) -> None:
    checkpoints.save(tmp_path / "c", {"w": jnp.asarray(2.0), "v": jnp.ones(8)})
    target = kiln.eval_shape(lambda: {"w": jnp.zeros(()), "v": jnp.zeros(8)})
    assert not checkpoints.restore(tmp_path / "c", target)["w"].weak_type
    arrays = {"w": jnp.asarray(0.0), "v": kiln.device_put(jnp.zeros(8), over(8, "x"))}
    found = checkpoints.restore(tmp_path / "c", arrays)
    assert found["w"].weak_type
    assert not found["w"].committed
    assert found["v"].sharding == over(8, "x")
    found = checkpoints.restore(tmp_path / "c", Checkpoint(tmp_path / "c").structs())
    assert found["w"].weak_type


def test_no_checkpoint(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(FileNotFoundError, match="is not a checkpoint") as caught:
            checkpoints.restore(path)
        assert len(str(caught.value).splitlines()) == 3


ELSEWHERE = """
import sys
import numpy as np
import kiln
from kiln import checkpoints
from kiln.errors import CheckpointError

count = len(kiln.devices())
place = kiln.NamedSharding(kiln.make_mesh((count,), ("x",)), kiln.P(None, "x"))
try:
    checkpoints.restore(sys.argv[1])
except CheckpointError as error:
    print(str(error).splitlines()[1])
found = checkpoints.restore(sys.argv[1], sharding=place)
assert found["w"].sharding == place
print(count, (np.asarray(found["w"]) == np.arange(64.0).reshape(8, 8)).all())
"""


@pytest.mark.parametrize("count", [1, 2])
def test_in_a_process_with_fewer_devices(tmp_path: Path, count: int) -> None:
    x = jnp.arange(64.0).reshape(8, 8)
    mesh = make_mesh((4, 2), ("a", "b"))
    checkpoints.save(tmp_path / "c", {"w": kiln.device_put(x, NamedSharding(mesh, P("a", "b")))})
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(tmp_path / "c")],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "KILN_NUM_CPU_DEVICES": str(count)},
    )
    assert done.stdout == f"w was on 8 devices, not all of which exist here\n{count} True\n"


def test_no_file_stays_open_when_one_is_refused(tmp_path: Path) -> None:
    checkpoints.save(tmp_path / "c", {"v": np.ones(9)})
    (data,) = (tmp_path / "c").glob("data-*")
    content = content_of(tmp_path / "c")
    content["layouts"] = [{"grid": [9], "owners": list(range(9))}]
    write(tmp_path / "c", content)
    for process in range(1, 8):
        data.with_name(data.name.replace("data-0", f"data-{process}")).write_bytes(b"")
    os.mkfifo(data.with_name(data.name.replace("data-0", "data-8")))
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(CorruptCheckpointError, match="is not a file"):
        Checkpoint(tmp_path / "c")
    assert len(os.listdir("/dev/fd")) == before


def test_of_many_files_few_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "MOST_HELD", 3)
    saved = first_version(tmp_path / "c")
    before = len(os.listdir("/dev/fd"))
    with Checkpoint(saved) as checkpoint:
        assert len(os.listdir("/dev/fd")) == before + 2
        monkeypatch.setattr(data_files, "MOST_HELD", 1)
        with Checkpoint(saved) as other:
            # Too many to open before they are needed; the first that is read stays open.
            assert len(os.listdir("/dev/fd")) == before + 2
            np.testing.assert_array_equal(other.read("both"), checkpoint.read("both"))
            assert len(os.listdir("/dev/fd")) == before + 3
            next(saved.glob("data-1-*")).unlink()
            with pytest.raises(CorruptCheckpointError, match=r"data-1-.* is missing"):
                other.read("both")
        np.testing.assert_array_equal(checkpoint.read("both")[7], np.arange(28, 32))
    assert len(os.listdir("/dev/fd")) == before
