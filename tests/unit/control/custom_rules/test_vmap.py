"""Functions with a rule of their own for stacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.control.custom_rules.vmap import custom_vmap
from kiln.control.sequential_vmap import sequential_vmap

X = np.array([1.0, 2.0, 3.0], np.float32)


def tenfold() -> tuple[custom_vmap, list[Any]]:
    """Return a sum, under vmap ten times as large, and what its rule was called with."""
    seen: list[Any] = []

    @custom_vmap
    def add(x: Any, y: Any) -> Any:
        return x + y

    @add.def_vmap
    def rule(axis_size: Any, in_batched: Any, x: Any, y: Any) -> Any:
        seen.append((axis_size, in_batched, x.shape, y.shape))
        return (x + y) * 10, True

    return add, seen


def test_without_vmap_it_is_the_function() -> None:
    add, seen = tenfold()
    assert add(1.0, 2.0) == 3.0
    assert kiln.jit(add)(1.0, 2.0) == 3.0
    assert kiln.grad(add)(1.0, 2.0) == 1.0
    assert seen == []
    assert "custom_vmap function" in repr(add)


@pytest.mark.parametrize("wrap", [lambda f: f, kiln.jit])
def test_under_vmap_the_rule_runs(wrap: Any) -> None:
    add, seen = tenfold()
    found = wrap(kiln.vmap(add, (1, None)))(np.ones((3, 2), np.float32), X)
    assert found.tolist() == [[20.0, 30.0, 40.0]] * 2
    assert seen == [(2, [True, False], (2, 3), (3,))]
    assert kiln.vmap(wrap(add))(X, X).tolist() == [20.0, 40.0, 60.0]


def test_unmapped_arguments_do_not_run_the_rule() -> None:
    add, seen = tenfold()
    assert kiln.vmap(lambda x: (add(1.0, 2.0), x)[0], out_axes=None)(X) == 3.0
    assert seen == []


def test_a_result_may_be_no_stack() -> None:
    @custom_vmap
    def f(x: Any) -> Any:
        return {"sum": x, "count": 1}

    @f.def_vmap
    def rule(size: Any, stacked: Any, x: Any) -> Any:
        return {"sum": x, "count": size}, {"sum": True, "count": False}

    found = kiln.vmap(f)(X)
    assert found["sum"].tolist() == X.tolist()
    assert found["count"].tolist() == [3, 3, 3]


def test_keywords_and_closed_over_values() -> None:
    weight = jnp.asarray(2.0)

    @custom_vmap
    def f(x: Any, k: float = 3.0) -> Any:
        return x * weight * k

    f.def_vmap(lambda size, stacked, x, k: (x * 100, True))
    assert f(1.0) == 6.0
    assert f(1.0, k=1.0) == 2.0
    assert kiln.jit(kiln.vmap(f))(X, X).tolist() == [100.0, 200.0, 300.0]
    with pytest.raises(ValueError, match="closes over a mapped value"):
        kiln.vmap(lambda w: custom_closing_over(w)(1.0))(X)


def custom_closing_over(w: Any) -> custom_vmap:
    f = custom_vmap(lambda x: x * w)
    f.def_vmap(lambda size, stacked, x: (x, stacked[0]))
    return f


def test_derivatives() -> None:
    @custom_vmap
    def f(x: Any, y: Any) -> Any:
        return jnp.sin(x) * y, y

    @f.def_vmap
    def rule(size: Any, stacked: Any, x: Any, y: Any) -> Any:
        return (10 * jnp.sin(x) * y, y), tuple(stacked[1:] * 2)

    def first(x: Any, y: Any) -> Any:
        return f(x, y)[0]

    np.testing.assert_allclose(kiln.grad(first)(1.0, 3.0), 3 * np.cos(1.0), 1e-6)
    np.testing.assert_allclose(kiln.grad(kiln.grad(first))(1.0, 3.0), -3 * np.sin(1.0), 1e-6)
    np.testing.assert_allclose(
        kiln.jit(kiln.grad(lambda x, y: kiln.vmap(first)(x, y).sum()))(X, X),
        10 * np.cos(X) * X,
        1e-5,
    )
    # Forward mode inside vmap differentiates the rule.
    _, moved = kiln.vmap(lambda x, y: kiln.jvp(first, (x, y), (1.0, 0.0)))(X, X)
    np.testing.assert_allclose(moved, 10 * np.cos(X) * X, 1e-5)
    twice = kiln.jvp(lambda x: kiln.jvp(lambda x: first(x, 2.0), (x,), (1.0,))[1], (1.0,), (1.0,))
    np.testing.assert_allclose(twice[1], -2 * np.sin(1.0), 1e-6)


def test_a_tangent_may_belong_to_an_unmapped_operand() -> None:
    add, _ = tenfold()
    _, moved = kiln.vmap(lambda x: kiln.jvp(lambda y: add(x, y), (5.0,), (x,)))(X)
    assert moved.tolist() == (10 * X).tolist()


def test_derivatives_of_closed_over_values() -> None:
    def f(w: Any, x: Any) -> Any:
        return custom_closing_over(w)(x)

    assert kiln.grad(f)(3.0, 2.0) == 2.0
    assert kiln.jvp(f, (3.0, 2.0), (1.0, 1.0)) == (6.0, 5.0)


def test_without_a_rule_it_cannot_be_called() -> None:
    with pytest.raises(AttributeError, match="def_vmap") as caught:
        custom_vmap(lambda x: x)(1.0)
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("result", "wrong"),
    [
        (lambda x: x, "not a pair"),
        (lambda x: ((x, x), True), "structure"),
        (lambda x: (x[:1], True), r"returned float32\[1\]"),
        (lambda x: (x, False), r"returned float32\[3\]"),
    ],
)
def test_wrong_rules_are_refused(result: Any, wrong: str) -> None:
    f = custom_vmap(lambda x: x)
    f.def_vmap(lambda size, stacked, x: result(x))
    with pytest.raises(ValueError, match=wrong) as caught:
        kiln.vmap(f)(X)
    assert len(str(caught.value).splitlines()) == 3


def test_one_element_after_the_other() -> None:
    f = sequential_vmap(lambda x, y: {"sum": x + y, "y": y})
    found = kiln.vmap(f, (0, None))(X, 2.0)
    assert found["sum"].tolist() == (X + 2).tolist()
    assert found["y"].tolist() == [2.0] * 3
    assert "scan" in str(kiln.make_jaxpr(kiln.vmap(f))(X, X))
    assert kiln.vmap(kiln.vmap(f))(X[None], X[None])["sum"].tolist() == [(2 * X).tolist()]


@pytest.mark.parametrize("outer", [kiln.custom_jvp, kiln.custom_vjp, custom_vmap])
def test_rules_of_the_function_within_are_set_by_the_one_around_it(outer: Any) -> None:
    setters = {"custom_jvp": "defjvp", "custom_vjp": "defvjp", "custom_vmap": "def_vmap"}
    for inner in (kiln.custom_jvp, kiln.custom_vjp, custom_vmap):
        name = setters[inner.__name__]
        within = inner(lambda x: 2.0 * x)
        around = outer(within)
        assert (getattr(around, name).__self__ is within) == (inner is not outer)
    with pytest.raises(AttributeError, match="has no attribute 'defjvp'"):
        kiln.custom_vjp(lambda x: x).defjvp
