"""Axes of a few numbers: reductions written out, and nests without the axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override

RNG = np.random.default_rng(0)
X = RNG.normal(size=(130, 3)).astype(np.float32)
X[5] = np.nan
X[6, 1] = np.inf
X[7] = -0.0


def same(f: Callable[..., Any], *args: Any, tolerance: float = 2e-5) -> None:
    """Compare the native engine with the meaning, and its bits on one thread and on two."""
    with override(engine="reference"):
        expected = kiln.tree.leaves(kiln.jit(f)(*args))
    found = []
    for threads in (1, 2):
        with override(engine="native", check=True), kiln.num_threads(threads):
            found.append(kiln.tree.leaves(kiln.jit(lambda *xs: f(*xs))(*args)))
    for one, two, b in zip(*found, expected, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(two).tobytes()
        assert (one.shape, one.dtype) == (b.shape, b.dtype)
        kind = np.float64 if one.dtype.kind != "c" else np.complex128
        np.testing.assert_allclose(
            np.asarray(one).astype(kind), np.asarray(b).astype(kind), tolerance, tolerance
        )


REDUCTIONS = ["sum", "prod", "max", "min", "any", "all", "argmax"]
DTYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8, np.bool_, np.complex64]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_of_few_numbers(name: str, dtype: type) -> None:
    if dtype is np.complex64 and name == "argmax":
        pytest.skip("complex numbers have no order")
    wide = np.nan_to_num(X, posinf=3) if np.dtype(dtype).kind in "iub" else X
    x = (np.abs(wide) * 3).astype(dtype)
    tolerance = 2e-5 if np.dtype(dtype).itemsize > 2 else 2e-2
    reduction = getattr(jnp, name)
    same(lambda x: reduction(x, 1), x, tolerance=tolerance)
    same(lambda x: reduction(x.T, 0), x, tolerance=tolerance)
    if name != "argmax":
        same(lambda x: reduction(x[:128].reshape(64, 2, 3)[:, :, :2], (1, 2)), x, tolerance=0.05)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "norms": lambda x: x / jnp.sqrt(jnp.sum(x * x, 1, keepdims=True)),
    "pairs": lambda x: jnp.sum(
        (x[:, None] - x) * (jnp.sum((x[:, None] - x) ** 2, 2) + 0.1)[:, :, None] ** -1.7, 1
    ),
    "softmax": lambda x: (
        jnp.exp(x - jnp.max(x, 1, keepdims=True)) / jnp.sum(jnp.exp(x), 1)[:, None]
    ),
    "scaled": lambda x: jnp.sin(x[:, :1]) * x,
    "two results": lambda x: (jnp.exp(x[:, 0])[:, None] * x, jnp.sum(jnp.exp(x[:, :1]) + x, 0)),
    "greatest": lambda x: jnp.max(jnp.exp(x[:, :1]) * x, 0),
    "positions": lambda x: jnp.argmax(jnp.exp(x[:, :1]) * x, 1),
    "turned": lambda x: (jnp.tanh(x[:, 0]) * x.T).T,
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("columns", [2, 3, 4, 5])
def test_programs_give_what_they_mean(name: str, columns: int) -> None:
    x = np.concatenate([X[8:], X[8:, ::-1]], 1)[:, :columns]
    same(PROGRAMS[name], x)
    with np.errstate(all="ignore"):
        same(PROGRAMS[name], np.concatenate([X, X], 1)[:19, :columns])


def test_what_costs_much_is_computed_in_vectors() -> None:
    with override(engine="native"):
        text = kiln.jit(PROGRAMS["pairs"]).lower(X[8:]).as_text("loops")
    assert text.count(" pow ") == 1
    assert "< 3" not in text


NAMED: dict[str, Callable[..., Any]] = {
    **{name: program for name, program in PROGRAMS.items() if name != "two results"},
    "sum": lambda x: jnp.sum(x, 1),
    "greatest of few": lambda x: jnp.max(x * 2, 1),
    "position": lambda x: jnp.argmin(x, 1),
    "pad": lambda x: jnp.pad(x, ((0, 0), (1, 2))) * 2,
    "reversed": lambda x: x[::-1] + x[:, ::-1],
}


@pytest.mark.parametrize("name", NAMED)
def test_one_program_for_all_sizes(name: str) -> None:
    f = kiln.jit(lambda x: NAMED[name](x), abstracted_axes=({0: "n"},))
    for n in (1, 5, 16, 17, 120):
        x = X[8 : 8 + n]
        with override(engine="reference"):
            expected = kiln.jit(lambda x: NAMED[name](x))(x)
        with override(engine="native", check=True):
            np.testing.assert_allclose(f(x), expected, 3e-5, 3e-5)
