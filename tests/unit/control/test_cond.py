"""The primitive `cond`: meaning, derived branches, shared residuals, dead code, effects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, random
from kiln.base.options.config import override
from kiln.control import cond as family
from kiln.control.cond import cond_p
from kiln.control.effects.callback import io_callback
from kiln.control.regions import region
from kiln.core.engines.engine import Program, engine
from kiln.core.staging import stage
from kiln.ir.analysis.checker import check
from kiln.ir.rewrite import eliminate_dead_code
from kiln.ir.sizes.size import symbol
from kiln.ir.types import ShapedArray
from kiln.transforms.batching import MappedAxis, batch_jaxpr

F32 = np.dtype(np.float32)
BOOL = ShapedArray((), np.dtype(np.bool_))
X = np.array([0.5, -1.0, 2.0], np.float32)


@pytest.fixture(autouse=True)
def _reference() -> Iterator[None]:
    with override(engine="reference", check=True):
        yield


def conds(jaxpr: Any) -> list[Any]:
    """Return the cond equations of a program."""
    found = []
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        if eqn.primitive is cond_p:
            found.append(eqn)
        for inner in region.jaxprs_of(eqn.params):
            found += conds(inner)
    return found


def choose(p: Any, x: Any) -> Any:
    return lax.cond(p, lambda a: jnp.sin(a) * x, lambda a: a * a, x + 1.0)


@pytest.mark.parametrize("on", ["reference", "xla"])
@pytest.mark.parametrize("p", [False, True])
def test_values(on: str, p: bool) -> None:
    wanted = np.sin(X + 1) * X if p else (X + 1) ** 2
    with override(engine=on):
        np.testing.assert_allclose(choose(p, X), wanted, rtol=1e-6)
        np.testing.assert_allclose(kiln.jit(choose)(p, X), wanted, rtol=1e-6)


@pytest.mark.parametrize("on", ["reference", "xla"])
def test_a_mapped_predicate_selects(on: str) -> None:
    p, rows = np.array([True, False]), np.stack([X, -X])
    wanted = np.stack([np.sin(X + 1) * X, (1 - X) ** 2])
    with override(engine=on):
        np.testing.assert_allclose(kiln.vmap(choose)(p, rows), wanted, rtol=1e-6)
        found = kiln.vmap(choose, (0, 1), 1)(p, rows.T)
        np.testing.assert_allclose(found, wanted.T, rtol=1e-6)
        only = kiln.vmap(choose, (0, None))(p, X)
        np.testing.assert_allclose(only, [np.sin(X + 1) * X, (X + 1) ** 2], rtol=1e-6)
    program = kiln.make_jaxpr(kiln.vmap(choose))(p, rows)
    assert not conds(program)
    assert len(conds(kiln.make_jaxpr(kiln.vmap(choose, (None, 0)))(True, rows))) == 1


def test_a_mapped_index_of_many_branches() -> None:
    branches = [lambda a: a, lambda a: a * 2.0, lambda a: jnp.ones_like(a) * 7]
    pick = lambda i, a: lax.switch(i, branches, a)
    found = kiln.vmap(pick)(np.array([2, -5, 1, 9]), np.stack([X] * 4))
    np.testing.assert_allclose(found, [X * 0 + 7, X, X * 2, X * 0 + 7])


def test_the_branch_not_taken_sends_no_nan_back() -> None:
    safe = lambda x: lax.cond(x > 0, jnp.sqrt, lambda v: v * 3.0, x)
    xs = np.array([4.0, -1.0, 0.0], np.float32)
    np.testing.assert_allclose(kiln.vmap(kiln.grad(safe))(xs), [0.25, 3, 3])
    np.testing.assert_allclose(kiln.grad(lambda v: kiln.vmap(safe)(v).sum())(xs), [0.25, 3, 3])
    shared = lambda w: kiln.vmap(lambda p: lax.cond(p, lambda: jnp.sqrt(w), lambda: w))(xs > 0)
    np.testing.assert_allclose(kiln.grad(lambda w: shared(w).sum())(4.0), 0.25 + 2)


def test_residuals_of_branches_share_their_slots() -> None:
    def f(p: Any, x: Any) -> Any:
        return lax.cond(
            p, lambda a: jnp.sin(a) * jnp.cos(a), lambda a: jnp.exp(a) * jnp.tanh(a), x
        ).sum()

    forward, backward = conds(kiln.make_jaxpr(kiln.grad(f, 1))(True, X))
    # Each branch keeps four values; only one branch runs.
    assert [v.aval.shape for v in forward.outvars] == [(3,)] * 5
    assert len(backward.outvars) == 1


def test_keys_are_residuals_of_one_branch() -> None:
    @kiln.checkpoint
    def noisy(key: Any, x: Any) -> Any:
        return random.normal(key, (3,)) * jnp.sin(x)

    key = random.key(0)
    f = lambda p, x: lax.cond(p, lambda: noisy(random.split(key)[0], x), lambda: x).sum()
    noise = random.normal(random.split(key)[0], (3,))
    np.testing.assert_allclose(kiln.grad(f, 1)(True, X), noise * np.cos(X), rtol=1e-5)
    found = kiln.vmap(kiln.grad(f, 1))(np.array([True, False]), np.stack([X, X]))
    np.testing.assert_allclose(found, [noise * np.cos(X), X * 0 + 1], rtol=1e-5)


def test_operands_needed_for_the_way_back_are_handed_on() -> None:
    def f(p: Any, w: Any, x: Any) -> Any:
        return lax.cond(p, lambda: w @ x, lambda: x).sum()

    forward, *_ = conds(kiln.make_jaxpr(kiln.grad(f, (1, 2)))(True, np.eye(3, dtype="f4"), X))
    assert [v.aval.shape for v in forward.outvars] == [(3,)]


def test_results_move_if_they_do_in_one_branch() -> None:
    f = lambda p, x: lax.cond(p, lambda: (x, 1.0, 2.0), lambda: (3.0, x, 4.0))
    for p, wanted in ((True, [1.0, 0.0, 0.0]), (False, [0.0, 1.0, 0.0])):
        _, moved = kiln.jvp(lambda x: f(p, x), (0.5,), (1.0,))  # noqa: B023
        assert [float(t) for t in moved] == wanted
    program = kiln.make_jaxpr(lambda x: kiln.jvp(lambda y: f(True, y), (x,), (x,)))(0.5)
    assert len(conds(program)[0].outvars) == 5


def test_integers_and_keys_of_types_pass_through() -> None:
    f = lambda p, x, n: lax.cond(p, lambda: (x * n, n + 1), lambda: (x, n))[0].sum()
    grad = kiln.grad(f, 1)
    np.testing.assert_allclose(grad(True, X, 3), [3, 3, 3])
    np.testing.assert_allclose(kiln.vmap(grad, (0, None, 0))(X > 0, X, np.arange(3))[2], [2, 2, 2])


def test_dead_results_and_operands_go() -> None:
    def f(p: Any, x: Any, y: Any) -> Any:
        return lax.cond(p, lambda: (x, y * 2.0), lambda: (x * x, y))[0]

    avals = [BOOL, ShapedArray((3,), F32), ShapedArray((2,), F32)]
    jaxpr, _ = stage(lambda p, x, y: [f(p, x, y)], avals)
    clean, used = eliminate_dead_code(jaxpr)
    (eqn,) = conds(clean)
    assert [v.aval.shape for v in eqn.invars] == [(), (3,)]
    assert used == [True, True, False]
    check(clean)


def test_effects_happen_in_the_branch_taken() -> None:
    seen: list[str] = []

    def said(what: str) -> Any:
        def branch(x: Any) -> Any:
            kiln.debug.callback(lambda: seen.append(what))
            return x * 2.0

        return branch

    f = lambda p, x: lax.cond(p, said("yes"), said("no"), x)
    for on in ("reference", "xla"):
        with override(engine=on):
            seen.clear()
            kiln.jit(f)(True, 1.0)
            kiln.jit(f)(False, 1.0)
            kiln.jit(lambda p: (f(p, 1.0), 0)[1])(True)
            kiln.effects_barrier()
            assert seen == ["yes", "no", "yes"]
    seen.clear()
    kiln.jit(kiln.grad(f, 1))(False, 1.0)
    kiln.effects_barrier()
    assert seen == ["no"]
    # With a predicate for each example, all examples run both branches.
    seen.clear()
    found = kiln.vmap(f)(np.array([True, False]), np.ones(2))
    kiln.effects_barrier()
    assert found.tolist() == [2.0, 2.0]
    assert sorted(seen) == ["no", "yes"]
    seen.clear()
    kiln.vmap(f, (None, 0))(True, np.ones(2))
    assert seen == ["yes"]


def test_effects_outside_the_program_cannot_be_selected() -> None:
    def f(p: Any, x: Any) -> Any:
        return lax.cond(p, lambda x: io_callback(lambda v: v, x, x), lambda x: x, x)

    with pytest.raises(NotImplementedError, match=r"vmap of cond.*\n.*IO effect not supported"):
        kiln.vmap(f)(np.array([True, False]), np.ones(2, np.float32))


def test_ordered_effects_in_branches() -> None:
    seen: list[float] = []

    def say(x: Any) -> Any:
        kiln.debug.callback(lambda v: seen.append(float(v)), x, ordered=True)
        return x

    def f(xs: Any) -> Any:
        say(xs[0])
        y = lax.scan(lambda c, x: (lax.cond(x > 1, say, lambda v: v, x), None), 0.0, xs)[0]
        return say(y)

    with override(engine="xla"):
        kiln.jit(f)(jnp.arange(4.0))
        kiln.effects_barrier()
    assert seen == [0.0, 2.0, 3.0, 3.0]


def test_named_sizes() -> None:
    n = symbol("n")
    jaxpr, _ = stage(lambda p, x: [choose(p, x)], [BOOL, ShapedArray((n,), F32)])
    check(jaxpr)
    for axes in ([0, 0], [None, 0], [0, None]):
        over, _ = batch_jaxpr(jaxpr, MappedAxis(symbol("k")), axes)
        assert over.out_avals[0].shape == (symbol("k"), n)
        check(over)


def test_types_of_operands_and_results() -> None:
    one, _ = stage(lambda x: [x], [ShapedArray((), F32, True)])
    other, _ = stage(lambda x: [x * x], [ShapedArray((), F32)])
    index = ShapedArray((), np.dtype(np.int32))
    assert cond_p.infer(index, ShapedArray((), F32), branches=(one, one))[0].weak_type
    assert not cond_p.infer(index, ShapedArray((), F32), branches=(other, one))[0].weak_type
    for wrong in ((index, ShapedArray((3,), F32)), (BOOL, ShapedArray((), F32)), (index,)):
        with pytest.raises(TypeError, match=r"the index must be int32\[\]"):
            cond_p.infer(*wrong, branches=(one, one))


def test_nothing_is_derived_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    original = family._make_split

    def counted(*args: Any) -> Any:
        made.append(1)
        return original(*args)

    monkeypatch.setattr(family, "_make_split", counted)
    for scale in (1.0, 2.0):
        f = lambda x: choose(True, x).sum()
        kiln.grad(f)(X * np.float32(scale))
        kiln.hessian(f)(X * np.float32(scale))
        if scale == 1.0:
            first = len(made)
            assert first >= 1
    assert len(made) == first


def test_the_engine_writes_a_case() -> None:
    jaxpr, _ = stage(lambda p, x: [choose(p, x)], [BOOL, ShapedArray((), F32)])
    assert "stablehlo.case" in engine("xla").compiler.text(Program(jaxpr, "f"))
