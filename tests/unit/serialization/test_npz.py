from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.serialization import from_npz, load, save, to_npz


def test_numpy_reads_what_was_written() -> None:
    tree = {"layer": {"w": jnp.arange(4.0).reshape(2, 2), "file": np.ones(2, bool)}, "step": 3}
    with np.load(io.BytesIO(to_npz(tree)), allow_pickle=False) as found:
        assert set(found) == {"layer.w", "layer.file", "step"}
        np.testing.assert_array_equal(found["layer.w"], [[0, 1], [2, 3]])
        assert found["layer.w"].dtype == np.float32
        assert found["step"] == 3


def test_what_numpy_wrote_is_read() -> None:
    for write in (np.savez, np.savez_compressed):
        content = io.BytesIO()
        write(content, **{"a.b": np.arange(3), "c": np.asfortranarray(np.ones((2, 3)))})
        found = from_npz(None, content.getvalue())
        assert found["a"]["b"].tolist() == [0, 1, 2]
        assert found["c"].shape == (2, 3)


def test_files_and_targets(tmp_path: Path) -> None:
    tree = {"w": jnp.ones(3), "host": np.ones(2), "n": 2.5, "none": None}
    save(tmp_path / "a.npz", tree)
    found = load(tmp_path / "a.npz", tree)
    assert isinstance(found["w"], kiln.Array)
    assert isinstance(found["host"], np.ndarray)
    assert found["n"] == 2.5
    assert found["none"] is None
    assert load(tmp_path / "a.npz", {"n": 0.0}, strict=False) == {"n": 2.5}
    with pytest.raises(ValueError, match="missing: other") as caught:
        load(tmp_path / "a.npz", {"other": 1})
    assert len(str(caught.value).splitlines()) == 3
    with pytest.raises(ValueError, match="metadata"):
        save(tmp_path / "a.npz", tree, metadata={"a": "b"})


def test_equal_trees_make_equal_files() -> None:
    assert to_npz({"a": np.ones(3)}) == to_npz({"a": np.ones(3)})


@pytest.mark.parametrize(
    ("leaf", "words"),
    [
        (jnp.ones(2, "bfloat16"), "dtype bfloat16"),
        (jnp.ones(2, "int4"), "dtype int4"),
        (kiln.random.key(0), "random keys"),
        ("text", "not a str"),
        (np.array(["a"]), "not supported"),
    ],
)
def test_what_the_format_has_not_is_refused(leaf: object, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words) as caught:
        to_npz({"a": leaf})
    assert len(str(caught.value).splitlines()) == 3


def test_damage_is_told() -> None:
    whole = to_npz({"a": np.ones(3)})
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("a.npy", b"no array")
    damaged = bytearray(whole)
    damaged[whole.index(np.ones(3).tobytes())] ^= 1
    objects = io.BytesIO()
    np.savez(objects, a=np.array([None]))
    for data in (b"", b"x" * 50, whole[:-30], content.getvalue(), damaged, objects.getvalue()):
        with pytest.raises(ValueError, match="npz format") as caught:
            from_npz(None, bytes(data))
        assert len(str(caught.value).splitlines()) == 3
