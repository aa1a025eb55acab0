"""LSTM networks with packed weights. The names are those of `jax.experimental.rnn`.

A network has `num_layers` layers, each with one direction, or two if `bidirectional`. A run through
one layer in one direction is a *pass*; passes are numbered layer by layer, forward first. A pass
has weights (4 hidden, inputs) and (4 hidden, hidden) and two biases (4 hidden,), whose four parts
belong to the input gate, the forget gate, the cell, and the output gate. When packed, all weights
come first, then all biases, in the order of the passes.

Source: the documentation of `torch.nn.LSTM`, which has the same equations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import kiln.numpy as jnp
from kiln.api.jit import jit
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.loops.loops import scan
from kiln.core.array_type import Array
from kiln.nn import sigmoid, tanh
from kiln.random import uniform

__all__ = [
    "get_num_params_in_lstm",
    "init_lstm_weight",
    "lstm",
    "lstm_ref",
    "sigmoid",
    "swap_lstm_gates",
    "tanh",
    "unpack_lstm_weights",
]

Weights = dict[int, Any]
"""By number of the pass."""


def _shapes(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return the shapes of the weights and of the biases, two of each pass."""
    directions = 2 if bidirectional else 1
    weights: list[tuple[int, ...]] = []
    for number in range(num_layers * directions):
        inputs = input_size if number < directions else directions * hidden_size
        weights += [(4 * hidden_size, inputs), (4 * hidden_size, hidden_size)]
    return weights, [(4 * hidden_size,)] * len(weights)


