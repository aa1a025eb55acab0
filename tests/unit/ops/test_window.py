"""Windows against the reference library: paddings by name, initial values, pooling gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.base.config import override
from kiln.core.array import from_host
from kiln.core.staging import stage
from kiln.core.trace import aval_of
from kiln.ops import elementwise
from kiln.ops.generic_window import reduce_window
from kiln.ops.window_geometry import padtype_to_pads
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


def test_operations_are_recognised() -> None:
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
