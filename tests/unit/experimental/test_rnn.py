"""LSTMs with packed weights: against the equations, written out for one step of one sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.experimental import rnn

SIZES = {"input_size": 3, "hidden_size": 4, "num_layers": 2}


def logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def one_pass(xs: Any, h: Any, c: Any, *weights: Any) -> tuple[Any, Any, Any]:
    w, u, b, d = map(np.asarray, weights)
    outs = []
    for x in xs:
        i, f, g, o = np.split(w @ x + b + u @ h + d, 4)
        c = logistic(f) * c + logistic(i) * np.tanh(g)
        h = logistic(o) * np.tanh(c)
        outs.append(h)
    return np.array(outs), h, c


def network(x: Any, h: Any, c: Any, parts: Any, bidirectional: bool) -> tuple[Any, Any, Any]:
    """Run one sequence, all of which counts."""
    directions, last = (2 if bidirectional else 1), []
    for layer in range(SIZES["num_layers"]):
        outs = []
        for direction in range(directions):
            n = layer * directions + direction
            y, *ends = one_pass(x[:: 1 - 2 * direction], h[n], c[n], *(part[n] for part in parts))
            outs.append(y[:: 1 - 2 * direction])
            last.append(ends)
        x = np.concatenate(outs, -1)
    return x, np.array([ends[0] for ends in last]), np.array([ends[1] for ends in last])


@pytest.mark.parametrize("bidirectional", [False, True])
def test_lstms_are_those_of_the_equations(bidirectional: bool) -> None:
    rng = np.random.default_rng(0)
    directions = 2 if bidirectional else 1
    weights = rnn.init_lstm_weight(kiln.random.key(1), **SIZES, bidirectional=bidirectional)
    count = rnn.get_num_params_in_lstm(**SIZES, bidirectional=bidirectional)
    assert weights.shape == (count,)
    assert float(abs(weights).max()) <= 0.5
    x = rng.normal(size=(3, 5, 3)).astype(np.float32)
    h, c = rng.normal(size=(2, 2 * directions, 3, 4)).astype(np.float32)
    lengths = np.array([5, 2, 1], np.int32)
    options = {**SIZES, "dropout": 0.0, "bidirectional": bidirectional}
    y, hs, cs = rnn.lstm(x, h, c, weights, jnp.asarray(lengths), **options)
    parts = rnn.unpack_lstm_weights(weights, **SIZES, bidirectional=bidirectional)
    for i, length in enumerate(lengths):
        wanted = network(x[i, :length], h[:, i], c[:, i], parts, bidirectional)
        np.testing.assert_allclose(y[i, :length], wanted[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(hs[:, i], wanted[1], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(cs[:, i], wanted[2], rtol=1e-5, atol=1e-6)
        assert not y[i, length:].any()


def test_swapping_exchanges_the_last_two_parts_of_each_weight() -> None:
    sizes = {"input_size": 1, "hidden_size": 1, "num_layers": 1, "bidirectional": False}
    swapped = rnn.swap_lstm_gates(jnp.arange(16.0), **sizes)
    assert swapped.tolist() == [0, 1, 3, 2, 4, 5, 7, 6, 8, 9, 11, 10, 12, 13, 15, 14]


def test_dropout_and_long_lengths_are_refused() -> None:
    sizes = {"input_size": 1, "hidden_size": 1, "num_layers": 1, "bidirectional": False}
    x, h, weights = jnp.ones((1, 2, 1)), jnp.ones((1, 1, 1)), jnp.ones(16)
    with pytest.raises(NotImplementedError, match="Dropout"):
        rnn.lstm(x, h, h, weights, jnp.array([2], jnp.int32), dropout=0.5, **sizes)
    with pytest.raises(NotImplementedError, match="int32"):
        rnn.lstm(x, h, h, weights, jnp.array([2], jnp.int16), dropout=0.0, **sizes)
