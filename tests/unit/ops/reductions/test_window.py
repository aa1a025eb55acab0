"""Windows against the reference library: paddings by name, initial values, pooling gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage
from kiln.core.trace import aval_of
from kiln.ops.elements import elementwise
from kiln.ops.reductions.generic_window import reduce_window
from kiln.ops.reductions.window_geometry import padtype_to_pads
from kiln.transforms.reverse import linearize

X = np.random.default_rng(0).normal(size=(5, 7)).astype("float32")
STARTS = {"add": 0.0, "max": -np.inf, "min": np.inf, "mul": 1.0}


ENGINES = ["reference", "xla"]


@pytest.mark.parametrize("padding", ["SAME_LOWER", [(1, 2), (0, -1)]])
@pytest.mark.parametrize("name", STARTS)
def test_values(name: str, padding: Any) -> None:
    lax = pytest.importorskip("jax").lax
    windows = ((2, 3), (2, 1), padding, (1, 2), (2, 1))
    for start in (STARTS[name], 0.5):
        theirs = lax.reduce_window(X, start, getattr(lax, name), *windows)
        for engine in ENGINES:
            with override(engine=engine):
                ours = reduce_window(from_host(X), start, getattr(elementwise, name), *windows)
            np.testing.assert_allclose(ours, theirs, 1e-5)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["add", "max", "min"])
def test_pooling_gradients(name: str, engine: str) -> None:
    jax = pytest.importorskip("jax")
    # Ties: the first of the best wins.
    x = np.random.default_rng(0).integers(0, 3, (6, 7)).astype("float32")
    windows = ((2, 3), (1, 2), "SAME")
    with override(engine=engine):
        outs, linear = linearize(
            lambda x: [reduce_window(x, STARTS[name], getattr(elementwise, name), *windows)],
            [from_host(x)],
        )
        w = np.random.default_rng(1).normal(size=outs[0].shape).astype("float32")
        (ct,) = linear.pull([from_host(w)])
    wanted = jax.grad(
        lambda x: (
            jax.lax.reduce_window(x, STARTS[name], getattr(jax.lax, name), *windows) * w
        ).sum()
    )(x)
    np.testing.assert_allclose(ct, wanted, 1e-5, 1e-6)


def primitive_of(start: Any, function: Any) -> str:
    jaxpr, _ = stage(lambda x: [reduce_window(x, start, function, (2, 2))], [aval_of(from_host(X))])
    return " ".join(eqn.primitive.name for eqn in jaxpr.eqns)


def test_operations_are_recognized() -> None:
    assert primitive_of(0.0, elementwise.add) == "reduce_window_sum"
    assert primitive_of(1.0, elementwise.add) == "reduce_window_sum add"
    assert primitive_of(-np.inf, elementwise.max) == "reduce_window_max"
    assert primitive_of(np.inf, lambda a, b: elementwise.min(b, a)) == "reduce_window_min"
    assert primitive_of(1.0, elementwise.mul) == "reduce_window"


@pytest.mark.parametrize("padding", ["SAME", "VALID", "SAME_LOWER", "same"])
def test_paddings_by_name(padding: str) -> None:
    lax = pytest.importorskip("jax").lax
    for shapes in [((5, 7), (2, 3), (2, 1)), ((5, 7), (4, 4), (3, 3)), ((1, 9), (1, 2), (9, 4))]:
        assert padtype_to_pads(*shapes, padding) == list(lax.padtype_to_pads(*shapes, padding))


@pytest.mark.parametrize(
    ("windows", "words"),
    [
        (((2,),), "wrong number of window_dimensions"),
        (((2, 2), (1,)), "wrong number of window_strides"),
        (((0, 2),), "window_dimensions must have every element be strictly positive"),
        (((2, 2), (0, 1)), "window_strides must have every element be strictly positive"),
        (((2, 2), None, [(0, 0)]), "wrong number of paddings"),
    ],
)
def test_windows_that_do_not_fit(windows: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        reduce_window(from_host(X), 0.0, elementwise.add, *windows)


def test_an_unknown_padding() -> None:
    with pytest.raises(ValueError, match="Unrecognized padding type"):
        reduce_window(from_host(X), 0.0, elementwise.add, (2, 2), None, "EQUAL")


# Each wins over the one before it unless that is at least as good: nothing is as good as a nan.
NANS = [
    [1, np.nan, 0],
    [np.nan, np.nan, 0],
    [0, 1, np.nan],
    [np.nan, 3, 2, np.nan, 1],
    [-1, -1, np.nan, -1],
]


@pytest.mark.parametrize("values", NANS)
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dilation", [1, pytest.param(2, marks=pytest.mark.full)])
def test_winners_among_nans_are_those_of_jax(values: list[float], name: str, dilation: int) -> None:
    jax = pytest.importorskip("jax")
    x = np.array(values, np.float32)
    start = STARTS[name]
    weights = np.arange(1.0, len(x) + 1 - dilation, dtype=np.float32)

    def pooled(library: Any) -> Any:
        operation = getattr(library.lax, name)
        return lambda x: library.lax.reduce_window(
            x, start, operation, (2,), (1,), "VALID", window_dilation=(dilation,)
        )

    if dilation == 1:
        expected = jax.vjp(pooled(jax), x)[1](weights)[0]
    else:  # JAX has no such gradient
        moved = jax.jacfwd(pooled(jax))(x)
        expected = weights @ np.asarray(moved)
    for engine in ("native", "xla", "reference"):
        with override(engine=engine):
            for run in (lambda f: f, kiln.jit):
                found = run(lambda x: kiln.vjp(pooled(kiln), x)[1](weights)[0])(x)
                np.testing.assert_array_equal(found, expected, engine)
                moves = run(lambda x: kiln.jacfwd(pooled(kiln))(x))(x)
                np.testing.assert_array_equal(weights @ np.asarray(moves), found, engine)


def test_a_window_of_the_worst_value_moves_with_its_first_element() -> None:
    x, t = np.array([-np.inf, -np.inf, 1], "f"), np.array([2, 3, 4], "f")

    def pooled(x: Any) -> Any:
        return kiln.lax.reduce_window(x, -np.inf, kiln.lax.max, (2,), (2,), [(1, 2)])

    for engine in ("native", "xla", "reference"):
        with override(engine=engine):
            moved = kiln.jit(lambda x, t: kiln.jvp(pooled, (x,), (t,))[1])(x, t)
            back = kiln.jit(lambda x: kiln.vjp(pooled, x)[1](np.ones(3, "f"))[0])(x)
        np.testing.assert_array_equal(moved, [2, 4, 0], engine)
        np.testing.assert_array_equal(back, [1, 0, 1], engine)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients_of_narrow_floats_on_xla(dtype: str) -> None:
    x = kiln.numpy.array([1, 4, 2, 4, 3], dtype)

    def total(x: Any) -> Any:
        return kiln.lax.reduce_window(x, -np.inf, kiln.lax.max, (2,), (1,), "VALID").sum()

    with override(engine="xla"):
        found = kiln.jit(kiln.grad(total))(x)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(found, "f"), [0, 2, 0, 2, 0])


def test_paddings_are_pairs() -> None:
    with pytest.raises(ValueError, match=r"padding argument to reduce_window.*, got \(3, 3\)"):
        reduce_window(np.ones((4, 4)), 0.0, elementwise.add, (2, 2), padding=(3, 3))


def test_windows_are_combined_into_what_they_are() -> None:
    with pytest.raises(
        ValueError, match="output must have the same tree structure as the operands"
    ):
        reduce_window(np.ones(1), 0.0, lambda x, y: [x + y], (1,))
