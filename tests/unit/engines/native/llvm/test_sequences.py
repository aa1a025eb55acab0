"""Long programs run their steps from a table; equal nests are written once."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override

LAYERS = 12


def network(x, weights):
    """Products and nests, one after the other, with a constant and an operand in between."""
    table = jnp.asarray(np.linspace(-1, 1, 32 * 32, dtype=np.float32).reshape(32, 32))
    for w in weights:
        x = jnp.tanh(x @ w) + jnp.sort(table, axis=1)
    return x, jnp.sum(x)


def expected(x, weights):
    table = np.linspace(-1, 1, 32 * 32, dtype=np.float32).reshape(32, 32)
    for w in weights:
        x = np.tanh(x @ w) + np.sort(table, axis=1)
    return x, np.sum(x)


def test_a_long_program_is_a_table_of_steps():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((32, 32)).astype(np.float32)
    weights = [rng.standard_normal((32, 32)).astype(np.float32) / 6 for _ in range(LAYERS)]
    with override(engine="native"):
        lowered = kiln.jit(network).lower(x, weights)
        text = lowered.as_text("llvm")
        found = lowered.compile()(x, weights)
    for ours, theirs in zip(found, expected(x, weights), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-5)
    assert text.count("call i32 @kiln_sequence") == 1
    assert "call i32 @kiln_gemm" not in text
    # The first and the last turn differ from those between.
    assert text.count("define internal i32 @nest") <= 4


def test_a_short_program_is_code():
    x = np.ones((32, 32), np.float32)
    with override(engine="native"):
        text = kiln.jit(lambda x: jnp.sort(x @ x)).lower(x).as_text("llvm")
    assert "call i32 @kiln_sequence" not in text
    assert "call i32 @kiln_gemm" in text


def test_results_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 32)).astype(np.float32)

    def steps(x):
        for i in range(10):
            x = jnp.cumsum(jnp.sort(jnp.sin(x) * (1 + i), axis=1), axis=0)
            x = x / jnp.max(jnp.abs(x))
        return x

    found = []
    for threads in (1, 2, 3):
        with kiln.num_threads(threads):
            found.append(np.asarray(kiln.jit(steps)(x)))
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


@pytest.mark.parametrize("count", [8, 9, 40])
def test_donated_operands_and_several_results(count):
    def steps(x, y):
        outs = []
        for _ in range(count):
            x = jnp.sort(x + y)
            outs.append(x)
        return outs

    x, y = np.arange(5.0, dtype=np.float32)[::-1].copy(), np.float32([3, 1, 4, 1, 5])
    found = kiln.jit(steps, donate_argnums=0)(jnp.asarray(x), y)
    for each in found:
        x = np.sort(x + y)
        assert (np.asarray(each) == x).all()
