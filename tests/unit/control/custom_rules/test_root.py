"""`custom_root`: the implicit function theorem under every transformation."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln import numpy as knp

VALUES = np.array([2.0, 3.0, 5.0], np.float32)


def newton(f: Any, x: Any) -> Any:
    slope = kiln.grad(lambda x: f(x).sum())
    return lax.while_loop(lambda x: knp.abs(f(x)).max() > 1e-5, lambda x: x - f(x) / slope(x), x)


def cube_root(a: Any) -> Any:
    def tangent_solve(g: Any, y: Any) -> Any:
        return y / g(knp.ones_like(y))

    return lax.custom_root(lambda x: x**3 - a, knp.ones_like(a), newton, tangent_solve)


TRANSFORMS = {
    "value": lambda f: f,
    "grad": lambda f: kiln.grad(lambda a: f(a).sum()),
    "jvp": lambda f: lambda a: kiln.jvp(f, (a,), (a,)),
    "second": lambda f: kiln.grad(lambda a: kiln.grad(lambda a: f(a).sum())(a).sum()),
    "jacfwd of jacrev": lambda f: kiln.jacfwd(kiln.jacrev(f)),
    "vmap": lambda f: kiln.vmap(f),
    "vmap of grad": lambda f: kiln.vmap(kiln.grad(f)),
    "grad of vmap": lambda f: kiln.grad(lambda a: kiln.vmap(f)(a).sum()),
    "linearize": lambda f: lambda a: kiln.linearize(f, a)[1](a),
    "scan": lambda f: kiln.grad(
        lambda a: lax.scan(lambda c, x: (c + f(x), f(c + x)), a[0], a)[0].sum()
    ),
    "checkpoint": lambda f: kiln.grad(lambda a: kiln.checkpoint(f)(a).sum()),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("wrap", [lambda f: f, kiln.jit], ids=["eager", "jit"])
def test_as_the_function_itself(name: str, wrap: Any) -> None:
    transform = TRANSFORMS[name]
    found, expected = wrap(transform(cube_root))(VALUES), transform(knp.cbrt)(VALUES)
    for x, y in zip(kiln.tree.leaves(found), kiln.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)


def test_pytrees_and_auxiliary_values() -> None:
    def find(a: Any) -> Any:
        def f(x: Any) -> Any:
            return {"u": x["u"] - a, "v": (x["v"][0] * a - x["u"],)}

        def solve(_: Any, guess: Any) -> Any:
            del guess
            return {"u": a, "v": (a / a,)}, {"steps": knp.int32(1), "residual": a * 3}

        def tangent_solve(g: Any, y: Any) -> Any:
            u = y["u"]
            # What g makes of (u, 0) is what the first unknown adds to the second equation.
            return {"u": u, "v": ((y["v"][0] - g({"u": u, "v": (u * 0,)})["v"][0]) / a,)}

        guess = {"u": a, "v": (a,)}
        return lax.custom_root(f, guess, solve, tangent_solve, has_aux=True)

    (x, aux), (dx, daux) = kiln.jvp(find, (VALUES,), (np.ones_like(VALUES),))
    np.testing.assert_allclose(x["u"], VALUES)
    assert aux["steps"] == 1
    np.testing.assert_allclose(dx["u"], 1.0)
    np.testing.assert_allclose(dx["v"][0], 0.0, atol=1e-6)
    np.testing.assert_array_equal(daux["residual"], 0.0)
    assert daux["steps"].dtype == kiln.dtypes.float0


def test_a_tangent_solve_may_close_over_what_moves() -> None:
    def find(a: Any) -> Any:
        return lax.custom_root(lambda x: x * a - 1, a, lambda f, x: 1 / a, lambda g, y: y / a)

    np.testing.assert_allclose(kiln.grad(find)(2.0), -0.25)
    np.testing.assert_allclose(kiln.jit(kiln.grad(kiln.grad(find)))(2.0), 0.25)


def test_a_large_system_by_a_linear_solver() -> None:
    def find(a: Any) -> Any:
        def tangent_solve(g: Any, y: Any) -> Any:
            diagonal = lax.stop_gradient(g(knp.ones_like(y)))
            return lax.custom_linear_solve(g, y, lambda mv, y: y / diagonal, symmetric=True)

        return lax.custom_root(lambda x: x**3 - a, knp.ones_like(a), newton, tangent_solve)

    np.testing.assert_allclose(
        kiln.grad(lambda a: find(a).sum())(VALUES),
        kiln.grad(lambda a: knp.cbrt(a).sum())(VALUES),
        rtol=1e-4,
    )


def test_named_sizes_are_given_their_values() -> None:
    def find(a: Any) -> Any:
        steps = lambda f, x: lax.fori_loop(0, 30, lambda i, x: x - f(x) / (2 * x), x)
        return lax.custom_root(lambda x: x * x - a, a, steps, lambda g, y: y / g(a * 0 + 1.0))

    named = kiln.jit(find, abstracted_axes=({0: "n"},))
    for size in (3, 4):
        a = np.arange(1, size + 1, dtype=np.float32)
        found = kiln.grad(lambda a: named(a).sum())(a)
        np.testing.assert_allclose(found, 0.5 / np.sqrt(a), rtol=1e-4)


def test_nothing_is_held_after_the_call() -> None:
    class Owner:
        pass

    owner = Owner()

    def f(x: Any, owner: Any = owner) -> Any:
        return x - 1.0 if owner else x

    lax.custom_root(f, 0.5, lambda f, x: x - f(x), lambda g, y: y)
    alive = weakref.ref(owner)
    del f, owner
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    ("call", "error", "phrase"),
    [
        (lambda: lax.custom_root(1, 1.0, lambda f, x: x, lambda g, y: y), TypeError, "f should be"),
        (
            lambda: lax.custom_root(lambda x: (x, x), 1.0, lambda f, x: x, lambda g, y: y),
            TypeError,
            "f() output pytree structure must match initial_guess",
        ),
        (
            lambda: lax.custom_root(lambda x: x, 1.0, lambda f, x: (x, x), lambda g, y: y),
            TypeError,
            "solve() output pytree structure must match initial_guess",
        ),
        (
            lambda: lax.custom_root(lambda x: x, 1.0, lambda f, x: x, lambda g, y: (y, y)),
            TypeError,
            "tangent_solve() output pytree structure must match x",
        ),
        (
            lambda: lax.custom_root(lambda x: x[None], 1.0, lambda f, x: x, lambda g, y: y),
            ValueError,
            "f() output shapes must match initial_guess, got [(1,)] and [()]",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], phrase: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert phrase in str(caught.value)
    assert len(str(caught.value).splitlines()) == 3