def get_num_params_in_lstm(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> int:
    """Return the number of packed weights.

    The network has `num_layers` layers, in two directions if `bidirectional`; `input_size` and
    `hidden_size` are the numbers of features of inputs and hidden values.
    """
    weights, biases = _shapes(input_size, hidden_size, num_layers, bidirectional)
    return sum(math.prod(shape) for shape in (*weights, *biases))


def init_lstm_weight(
    rng: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """Draw packed weights uniformly from [-k, k), where k is the root of 1 / hidden_size.

    Shapes: (n,), with the n of `get_num_params_in_lstm`.
    """
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    limit = math.sqrt(1 / hidden_size)
    return uniform(rng, (count,), jnp.float32, -limit, limit)


def _parts(weights: Any, shapes: Sequence[tuple[int, ...]], start: int) -> tuple[list[Any], int]:
    parts = []
    for shape in shapes:
        stop = start + math.prod(shape)
        parts.append(weights[start:stop].reshape(shape))
        start = stop
    return parts, start


def unpack_lstm_weights(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[Weights, Weights, Weights, Weights]:
    """Return the weights of the inputs, those of the hidden values, and their biases, by pass.

    `input_size`, `hidden_size`, `num_layers` and `bidirectional` say how they are packed. Each of
    the four is a dict by number of the pass.
    """
    shapes, bias_shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    matrices, start = _parts(weights, shapes, 0)
    biases, _ = _parts(weights, bias_shapes, start)
    found = (matrices[::2], matrices[1::2], biases[::2], biases[1::2])
    by_pass = [dict(enumerate(parts)) for parts in found]
    return by_pass[0], by_pass[1], by_pass[2], by_pass[3]


def swap_lstm_gates(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Array:
    """Return packed weights with the last two of the four parts swapped.

    `input_size`, `hidden_size`, `num_layers` and `bidirectional` say how they are packed.
    Shapes: (n,) -> (n,).
    """
    shapes, bias_shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    parts, _ = _parts(jnp.asarray(weights), [*shapes, *bias_shapes], 0)
    swapped = []
    for part in parts:
        first, second, third, fourth = jnp.split(part, 4)
        swapped += [first.ravel(), second.ravel(), fourth.ravel(), third.ravel()]
    return jnp.concatenate(swapped)


def _pass(
    inputs: Any, start: tuple[Any, Any], lengths: Any, weights: tuple[Any, Any, Any, Any]
) -> tuple[Any, Any, Any]:
    """Run one pass over (steps, batch, n) inputs; return outputs, last hidden and cell values.

    Outputs after the end of a sequence are zero.
    """
    from_inputs, from_hidden, bias, other_bias = weights

    def step(carry: tuple[Any, Any], x: Any) -> Any:
        hidden, cell = carry
        found = x @ from_inputs.T + bias[None] + hidden @ from_hidden.T + other_bias[None]
        into, forget, new, out = jnp.split(found, 4, axis=-1)
        cell = sigmoid(forget) * cell + sigmoid(into) * tanh(new)
        hidden = sigmoid(out) * tanh(cell)
        return (hidden, cell), (hidden, cell)

    _, (hiddens, cells) = scan(step, start, inputs)
    steps, rows = inputs.shape[0], jnp.arange(inputs.shape[1])
    inside = (jnp.arange(steps)[:, None] < lengths[None])[..., None]
    last = (lengths - 1) % steps
    return jnp.where(inside, hiddens, 0), hiddens[last, rows], cells[last, rows]


def _reversed(inputs: Any, lengths: Any) -> Any:
    """Reverse (steps, batch, n) sequences; elements after their ends stay after them."""
    steps, rows = jnp.arange(inputs.shape[0])[:, None], jnp.arange(inputs.shape[1])[None]
    # Step i of a sequence of n steps becomes step n - 1 - i; the others are reversed, too.
    return inputs[(lengths[None] - 1 - steps) % inputs.shape[0], rows]


@partial(
    jit,
    static_argnames=("input_size", "hidden_size", "num_layers", "dropout", "bidirectional"),
)
def lstm_ref(
    x: Any,
    h_0: Any,
    c_0: Any,
    W_ih: Weights,
    W_hh: Weights,
    b_ih: Weights,
    b_hh: Weights,
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
) -> tuple[Array, Array, Array]:
    """Run an LSTM over sequences of some lengths; return outputs, and last hidden and cell values.

    Shapes: x (batch, steps, input_size), h_0 and c_0 (passes, batch, hidden_size), seq_lengths
        (batch,) int32 -> (batch, steps, directions * hidden_size), and two like h_0.
    Raises: NotImplementedError for dropout, and for lengths of another dtype.
    """
    del input_size, hidden_size
    wrong = ""
    if seq_lengths.dtype != np.int32:
        wrong = "`seq_lengths` can only be int32."
    elif dropout != 0.0:
        wrong = "Dropout not supported in LSTM reference"
    if wrong:
        raise NotImplementedError(
            three_lines(
                f"lstm_ref(dropout={dropout}) with seq_lengths of {seq_lengths.dtype} "
                f"at {current_source()}",
                wrong,
                "pass dropout=0.0, and lengths.astype('int32')",
            )
        )
    directions = 2 if bidirectional else 1
    values, hiddens, cells = jnp.swapaxes(jnp.asarray(x), 0, 1), [], []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            number = layer * directions + direction
            weights = W_ih[number], W_hh[number], b_ih[number], b_hh[number]
            given = _reversed(values, seq_lengths) if direction else values
            found, hidden, cell = _pass(given, (h_0[number], c_0[number]), seq_lengths, weights)
            outputs.append(_reversed(found, seq_lengths) if direction else found)
            hiddens.append(hidden)
            cells.append(cell)
        values = jnp.concatenate(outputs, axis=-1)
    return jnp.swapaxes(values, 0, 1), jnp.stack(hiddens), jnp.stack(cells)


def lstm(
    x: Any,
    h_0: Any,
    c_0: Any,
    weights: Any,
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any = None,
) -> tuple[Array, Array, Array]:
    """Run an LSTM with packed weights: see `lstm_ref`. `precision` is for other devices.

    Shapes and errors (x, `h_0`, `c_0`, `seq_lengths`; `input_size`, `hidden_size`, `num_layers`,
    `bidirectional`, `dropout`): those of `lstm_ref`.
    """
    del precision
    sizes = (input_size, hidden_size, num_layers)
    parts = unpack_lstm_weights(weights, *sizes, bidirectional)
    return lstm_ref(x, h_0, c_0, *parts, seq_lengths, *sizes, dropout, bidirectional)
