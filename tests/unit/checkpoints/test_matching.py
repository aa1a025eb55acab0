from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import checkpoints
from kiln.errors import CheckpointError
from tests.contract.marks import contract


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    tree = {
        "w": jnp.ones((2, 3)),
        "k": kiln.random.key(0),
        "n": 1,
        "none": None,
        "s": np.float32(1),
    }
    checkpoints.save(tmp_path / "c", tree)
    return tmp_path / "c"


@contract("18.2")
@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"w": jnp.ones((3, 3))}, r"w: the checkpoint has the shape \(2, 3\), the target \(3, 3\)"),
        ({"w": jnp.ones((2, 3), "bfloat16")}, "w: .* dtype float32, the target bfloat16"),
        ({"w": np.ones((3,))}, r"w: .* the shape .*, and the checkpoint has the dtype float32"),
        ({"w": 1.0}, "w: the checkpoint has an array, the target a Python float"),
        ({"w": None}, "w: the checkpoint has an array, the target None"),
        ({"w": {"x": 1}}, "w/x is missing in the checkpoint"),
        ({"w": object()}, "the target a value of type object"),
        ({"k": kiln.random.split(kiln.random.key(0))}, r"k: .* shape \(\), the target \(2,\)"),
        ({"k": kiln.random.PRNGKey(0)}, "k: .* dtype key<fry>, the target uint32"),
        ({"n": jnp.ones(())}, "n: the checkpoint has a Python int, the target an array"),
        ({"n": True}, "n: the checkpoint has a Python int, the target a Python bool"),
        ({"none": 1}, "none: the checkpoint has None, the target a Python int"),
        ({"s": 1.0}, "s: the checkpoint has an array, the target a Python float"),
    ],
)
def test_a_difference_is_told_with_its_path(saved: Path, target: object, words: str) -> None:
    with pytest.raises(CheckpointError, match=words) as caught:
        checkpoints.restore(saved, target, strict=False)
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert "structs()" in lines[2]


@contract("18.2")
def test_all_differences_are_told_at_once(saved: Path) -> None:
    with pytest.raises(CheckpointError) as caught:
        checkpoints.restore(saved, {"w": jnp.ones(2), "n": 1.5, "other": 1})
    told = str(caught.value).splitlines()[1].split("; ")
    assert [line.split(":")[0].split()[0] for line in told] == [
        *("n", "other", "w", "k", "none", "s")
    ]


@contract("18.2")
def test_what_the_target_has_not_can_be_left_out(saved: Path) -> None:
    with pytest.raises(CheckpointError, match="k is missing in the target") as caught:
        checkpoints.restore(saved, {"w": jnp.ones((2, 3)), "n": 0})
    assert "strict=False" in str(caught.value)
    found = checkpoints.restore(saved, {"n": 0}, strict=False)
    assert found == {"n": 1}


def test_long_lists_are_cut(tmp_path: Path) -> None:
    checkpoints.save(tmp_path / "c", list(range(30)))
    with pytest.raises(CheckpointError, match="and 20 more"):
        checkpoints.restore(tmp_path / "c", [])


def test_shardings_must_fit(saved: Path) -> None:
    place = kiln.NamedSharding(kiln.make_mesh((4,), ("x",)), kiln.P("x"))
    with pytest.raises(CheckpointError, match=r"w: .*not divisible by 4"):
        checkpoints.restore(saved, sharding=lambda path: place if path == "w" else None)
