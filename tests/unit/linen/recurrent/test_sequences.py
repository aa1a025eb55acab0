"""Sequences: what padding may not change, orders of steps, and carries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln import linen, random
from kiln.linen.recurrent.sequences import flip_sequences

X = np.linspace(-1, 1, 2 * 5 * 3, dtype=np.float32).reshape(2, 5, 3)
LENGTHS = np.array([3, 5])
KEY = random.key(0)


def made(**fields: Any) -> tuple[Any, Any]:
    rnn = linen.RNN(linen.GRUCell(4), **fields)
    return rnn, rnn.init(KEY, X)


def test_flipped_sequences() -> None:
    rows = np.array([[1, 0, 0], [2, 3, 0], [4, 5, 6]])
    expected = np.array([[1, 0, 0], [3, 2, 0], [6, 5, 4]])
    lengths = np.array([1, 2, 3])
    np.testing.assert_array_equal(flip_sequences(rows, lengths, 1, False), expected)
    np.testing.assert_array_equal(flip_sequences(rows.T, lengths, 1, True), expected.T)
    np.testing.assert_array_equal(flip_sequences(rows, None, 1, False), rows[:, ::-1])
    deep = np.stack([rows, rows], -1)[None]
    np.testing.assert_array_equal(
        flip_sequences(deep, lengths[None], 2, False), np.stack([expected, expected], -1)[None]
    )


def test_a_sequence_is_its_steps() -> None:
    rnn, variables = made(return_carry=True)
    last, outputs = rnn.apply(variables, X)
    cell = linen.GRUCell(4)
    carry = cell.initialize_carry(KEY, (2, 3))
    for i in range(5):
        carry, y = cell.apply({"params": variables["params"]["cell"]}, carry, X[:, i])
        np.testing.assert_allclose(outputs[:, i], y, atol=1e-6)
    np.testing.assert_allclose(last, carry, atol=1e-6)


def test_padding_changes_nothing() -> None:
    rnn, variables = made(return_carry=True)
    changed = X.copy()
    changed[0, 3:] = 100
    for reverse in (False, True):
        carry, outputs = rnn.apply(variables, X, seq_lengths=LENGTHS, reverse=reverse)
        other, others = rnn.apply(variables, changed, seq_lengths=LENGTHS, reverse=reverse)
        alone, short = rnn.apply(variables, X[:1, :3], reverse=reverse)
        np.testing.assert_array_equal(carry, other)
        np.testing.assert_array_equal(outputs[0, :3], others[0, :3])
        np.testing.assert_allclose(outputs[0, :3], short[0], atol=1e-6)
        np.testing.assert_allclose(carry[0], alone[0], atol=1e-6)


def test_carries_with_several_batch_axes_and_lengths() -> None:
    rnn, variables = made(return_carry=True)
    deep = np.stack([X, X + 1])
    lengths = np.array([[3, 5], [1, 2]])
    carry, _ = rnn.apply(variables, deep, seq_lengths=lengths)
    assert carry.shape == (2, 2, 4)
    for i in range(2):
        row, _ = rnn.apply(variables, deep[i], seq_lengths=lengths[i])
        np.testing.assert_allclose(carry[i], row, atol=1e-6)


def test_time_first() -> None:
    rnn, variables = made()
    outputs = rnn.apply(variables, X.swapaxes(0, 1), time_major=True)
    np.testing.assert_allclose(np.swapaxes(outputs, 0, 1), rnn.apply(variables, X), atol=1e-6)


def test_one_module_for_both_directions_is_told() -> None:
    rnn = linen.RNN(linen.GRUCell(4))
    with pytest.warns(UserWarning, match="share their parameters"):
        variables = linen.Bidirectional(rnn, rnn).init(KEY, X)
    assert len(variables["params"]) == 1


def test_both_directions() -> None:
    layer = linen.Bidirectional(
        linen.RNN(linen.GRUCell(4)), linen.RNN(linen.GRUCell(3)), return_carry=True
    )
    ((before, after), outputs), variables = layer.init_with_output(KEY, X, seq_lengths=LENGTHS)
    assert sorted(variables["params"]) == ["backward_rnn", "forward_rnn"]
    assert outputs.shape == (2, 5, 7)
    # The last carry forwards is the last output; that backwards is the first.
    np.testing.assert_allclose(before, outputs[[0, 1], LENGTHS - 1, :4], atol=1e-6)
    np.testing.assert_allclose(after, outputs[:, 0, 4:], atol=1e-6)


def test_a_sequence_in_jit_and_grad() -> None:
    rnn, variables = made()

    def loss(variables: Any) -> Any:
        return (rnn.apply(variables, X, seq_lengths=LENGTHS) ** 2).sum()

    plain, jitted = kiln.grad(loss)(variables), kiln.jit(kiln.grad(loss))(variables)
    for x, y in zip(kiln.tree.leaves(plain), kiln.tree.leaves(jitted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
