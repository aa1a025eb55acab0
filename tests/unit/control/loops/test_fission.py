"""Products that leave a scan, and those that must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.control.call import jit_p
from kiln.control.loops.fission import without_products
from kiln.control.loops.scan import scan_p
from kiln.ir.jaxpr import Jaxpr
from kiln.ops.linear.contraction import dot_general_p

RNG = np.random.default_rng(0)
LENGTH, ROWS, WIDTH = 5, 3, 64


def draw(*shape: int) -> np.ndarray:
    """Return small numbers, so that products of several stay small."""
    return (RNG.standard_normal(shape) * 0.1).astype(np.float32)


W, V = draw(WIDTH, WIDTH), draw(WIDTH, WIDTH)
H, XS = draw(ROWS, WIDTH), draw(LENGTH, ROWS, WIDTH)


def scans_of(jaxpr: Jaxpr) -> list[Any]:
    """Return the scans of a program, of those that it calls too."""
    found = []
    for eqn in jaxpr.eqns:
        if eqn.primitive is scan_p:
            found.append(eqn)
        elif eqn.primitive is jit_p:
            found += scans_of(eqn.params["jaxpr"])
    return found


def products_left(f: Callable[..., Any], *args: Any) -> list[tuple[int, int]]:
    """Return how many products each scan of a function has, and how many are left in it."""

    def count(jaxpr: Jaxpr) -> int:
        return sum(
            count(e.params["jaxpr"]) if e.primitive is jit_p else e.primitive is dot_general_p
            for e in jaxpr.eqns
        )

    found = []
    for eqn in scans_of(kiln.make_jaxpr(f)(*args).jaxpr):
        split = without_products(eqn.params)
        after = scans_of(split)[0].params["jaxpr"] if split else eqn.params["jaxpr"]
        found.append((count(eqn.params["jaxpr"]), count(after)))
    return found


def agree(f: Callable[..., Any], *args: Any) -> None:
    """Compare the native engine with the meaning."""
    with override(engine="reference"):
        expected = kiln.tree.leaves(kiln.jit(f)(*args))
    with override(engine="native"):
        found = kiln.tree.leaves(kiln.jit(lambda *xs: f(*xs))(*args))
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def scanned(body: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return a scan of a body of two matrices, a state and a row."""
    return lambda w, v, h, xs: lax.scan(lambda h, x: body(w, v, h, x), h, xs, **options)


def pair(state: Any, row: Any = None) -> Any:
    return state, row


LEAVING: dict[str, tuple[Callable[..., Any], int, int]] = {
    "before": (scanned(lambda w, v, h, x: pair(jnp.tanh(h + x @ w))), 1, 0),
    "before, backwards": (scanned(lambda w, v, h, x: pair(h * 0.5 + x @ w), reverse=True), 1, 0),
    "before, through others": (
        scanned(lambda w, v, h, x: pair(h * 0.5 + jnp.tanh(x * 2) @ w @ v, h)),
        2,
        0,
    ),
    "before, by what is constant": (scanned(lambda w, v, h, x: pair(h + x @ (w + v).T)), 1, 0),
    "before, in a call": (
        scanned(lambda w, v, h, x: pair(kiln.jit(lambda x: jnp.tanh(x @ w))(x) + h)),
        1,
        0,
    ),
    "before, read by both": (
        scanned(lambda w, v, h, x: (lambda y: pair(h + y, y * 2))(x @ w)),
        1,
        0,
    ),
    "after": (scanned(lambda w, v, h, x: pair(jnp.tanh(h + x), h @ w)), 1, 0),
    "after, backwards": (
        scanned(lambda w, v, h, x: pair(jnp.tanh(h + x), (x @ w, h @ v)), reverse=True),
        2,
        0,
    ),
    "after, and what follows": (
        scanned(lambda w, v, h, x: pair(jnp.sin(h + x), jnp.cos(h @ w + x) @ v)),
        2,
        0,
    ),
    "after, of what is stacked": (
        scanned(lambda w, v, h, x: pair(jnp.sin(h + x), (h, h @ w))),
        1,
        0,
    ),
    "one on each side": (scanned(lambda w, v, h, x: pair(jnp.sin(h + x @ w), h @ v)), 2, 0),
    "only what may": (scanned(lambda w, v, h, x: pair(jnp.tanh(h @ w + x @ v), h @ v)), 3, 1),
}
STAYING: dict[str, Callable[..., Any]] = {
    "of the carry": scanned(lambda w, v, h, x: pair(jnp.tanh(h @ w + x), x)),
    "by what is scanned": scanned(lambda w, v, h, x: pair(h + w @ x.T @ x @ w, None)),
    "of a large state": scanned(lambda w, v, h, x: pair(h, (w @ (h.T @ x)) @ v)),
}


@pytest.mark.parametrize("name", LEAVING)
def test_what_leaves(name: str) -> None:
    f, before, after = LEAVING[name]
    assert products_left(f, W, V, H, XS) == [(before, after)]
    agree(f, W, V, H, XS)


