from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import checkpoints
from kiln.checkpoints import saving
from kiln.errors import CheckpointError
from tests.contract.marks import contract


def lines(error: BaseException) -> list[str]:
    return str(error).splitlines()


def test_a_folder_appears_with_all_of_it(tmp_path: Path) -> None:
    done = checkpoints.save(tmp_path / "a" / "b", {"w": jnp.ones(3)})
    assert done.done
    assert done.path == tmp_path / "a" / "b"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    names = sorted(path.name for path in done.path.iterdir())
    assert names[1:] == ["index.json"]
    assert names[0].startswith("data-0-")


def test_a_checkpoint_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    checkpoints.save(folder, {"w": jnp.ones(3)})
    before = {path.name for path in folder.iterdir()}
    (folder / f"data-9-{'0' * 32}.bin").write_bytes(b"of a killed writer")
    (folder / f".index.json.{'0' * 32}.tmp").write_bytes(b"of a killed writer")
    checkpoints.save(folder, {"v": jnp.zeros(2), "step": 2})
    assert list(checkpoints.restore(folder)) == ["step", "v"]
    after = {path.name for path in folder.iterdir()}
    assert len(after) == 2
    assert after & before == {"index.json"}


OTHERS = ("data-train.bin", "data-1-abc.bin", ".notes.tmp", "part-one.json", "part-0.json.bak")


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_others_stay(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    (folder / name).write_text("mine")
    with pytest.raises(CheckpointError, match="a folder with other files"):
        checkpoints.save(folder, {"w": jnp.ones(3)})
    assert os.listdir(folder) == [name]
    (folder / name).unlink()
    checkpoints.save(folder, {"w": jnp.ones(3)})
    (folder / name).write_text("mine")
    checkpoints.save(folder, {"w": jnp.ones(2)})
    assert (folder / name).read_text() == "mine"
    assert checkpoints.restore(folder)["w"].shape == (2,)


@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_a_checkpoint_without_a_file_as_its_index_is_not_replaced(
    tmp_path: Path, what: str
) -> None:
    folder = tmp_path / "c"
    checkpoints.save(folder, {"w": jnp.ones(3)})
    index = folder / "index.json"
    index.rename(tmp_path / "kept")
    match what:
        case "link":
            index.symlink_to(tmp_path / "kept")
        case "pipe":
            os.mkfifo(index)
        case "folder":
            index.mkdir()
    before = sorted(os.listdir(folder))
    with pytest.raises(CheckpointError, match=r"index\.json"):
        checkpoints.save(folder, {"w": jnp.zeros(3)})
    assert sorted(os.listdir(folder)) == before


def test_what_cannot_be_removed_stays(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    checkpoints.save(folder, {"w": jnp.ones(3)})
    (folder / f"data-0-{'0' * 32}.bin").mkdir()
    checkpoints.save(folder, {"w": jnp.ones(2)})
    assert checkpoints.restore(folder)["w"].shape == (2,)


def test_what_is_no_checkpoint_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "notes").touch()
    (tmp_path / "file").touch()
    for path in (folder, tmp_path / "file"):
        with pytest.raises(CheckpointError, match="no checkpoint") as caught:
            checkpoints.save(path, 1)
        assert len(lines(caught.value)) == 3
    assert [path.name for path in folder.iterdir()] == ["notes"]
    (folder / "notes").unlink()
    checkpoints.save(folder, 1)
    assert checkpoints.restore(folder) == 1


@contract("18.4")
def test_a_leaf_that_cannot_be_saved_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    deleted = jnp.ones(2) + 1
    deleted.delete()
    for leaf, words in [
        (object(), "no object"),
        (np.array(["a"]), "dtype <U1"),
        (np.array([None]), "dtype object"),
        (kiln.new_ref(1.0), "no Ref"),
        (deleted, "deleted"),
        (np.longdouble(1), "dtype"),
    ]:
        with pytest.raises((TypeError, ValueError), match=words) as caught:
            checkpoints.save(tmp_path / "c", {"a": [1, {"b": leaf}]})
        assert "the leaf a/1/b" in lines(caught.value)[0]
        assert len(lines(caught.value)) == 3
    with pytest.raises(TypeError, match="tracer"):
        kiln.jit(lambda x: checkpoints.save(tmp_path / "c", x))(1.0)
    with pytest.raises(ValueError, match="two leaves have the path 1"):
        checkpoints.save(tmp_path / "c", OrderedDict([(1, 1), ("1", 2)]))
    for metadata in ({1: 2}, object(), (1,)):
        with pytest.raises(TypeError, match="metadata"):
            checkpoints.save(tmp_path / "c", 1, metadata=metadata)
    assert list(tmp_path.iterdir()) == []


@contract("18.5")
def test_in_the_background_values_are_those_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    write = saving.write_blocks

    def late(*arguments):
        gate.wait()
        return write(*arguments)

    monkeypatch.setattr(saving, "write_blocks", late)
    mine, theirs, gone = np.ones(3), jnp.ones(3), jnp.ones(3) * 3
    donate = kiln.jit(lambda x: x.at[0].set(7.0), donate_argnums=0)
    rows = kiln.NamedSharding(kiln.make_mesh((4,), ("x",)), kiln.P("x"))
    split = kiln.device_put(np.arange(8.0), rows)
    tree = {"mine": mine, "theirs": theirs, "gone": gone, "split": split}
    running = checkpoints.save(tmp_path / "c", tree, wait=False)
    assert not running.done
    assert "running" in repr(running)
    with pytest.raises(TimeoutError):
        running.wait(0.01)
    mine[:] = 2
    theirs, split = donate(theirs), donate(split)
    gone.delete()
    gate.set()
    running.wait()
    assert "done" in repr(running)
    found = checkpoints.restore(tmp_path / "c")
    np.testing.assert_array_equal(found["mine"], np.ones(3))
    np.testing.assert_array_equal(found["theirs"], np.ones(3))
    np.testing.assert_array_equal(found["gone"], np.full(3, 3.0))
    np.testing.assert_array_equal(found["split"], np.arange(8.0))


def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saving, "write_blocks", fail)


