"""Arrays as text."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import kiln.numpy as jnp


def test_array_repr_is_what_arrays_print() -> None:
    for x in (jnp.ones((2, 3)), jnp.arange(3), jnp.ones((), "int8"), jnp.zeros((0, 2), bool)):
        assert jnp.array_repr(x) == repr(x)


def test_array_repr_takes_options() -> None:
    assert jnp.array_repr(jnp.array([1 / 3]), precision=2) == "Array([0.33], dtype=float32)"


@pytest.mark.parametrize("name", ["a", "a.npy", "a.b"])
def test_files_have_the_names_that_numpy_gives(tmp_path: Path, name: str) -> None:
    for folder, of in (("kiln", jnp), ("numpy", np)):
        (tmp_path / folder).mkdir()
        of.save(tmp_path / folder / name, np.arange(3))
        of.save(str(tmp_path / folder / f"{name}2"), np.array([None]), allow_pickle=True)
        of.savez(tmp_path / folder / name, np.arange(3), w=np.ones(2))
        of.savez(str(tmp_path / folder / f"{name}2"), np.arange(2))
    names = [sorted(p.name for p in (tmp_path / f).iterdir()) for f in ("kiln", "numpy")]
    assert names[0] == names[1]
    for file in names[0]:
        one, other = [(tmp_path / folder / file).stat().st_size for folder in ("kiln", "numpy")]
        assert one == other
    with pytest.raises(ValueError, match="allow_pickle=False"):
        jnp.save(tmp_path / "c.npy", np.array([None]), allow_pickle=False)
    assert not (tmp_path / "c.npy").exists()


def test_bfloat16_comes_back_from_a_file() -> None:
    file = io.BytesIO()
    jnp.save(file, jnp.array([1.5, -2.0], jnp.bfloat16))
    file.seek(0)
    loaded = jnp.load(file)
    assert loaded.dtype == jnp.bfloat16
    assert loaded.tolist() == [1.5, -2.0]
