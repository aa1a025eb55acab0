from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.serialization import load, save, to_bytes, write_atomically
from kiln.sharding import NamedSharding, P, make_mesh

SUFFIXES = [".msgpack", ".safetensors"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_arrays_come_back_where_they_were(tmp_path: Path, suffix: str) -> None:
    mesh = make_mesh((1,), ("a",))
    place = NamedSharding(mesh, P("a"))
    tree = {
        "cut": kiln.device_put(jnp.arange(4.0), place),
        "free": jnp.ones(2),
        "host": np.ones(3),
        "step": 7,
    }
    save(tmp_path / f"model{suffix}", tree)
    found = load(tmp_path / f"model{suffix}", tree)
    assert found["cut"].sharding == place
    assert found["cut"].committed
    assert not found["free"].committed
    assert isinstance(found["free"], kiln.Array)
    assert isinstance(found["host"], np.ndarray)
    assert found["step"] == 7
    np.testing.assert_array_equal(found["cut"], np.arange(4.0))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_loading_by_types(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    save(path, {"w": jnp.ones((2, 3))})
    place = NamedSharding(make_mesh((1,), ("a",)), P("a"))
    target = {"w": kiln.ShapeDtypeStruct((2, 3), jnp.float32, sharding=place)}
    assert load(path, target)["w"].sharding == place
    found = load(path, kiln.eval_shape(lambda: {"w": jnp.ones((2, 3))}))
    assert isinstance(found["w"], kiln.Array)
    assert isinstance(load(path)["w"], np.ndarray)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_mismatch_names_file_and_path(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    save(path, {"a": {"w": jnp.ones((2, 3)), "b": jnp.ones(1)}})
    for target, words in [
        ({"a": {"w": jnp.ones((3, 3)), "b": jnp.ones(1)}}, "a/w"),
        ({"a": {"w": jnp.ones((2, 3), jnp.bfloat16), "b": jnp.ones(1)}}, "bfloat16"),
        ({"a": {"w": jnp.ones((2, 3)), "b": jnp.ones(1), "c": 1}}, "c"),
        ({"a": {"w": jnp.ones((2, 3))}}, "unexpected"),
    ]:
        with pytest.raises(ValueError, match=words) as caught:
            load(path, target)
        assert f"model{suffix}" in str(caught.value)
        assert len(str(caught.value).splitlines()) == 3
    assert load(path, {"a": {"w": jnp.ones((2, 3))}}, strict=False)["a"]["w"].shape == (2, 3)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failure_leaves_the_file_that_was_there(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    save(path, {"w": 1})
    before = path.read_bytes()
    with pytest.raises(TypeError, match="object"):
        save(path, {"v": np.ones(3), "w": object()})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_pieces_that_fail_midway_leave_nothing(tmp_path: Path) -> None:
    def pieces():
        yield b"half"
        assert [p.suffix for p in tmp_path.iterdir()] == [".tmp"]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "model.msgpack", pieces())
    assert list(tmp_path.iterdir()) == []


def test_files_have_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"")
    save(tmp_path / "model.msgpack", {"w": 1})
    modes = {path.stat().st_mode for path in tmp_path.iterdir()}
    assert len(modes) == 1


def test_the_suffix_is_the_format(tmp_path: Path) -> None:
    for function in (lambda: save(tmp_path / "a.bin", 1), lambda: load(tmp_path / "a.bin")):
        with pytest.raises(ValueError, match=r"\.msgpack"):
            function()
    with pytest.raises(ValueError, match="metadata"):
        save(tmp_path / "a.msgpack", 1, metadata={"a": "b"})
    save(str(tmp_path / "a.msgpack"), {"w": 2})
    assert (tmp_path / "a.msgpack").read_bytes() == to_bytes({"w": 2})


CRASH = """
import os, sys
from kiln.serialization import write_atomically

def pieces():
    yield b"half"
    os._exit(9)

write_atomically(sys.argv[1], pieces())
"""


def test_a_crash_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    path = tmp_path / "model.msgpack"
    save(path, {"w": 1})
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", CRASH, str(path)], check=False, timeout=120)
    assert done.returncode == 9
    assert path.read_bytes() == before
    assert load(path) == {"w": 1}