@contract("18.5")
def test_an_error_of_the_background_surfaces_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.save(tmp_path / "c", 1)
    with monkeypatch.context() as patch:
        failing(patch)
        first = checkpoints.save(tmp_path / "c", 2, wait=False)
        with pytest.raises(OSError, match="No space"):
            first.wait()
        assert "failed" in repr(first)
        checkpoints.save(tmp_path / "d", 2, wait=False)._finished.wait()
    with pytest.raises(OSError, match="No space") as caught:
        checkpoints.save(tmp_path / "c", 3)
    assert caught.value.__notes__ == [f"while {tmp_path / 'd'} was saved"]
    assert checkpoints.restore(tmp_path / "c") == 1
    checkpoints.save(tmp_path / "c", 3)
    assert checkpoints.restore(tmp_path / "c") == 3
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_threads_that_save_at_once_lose_no_error(tmp_path: Path) -> None:
    running = [saving.started(tmp_path, lambda: 1 / 0, wait=False) for _ in range(2)]
    for one in running:
        one._finished.wait()
    for _ in running:
        with pytest.raises(ZeroDivisionError):
            checkpoints.save(tmp_path / "c", 1)
    checkpoints.save(tmp_path / "c", 1)
    assert saving._unsettled == []


def test_names_are_not_patterns(tmp_path: Path) -> None:
    for name in ("a[1]", "*", "a.b"):
        checkpoints.save(tmp_path / name, name)
        checkpoints.save(tmp_path / name, name)
        assert checkpoints.restore(tmp_path / name) == name


@contract("18.4")
def test_a_failed_replacement_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.save(tmp_path / "c", {"w": jnp.ones(3)})
    with monkeypatch.context() as patch:
        patch.setattr(saving, "write_atomically", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            checkpoints.save(tmp_path / "c", {"w": jnp.zeros(3)})
        with pytest.raises(ZeroDivisionError):
            checkpoints.save(tmp_path / "d", {"w": jnp.zeros(3)})
    np.testing.assert_array_equal(checkpoints.restore(tmp_path / "c")["w"], np.ones(3))
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_child_of_a_fork_does_not_wait_for_its_parent(tmp_path: Path) -> None:
    unfinished = saving.Saving(tmp_path)
    unfinished._process = os.getpid() + 1
    with pytest.raises(RuntimeError, match="forked"):
        unfinished.wait()


UNSEEN = """
import sys
from kiln import checkpoints
from kiln.checkpoints import saving

def fail(*arguments):
    raise OSError("disk full")

first = checkpoints.save(sys.argv[1] + "/a", 1, wait=False)
if len(sys.argv) > 2:
    first.wait()
    saving.write_blocks = fail
    checkpoints.save(sys.argv[1] + "/b", 2, wait=False)
"""


@contract("18.5")
@pytest.mark.parametrize("fails", [False, True])
def test_a_program_that_ends_finishes_its_save(tmp_path: Path, fails: bool) -> None:
    command = [sys.executable, "-c", UNSEEN, str(tmp_path), *["fail"] * fails]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert checkpoints.restore(tmp_path / "a") == 1
    assert ("b was not saved: OSError('disk full')" in done.stderr) is fails


WITHOUT_XLA = """
import sys
import kiln.numpy as jnp
from kiln import checkpoints

checkpoints.save(sys.argv[1] + "/a", {"w": jnp.ones(3) * 2})
print(checkpoints.restore(sys.argv[1] + "/a")["w"], "jaxlib" in sys.modules)
"""


def test_arrays_that_nothing_placed_are_saved_without_xla(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_XLA, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout == "[2. 2. 2.] False\n"


@contract("18.6")
@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_single_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"model{suffix}"
    host = np.arange(4.0)
    running = checkpoints.save(path, {"a": {"w": jnp.ones((2, 2))}, "h": host}, wait=False)
    running.wait()
    found = checkpoints.restore(path)
    np.testing.assert_array_equal(found["a"]["w"], np.ones((2, 2)))
    mesh = kiln.make_mesh((2,), ("x",))
    place = kiln.NamedSharding(mesh, kiln.P("x"))
    placed = checkpoints.restore(path, sharding=lambda name: place if name == "a/w" else None)
    assert placed["a"]["w"].sharding == place
    assert isinstance(placed["h"], np.ndarray)
    struct = kiln.ShapeDtypeStruct((2, 2), jnp.float32, sharding=place)
    target = {"a": {"w": struct}, "h": host}
    assert checkpoints.restore(path, target)["a"]["w"].sharding == place
    with pytest.raises(TypeError, match="random keys"):
        checkpoints.save(path, {"k": kiln.random.key(0)})


@contract("18.6")
def test_single_files_have_metadata_where_their_format_does(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    checkpoints.save(path, {"w": jnp.ones(2)}, metadata={"made by": "kiln"})
    # The length of the header, the header as JSON, the numbers.
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert header["__metadata__"] == {"made by": "kiln"}
    with pytest.raises(ValueError, match="files have metadata"):
        checkpoints.save(tmp_path / "model.npz", {"w": jnp.ones(2)}, metadata={"a": "b"})


def test_metadata_may_change_while_they_are_written(tmp_path: Path) -> None:
    metadata = [1]
    write = saving.prepared(tmp_path / "a", {"x": 1}, False, metadata, False)
    metadata.append(2)
    write()
    assert checkpoints.Checkpoint(tmp_path / "a").metadata == [1]