def test_the_carry_keeps_its_product() -> None:
    f = STAYING["of the carry"]
    assert products_left(f, W, V, H, XS) == [(1, 1)]
    agree(f, W, V, H, XS)


def summed(terms: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return a scan that adds products of a state and a row to a matrix."""

    def f(w: Any, v: Any, h: Any, xs: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            h, total = carry
            return (jnp.tanh(h + x), terms(total, w, h, x)), jnp.sum(h)

        return lax.scan(body, (h, w), xs, **options)

    return f


SUMS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "one": (summed(lambda total, w, h, x: total + h.T @ x), 1, 0),
    "backwards": (summed(lambda total, w, h, x: h.T @ x + total, reverse=True), 1, 0),
    "transposed": (summed(lambda total, w, h, x: total + (h.T @ x).T), 1, 0),
    "two": (summed(lambda total, w, h, x: total + (h.T @ x + (x.T @ jnp.sin(h)).T)), 2, 0),
    "over several axes": (
        summed(lambda total, w, h, x: total + jnp.einsum("abi,abj->ij", h[None], x[None])),
        1,
        0,
    ),
    "with another term": (summed(lambda total, w, h, x: total + (h.T @ x + w)), 1, 1),
    "scaled": (summed(lambda total, w, h, x: 0.5 * total + h.T @ x), 1, 1),
    "read as well": (
        summed(lambda total, w, h, x: total + h.T @ (x + total[0])),
        1,
        1,
    ),
    "subtracted": (summed(lambda total, w, h, x: total - h.T @ x), 1, 1),
    "twice": (summed(lambda total, w, h, x: (total + total) + h.T @ x), 1, 1),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_products(name: str) -> None:
    f, before, after = SUMS[name]
    assert products_left(f, W, V, H, XS) == [(before, after)]
    agree(f, W, V, H, XS)


def test_a_sum_that_is_stacked_stays() -> None:
    def f(w: Any, h: Any, xs: Any) -> Any:
        return lax.scan(lambda t, x: (t + h.T @ x, t + h.T @ x), w, xs)

    agree(f, W, H, XS)

    ys = lambda t, p: t, lambda t, p: p, lambda t, p: t + p
    for y in ys:

        def g(w: Any, h: Any, xs: Any, y: Any = y) -> Any:
            def body(total: Any, x: Any) -> Any:
                term = (h + x).T @ x
                row = y(total, term)
                return total + term if y is not ys[2] else row, row

            return lax.scan(body, w, xs)

        assert products_left(g, W, H, XS) == [(1, 1)]
        agree(g, W, H, XS)


@pytest.mark.parametrize("are_all_summed", [True, False])
def test_parts_of_one_product(are_all_summed: bool) -> None:
    """Cotangents of weights that a cell joins to one matrix."""

    def f(w: Any, v: Any, h: Any, xs: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            a, b, h = carry
            both = (h + x).T @ jnp.concatenate([x, h], 1)
            row = jnp.sum(h) if are_all_summed else both[:, 64:]
            b = b + both[:, 64:].reshape(32, 128).reshape(64, 64) if are_all_summed else b * 2
            return (a + both[:, :64].T, b, jnp.tanh(h + x)), row

        return lax.scan(body, (w, v, h), xs)

    assert products_left(f, W, V, H, XS) == [(1, 0 if are_all_summed else 1)]
    agree(f, W, V, H, XS)


def test_sums_that_change_places_stay() -> None:
    def f(w: Any, v: Any, h: Any, xs: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            a, b = carry
            return (b + (h + x).T @ x, a), None

        return lax.scan(body, (w, v), xs)

    assert products_left(f, W, V, H, XS) == [(1, 1)]
    agree(f, W, V, H, XS)


def test_many_rows_and_small_matrices_stay() -> None:
    f = LEAVING["before"][0]
    assert products_left(f, W, V, draw(65, WIDTH), draw(LENGTH, 65, WIDTH)) == [(1, 1)]
    small = draw(63, 63)
    assert products_left(f, small, small, draw(ROWS, 63), draw(LENGTH, ROWS, 63)) == [(1, 1)]


def test_no_more_is_stacked_than_a_matrix_has() -> None:
    wide = draw(64, 512)
    f = lambda w, h, xs: lax.scan(lambda h, x: (h + x @ w, None), h, xs)
    assert products_left(f, wide, draw(64, 512), draw(4, 64, 64)) == [(1, 0)]
    assert products_left(f, wide[:32], draw(64, 512), draw(4, 64, 32)) == [(1, 1)]


def test_effects_keep_their_operands() -> None:
    seen: list[float] = []

    def f(w: Any, h: Any, xs: Any) -> Any:
        def body(h: Any, x: Any) -> Any:
            y = h @ w
            kiln.debug.callback(lambda y: seen.append(float(y[0, 0])), y, ordered=True)
            return jnp.tanh(h + x), y

        return lax.scan(body, h, xs)

    assert products_left(f, W, H, XS) == [(1, 1)]
    _, ys = kiln.jit(f)(W, H, XS)
    kiln.effects_barrier()
    np.testing.assert_allclose(seen, np.asarray(ys)[:, 0, 0], rtol=1e-6)


def test_effects_get_what_has_left() -> None:
    seen: list[float] = []

    def f(w: Any, h: Any, xs: Any) -> Any:
        def body(h: Any, x: Any) -> Any:
            kiln.debug.callback(lambda y: seen.append(float(y[0, 0])), x @ w, ordered=True)
            return h + x, None

        return lax.scan(body, h, xs)

    assert products_left(f, W, H, XS) == [(1, 0)]
    kiln.block_until_ready(kiln.jit(f)(W, H, XS))
    kiln.effects_barrier()
    np.testing.assert_allclose(seen, (XS @ W)[:, 0, 0], rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.int32, kiln.numpy.bfloat16])
def test_dtypes(dtype: Any) -> None:
    args = [(np.asarray(x) * 50).astype(dtype) for x in (W, V, H, XS)]

    def f(w: Any, v: Any, h: Any, xs: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            h, total = carry
            return (h + x @ w, total + h.T @ x), x @ v

        return lax.scan(body, (h, w), xs)

    assert products_left(f, *args) == [(3, 0)]
    with override(engine="reference", enable_x64=True):
        expected = kiln.tree.leaves(kiln.jit(f)(*args))
    with override(engine="native", enable_x64=True):
        found = kiln.tree.leaves(kiln.jit(lambda *xs: f(*xs))(*args))
    exact = np.dtype(dtype).kind == "i"
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        wide = [np.asarray(x).astype(np.complex128) for x in (a, b)]
        scale = np.abs(wide[1]).max()
        assert (
            np.abs(wide[0] - wide[1]).max()
            <= (0 if exact else 0.03 if dtype is kiln.numpy.bfloat16 else 1e-4) * scale
        )


def cells(gates: Any, c: Any) -> tuple[Any, Any]:
    """Return the next states of an LSTM."""
    i, f, g, o = jnp.split(gates, 4, -1)
    c = kiln.nn.sigmoid(f) * c + kiln.nn.sigmoid(i) * jnp.tanh(g)
    return kiln.nn.sigmoid(o) * jnp.tanh(c), c


def test_gradients_of_a_recurrent_network() -> None:
    """Weights get their cotangents from one product each, after the loop."""
    wi, wh = draw(WIDTH, 4 * WIDTH), draw(WIDTH, 4 * WIDTH)

    def loss(wi: Any, wh: Any, h: Any, xs: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            h, c = cells(x @ wi + carry[0] @ wh, carry[1])
            return (h, c), h

        return jnp.sum(lax.scan(body, (h, h), xs)[1] ** 2)

    gradient = kiln.grad(loss, (0, 1, 2, 3))
    assert products_left(gradient, wi, wh, H, XS) == [(2, 1), (4, 1)]
    agree(gradient, wi, wh, H, XS)


@st.composite
def bodies(draw_: Any) -> tuple[list[tuple[Any, ...]], Any, Any]:
    """Return a random body: operations on two matrices, two states and a row."""
    count = draw_(st.integers(1, 9))
    steps = []
    for i in range(count):
        kind = draw_(st.sampled_from(["dot", "dot", "dot", "add", "sin", "outer", "turn"]))
        steps.append((kind, draw_(st.integers(0, 5 + i)), draw_(st.integers(0, 5 + i))))
    return (
        steps,
        draw_(st.lists(st.integers(0, 5 + count), min_size=6, max_size=6)),
        draw_(st.booleans()),
    )


@given(bodies())
@settings(max_examples=40, deadline=None)
def test_random_bodies(program: Any) -> None:
    steps, chosen, reverse = program

    def f(w: Any, v: Any, h: Any, total: Any, xs: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            h, total = carry
            values = [w, v, h, total, x, x * 0.5]
            for kind, i, j in steps:
                a, b = values[i], values[j]
                square, same = b.shape == w.shape, a.shape == b.shape
                if kind == "dot" and square:
                    made = a @ b
                elif kind == "outer" and same and not square:
                    made = a.T @ b
                elif kind == "turn" and square:
                    made = b.T
                elif kind == "add" and same:
                    made = a + b
                else:
                    made = jnp.sin(a)
                values.append(made)
            rows = [y for y in values if y.shape == h.shape]
            matrices = [y for y in values if y.shape == w.shape]
            pick = lambda options, n: options[chosen[n] % len(options)]
            h = 0.5 * pick(rows, 0)
            total = total + pick(matrices, 1) if chosen[2] % 2 else pick(matrices, 1)
            return (h, total), (pick(rows, 3), pick(rows, 4), jnp.sum(pick(matrices, 5)))

        return lax.scan(body, (h, total), xs, reverse=reverse)

    agree(f, W, V, H, V * 0.1, XS[:3])
