"""Recurrent cells: names, carries, and what a cell of the user's has to say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln import linen, random

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
KEY = random.key(0)


def names(cell: Any, x: Any = X) -> list[str]:
    carry = cell.initialize_carry(KEY, x.shape)
    params = cell.init(KEY, carry, x)["params"]
    return sorted(f"{name}/{leaf}" for name, leaves in params.items() for leaf in leaves)


def test_names_of_parameters() -> None:
    of_state = [f"h{x}/{leaf}" for x in "fgio" for leaf in ("bias", "kernel")]
    lstm = of_state + [f"i{x}/kernel" for x in "fgio"]
    assert names(linen.LSTMCell(4)) == names(linen.OptimizedLSTMCell(4)) == lstm
    assert names(linen.SimpleCell(4)) == ["h/kernel", "i/bias", "i/kernel"]
    assert names(linen.GRUCell(4)) == sorted(
        ["hn/bias", "hn/kernel", "hr/kernel", "hz/kernel"]
        + [f"i{x}/{leaf}" for x in "rzn" for leaf in ("bias", "kernel")]
    )
    without = names(linen.MGUCell(4, reset_gate=False))
    assert sorted([*without, "hn/bias"]) == names(linen.MGUCell(4))
    image = np.ones((2, 4, 4, 3), np.float32)
    assert names(linen.ConvLSTMCell(2, (3, 3), use_bias=False), image) == ["hh/kernel", "ih/kernel"]


def test_both_lstms_are_one() -> None:
    plain, other = linen.LSTMCell(4), linen.OptimizedLSTMCell(4)
    carry = plain.initialize_carry(KEY, X.shape)
    variables = plain.init(KEY, carry, X)
    for x, y in zip(
        kiln.tree.leaves(plain.apply(variables, carry, X)),
        kiln.tree.leaves(other.apply(variables, carry, X)),
        strict=True,
    ):
        np.testing.assert_allclose(x, y, atol=1e-6)


def test_carries() -> None:
    memory, state = linen.LSTMCell(4).initialize_carry(KEY, (7, 2, 3))
    assert memory.shape == state.shape == (7, 2, 4)
    drawn = linen.OptimizedLSTMCell(4, carry_init=kiln.nn.initializers.normal(1.0))
    memory, state = drawn.initialize_carry(KEY, (2, 3))
    assert not np.any(np.asarray(memory) == np.asarray(state))
    cell = linen.ConvLSTMCell(2, (3, 3), param_dtype=np.float16)
    memory, _ = cell.initialize_carry(KEY, (5, 8, 9, 3))
    assert memory.shape == (5, 8, 9, 2)
    assert memory.dtype == np.float16
    assert cell.num_feature_axes == 3


def test_an_unfinished_cell_says_what_is_missing() -> None:
    class Mine(linen.RNNCellBase):
        @linen.compact
        def __call__(self, carry: Any, x: Any) -> Any:
            return carry, x

    for ask in (
        lambda: Mine().initialize_carry(KEY, (2, 3)),
        lambda: Mine().num_feature_axes,
    ):
        with pytest.raises(NotImplementedError) as caught:
            ask()
        asked, wrong, remedy = str(caught.value).split("\n")
        assert asked.startswith("Mine as a recurrent cell at ")
        assert "test_cells.py" in asked
        assert wrong.startswith("Mine does not say ")
        assert remedy == "define it in Mine"
