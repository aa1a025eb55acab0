"""linen's recurrent cells and sequences have flax's variables, values, slopes and carries."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.linen
import kiln.nn
import kiln.random
from kiln.base.options.config import override
from tests.differential.modules import compiled, trained, values
from tests.differential.operands import smooth
from tests.differential.oracle import Case, Topic

X = smooth("float32", (2, 3))
STEPS, LONG = smooth("float32", (2, 5, 3), "steps"), smooth("float32", (2, 2, 5, 3), "long")
IMAGE, FILM = smooth("float32", (2, 4, 4, 3)), smooth("float32", (2, 5, 4, 4, 3), "film")
LENGTHS = np.array([3, 5])
Make = Callable[[Any], Any]
"""A function of the library that makes a module."""

CELLS: dict[str, Make] = {
    "lstm": lambda lib: lib.linen.LSTMCell(4),
    "lstm functions": lambda lib: lib.linen.LSTMCell(
        4, gate_fn=lib.nn.hard_sigmoid, activation_fn=lib.nn.relu
    ),
    "lstm initializers": lambda lib: lib.linen.LSTMCell(
        4,
        kernel_init=lib.nn.initializers.normal(1.0),
        recurrent_kernel_init=lib.nn.initializers.normal(0.5),
        bias_init=lib.nn.initializers.ones,
        carry_init=lib.nn.initializers.normal(1.0),
    ),
    "lstm bfloat16": lambda lib: lib.linen.LSTMCell(4, dtype=lib.numpy.bfloat16),
    "lstm float16 parameters": lambda lib: lib.linen.LSTMCell(
        4, param_dtype=np.float16, recurrent_kernel_init=lib.nn.initializers.normal(0.5)
    ),
    "optimized lstm": lambda lib: lib.linen.OptimizedLSTMCell(4),
    "optimized lstm initializers": lambda lib: lib.linen.OptimizedLSTMCell(
        4, bias_init=lib.nn.initializers.normal(1.0), carry_init=lib.nn.initializers.normal(1.0)
    ),
    "optimized lstm bfloat16": lambda lib: lib.linen.OptimizedLSTMCell(4, dtype=lib.numpy.bfloat16),
    "simple": lambda lib: lib.linen.SimpleCell(4),
    "simple residual": lambda lib: lib.linen.SimpleCell(
        4, residual=True, bias_init=lib.nn.initializers.ones
    ),
    "gru": lambda lib: lib.linen.GRUCell(4),
    "gru biases": lambda lib: lib.linen.GRUCell(4, bias_init=lib.nn.initializers.normal(1.0)),
    "gru bfloat16": lambda lib: lib.linen.GRUCell(4, dtype=lib.numpy.bfloat16),
    "mgu": lambda lib: lib.linen.MGUCell(4),
    "mgu without reset": lambda lib: lib.linen.MGUCell(4, reset_gate=False),
    "mgu biases": lambda lib: lib.linen.MGUCell(
        4, activation_bias_init=lib.nn.initializers.normal(1.0)
    ),
}
IMAGE_CELLS: dict[str, Make] = {
    "convolution": lambda lib: lib.linen.ConvLSTMCell(2, (3, 3)),
    "convolution without bias": lambda lib: lib.linen.ConvLSTMCell(
        2, kernel_size=(3, 1), use_bias=False, padding=((1, 1), (0, 0))
    ),
}


def in_step(lib: Any, make: Make, x: Any) -> Any:
    """Take one step: the carry before, and what `trained` tells."""
    cell = make(lib)

    def begin(key: Any) -> Any:
        return cell.initialize_carry(key, x.shape)

    carry = compiled(lib, begin, lib.random.key(1))

    class Step(lib.linen.Module):
        cell: Any

        def __call__(self, x: Any, carry: Any) -> Any:
            return self.cell(carry, x)

    return [values(carry), trained(lib, Step(cell), x, carry), [cell.num_feature_axes]]


SEQUENCES: dict[str, tuple[Make, Any, dict[str, Any]]] = {
    "plain": (lambda lib: lib.linen.RNN(lib.linen.LSTMCell(4)), STEPS, {}),
    "carry": (
        lambda lib: lib.linen.RNN(lib.linen.OptimizedLSTMCell(4), return_carry=True),
        STEPS,
        {},
    ),
    "carry by argument": (
        lambda lib: lib.linen.RNN(lib.linen.GRUCell(4)),
        STEPS,
        {"return_carry": True},
    ),
    "no batch axes": (lambda lib: lib.linen.RNN(lib.linen.GRUCell(4)), STEPS[0], {}),
    "several batch axes": (lambda lib: lib.linen.RNN(lib.linen.GRUCell(4)), LONG, {}),
    "time first": (
        lambda lib: lib.linen.RNN(lib.linen.SimpleCell(4), time_major=True, return_carry=True),
        STEPS,
        {},
    ),
    "backwards": (
        lambda lib: lib.linen.RNN(lib.linen.MGUCell(4), reverse=True, return_carry=True),
        STEPS,
        {},
    ),
    "backwards in order": (
        lambda lib: lib.linen.RNN(lib.linen.MGUCell(4), reverse=True),
        STEPS,
        {"keep_order": True},
    ),
    "order without reverse": (
        lambda lib: lib.linen.RNN(lib.linen.MGUCell(4), keep_order=True),
        STEPS,
        {},
    ),
    "lengths": (
        lambda lib: lib.linen.RNN(lib.linen.LSTMCell(4), return_carry=True),
        STEPS,
        {"seq_lengths": LENGTHS},
    ),
    "lengths, outputs alone": (
        lambda lib: lib.linen.RNN(lib.linen.LSTMCell(4)),
        STEPS,
        {"seq_lengths": LENGTHS},
    ),
    "lengths backwards": (
        lambda lib: lib.linen.RNN(lib.linen.GRUCell(4), return_carry=True, reverse=True),
        STEPS,
        {"seq_lengths": LENGTHS},
    ),
    "lengths backwards in order": (
        lambda lib: lib.linen.RNN(lib.linen.GRUCell(4), return_carry=True, keep_order=True),
        STEPS,
        {"seq_lengths": LENGTHS, "reverse": True},
    ),
    "lengths, time first": (
        lambda lib: lib.linen.RNN(lib.linen.GRUCell(4), return_carry=True),
        STEPS.swapaxes(0, 1),
        {"seq_lengths": LENGTHS, "reverse": True, "time_major": True},
    ),
    "lengths of several batch axes": (
        lambda lib: lib.linen.RNN(lib.linen.GRUCell(4), reverse=True),
        LONG,
        {"seq_lengths": np.array([[3, 5], [1, 2]])},
    ),
    "unrolled": (lambda lib: lib.linen.RNN(lib.linen.GRUCell(4), unroll=2), STEPS, {}),
    "initial carry": (
        lambda lib: lib.linen.RNN(lib.linen.GRUCell(4)),
        STEPS,
        {"initial_carry": smooth("float32", (2, 4))},
    ),
    "images": (
        lambda lib: lib.linen.RNN(lib.linen.ConvLSTMCell(2, (3, 3)), return_carry=True),
        FILM,
        {},
    ),
    "images with lengths": (
        lambda lib: lib.linen.RNN(lib.linen.ConvLSTMCell(2, (3, 3)), return_carry=True),
        FILM,
        {"seq_lengths": LENGTHS, "reverse": True},
    ),
    "both directions": (
        lambda lib: lib.linen.Bidirectional(
            lib.linen.RNN(lib.linen.GRUCell(4)), lib.linen.RNN(lib.linen.LSTMCell(4))
        ),
        STEPS,
        {},
    ),
    "both directions with lengths": (
        lambda lib: lib.linen.Bidirectional(
            lib.linen.RNN(lib.linen.GRUCell(4)),
            lib.linen.RNN(lib.linen.LSTMCell(4)),
            return_carry=True,
        ),
        STEPS,
        {"seq_lengths": LENGTHS},
    ),
    "both directions added": (
        lambda lib: lib.linen.Bidirectional(
            lib.linen.RNN(lib.linen.GRUCell(4)),
            lib.linen.RNN(lib.linen.GRUCell(4)),
            merge_fn=lib.numpy.add,
            time_major=True,
        ),
        STEPS,
        {"initial_carry": (np.ones((5, 4), np.float32), np.zeros((5, 4), np.float32))},
    ),
}


def drawn_carry(lib: Any) -> Any:
    """Draw the first carry from the key given, and from the one that stands in for it."""
    cell = lib.linen.LSTMCell(4, carry_init=lib.nn.initializers.normal(1.0))
    layer = lib.linen.Bidirectional(lib.linen.RNN(cell), lib.linen.RNN(cell.copy()))

    def run(key: Any) -> Any:
        variables = layer.init(key, STEPS)
        return [layer.apply(variables, STEPS, init_key=k) for k in (None, lib.random.key(7))]

    return compiled(lib, run, lib.random.key(2))


def in_parent(lib: Any) -> Any:
    """Name cells made in a compact method, and those made in setup."""

    class Made(lib.linen.Module):
        def setup(self) -> None:
            self.encoder = lib.linen.RNN(lib.linen.GRUCell(4))

        def __call__(self, x: Any) -> Any:
            return self.encoder(x)

    class Parent(lib.linen.Module):
        @lib.linen.compact
        def __call__(self, x: Any) -> Any:
            x = Made()(x)
            x = lib.linen.RNN(lib.linen.LSTMCell(4))(x)
            cell = lib.linen.GRUCell(4, name="shared")
            x = lib.linen.RNN(cell)(x)
            x = lib.linen.RNN(cell, name="again")(x)
            return lib.linen.Bidirectional(
                lib.linen.RNN(lib.linen.SimpleCell(2)), lib.linen.RNN(lib.linen.SimpleCell(2))
            )(x)

    return trained(lib, Parent(), STEPS)


def sequence_case(lib: Any, name: str) -> Any:
    make, xs, options = SEQUENCES[name]
    return trained(lib, make(lib), xs, **options)


def cases() -> Iterator[Case]:
    for name, make in {**CELLS, **IMAGE_CELLS}.items():
        x = IMAGE if name in IMAGE_CELLS else X
        tolerance = 3e-2 if "bfloat16" in name else 1e-2 if "float16" in name else 1e-4
        yield Case("cells", name, functools.partial(in_step, make=make, x=x), tolerance)
    for name in SEQUENCES:
        yield Case("sequences", name, functools.partial(sequence_case, name=name), 1e-4)
    yield Case("sequences", "drawn carry", drawn_carry, 1e-4)
    yield Case("sequences", "in a parent", in_parent, 1e-4)


TOPIC = Topic("linen_recurrent", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_flax(group: str) -> None:
    with override(engine="reference"):
        TOPIC.check(group, kiln)
