"""The primitive `while`: meaning, tangents beside the carry, examples that end apart, effects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.control.effects.callback import io_callback
from kiln.control.loops.while_loop import while_p
from kiln.control.regions import region
from kiln.core.engines.engine import Program, engine
from kiln.core.staging import stage
from kiln.ir.analysis.checker import check
from kiln.ir.rewrite import eliminate_dead_code
from kiln.ir.sizes.size import symbol
from kiln.ir.types import ShapedArray
from kiln.transforms.batching import MappedAxis, batch_jaxpr

F32 = np.dtype(np.float32)
I32 = np.dtype(np.int32)


@pytest.fixture(autouse=True)
def _reference() -> Iterator[None]:
    with override(engine="reference", check=True):
        yield


def whiles(jaxpr: Any) -> list[Any]:
    """Return the while equations of a program."""
    found = []
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        if eqn.primitive is while_p:
            found.append(eqn)
        for inner in region.jaxprs_of(eqn.params):
            found += whiles(inner)
    return found


def doubled(x: Any, limit: Any) -> Any:
    """Return the number of doublings until x passes the limit, and the result."""
    return lax.while_loop(
        lambda s: s[1] < limit, lambda s: (s[0] + 1, s[1] * 2.0), (jnp.int32(0), x)
    )


@pytest.mark.parametrize("on", ["reference", "xla"])
def test_values(on: str) -> None:
    with override(engine=on):
        assert [float(v) for v in doubled(1.0, 10.0)] == [4, 16]
        assert [float(v) for v in kiln.jit(doubled)(3.0, 2.0)] == [0, 3]


@pytest.mark.parametrize("on", ["reference", "xla"])
def test_examples_end_apart(on: str) -> None:
    xs = np.array([1.0, 3.0, 20.0], np.float32)
    with override(engine=on):
        n, y = kiln.vmap(doubled, (0, None))(xs, 10.0)
        assert (n.tolist(), y.tolist()) == ([4, 2, 0], [16, 12, 20])
        n, y = kiln.vmap(doubled, (None, 0))(1.0, xs)
        assert (n.tolist(), y.tolist()) == ([0, 2, 5], [1, 4, 32])
        both = kiln.vmap(kiln.vmap(doubled, (0, None)), (None, 0))(xs, xs)
        assert both[1].tolist() == [[1, 3, 20], [4, 3, 20], [32, 24, 20]]


def test_an_unmapped_condition_stays_one_number() -> None:
    f = lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), (0, 1.0))
    program = kiln.make_jaxpr(kiln.vmap(f))(jnp.array([2.0, 3.0]))
    (eqn,) = whiles(program)
    assert [v.aval.shape for v in eqn.outvars] == [(), (2,)]
    assert eqn.params["cond_jaxpr"].out_avals[0].shape == ()
    n, y = kiln.vmap(f)(jnp.array([2.0, 3.0]))
    assert (n.tolist(), y.tolist()) == ([3, 3], [8, 27])


def test_tangents_are_carried_only_where_something_moves() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2.0, s[3], s[3] * x), (0, 1.0, 0.0, x)
        )

    out, moved = kiln.jvp(f, (3.0,), (1.0,))
    assert [float(v) for v in out] == [3, 8, 27, 81]
    assert [float(t) for t in moved[1:]] == [0, 27, 108]
    program = kiln.make_jaxpr(lambda x: kiln.jvp(f, (x,), (x,)))(3.0)
    (eqn,) = whiles(program)
    assert len(eqn.outvars) == 6


def test_linearize_runs_the_known_part_at_once() -> None:
    f = lambda x: doubled(jnp.sin(x), 10.0)[1]
    y, push = kiln.linearize(f, 1.0)
    np.testing.assert_allclose(y, np.sin(1.0) * 16, rtol=1e-6)
    np.testing.assert_allclose(push(1.0), np.cos(1.0) * 16, rtol=1e-6)
    np.testing.assert_allclose(kiln.jit(lambda v: push(v))(2.0), np.cos(1.0) * 32, rtol=1e-6)


@pytest.mark.parametrize("wrapped", [False, True])
def test_reverse_mode_is_refused(wrapped: bool) -> None:
    grad = kiln.grad(lambda x: doubled(x, 10.0)[1])
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work for lax") as e:
        (kiln.jit(kiln.vmap(grad)) if wrapped else grad)(np.ones(2, "f4") if wrapped else 1.0)
    assert "lax.while_loop or lax.fori_loop with dynamic start/stop values" in str(e.value)
    assert len(str(e.value).split("\n")) == 3


def test_reverse_mode_beside_a_loop_that_does_not_move() -> None:
    def f(x: Any) -> Any:
        n, y = lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 2, s[1]), (jnp.int32(0), x))
        return jnp.sin(y) * n + lax.while_loop(lambda v: v < 9.0, lambda v: v * 2.0, 1.0) * x

    np.testing.assert_allclose(kiln.grad(f)(0.5), np.cos(0.5) * 6 + 16, rtol=1e-6)
    np.testing.assert_allclose(
        kiln.jit(kiln.grad(kiln.jit(f)))(0.5), np.cos(0.5) * 6 + 16, rtol=1e-6
    )
    stopped = lambda x: doubled(lax.stop_gradient(x), 10.0)[1] * x
    np.testing.assert_allclose(kiln.grad(stopped)(3.0), 12.0)


def test_reverse_mode_of_a_tangent_nobody_uses() -> None:
    f = lambda x: doubled(x, 10.0)[0] * x
    np.testing.assert_allclose(kiln.grad(f)(3.0), 2.0)


def test_dead_carries_go() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(
            lambda s: s["i"] < 3,
            lambda s: {"i": s["i"] + 1, "a": s["b"], "b": s["a"] * x, "dead": s["dead"] + s["a"]},
            {"i": jnp.int32(0), "a": x, "b": x, "dead": x},
        )["a"]

    jaxpr, _ = stage(lambda x: [f(x)], [ShapedArray((), F32)])
    clean, _ = eliminate_dead_code(jaxpr)
    (eqn,) = whiles(clean)
    assert len(eqn.outvars) == 3
    check(clean)
    assert kiln.jit(f)(2.0) == 4.0


def test_a_carry_that_never_changes_is_a_constant() -> None:
    f = lambda x, w: lax.while_loop(lambda s: s[1] < s[0], lambda s: (s[0], s[1] * 2.0), (w, x))
    (eqn,) = whiles(kiln.make_jaxpr(f)(1.0, 9.0))
    assert eqn.params["cond_nconsts"] == 1
    assert len(eqn.outvars) == 1
    assert [float(v) for v in f(1.0, 9.0)] == [9, 16]


def test_effects_happen_once_a_step() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        def body(s: Any) -> Any:
            kiln.debug.callback(lambda v: seen.append(float(v)), s)
            s, _ = lax.scan(lambda c, _: (say(c) * 2.0, None), s, None, length=1)
            return s

        return lax.while_loop(lambda s: s < 3.0, body, x)

    def say(c: Any) -> Any:
        kiln.debug.callback(lambda v: seen.append(-float(v)), c)
        return c

    for on in ("reference", "xla"):
        with override(engine=on):
            seen.clear()
            kiln.jit(f)(1.0)
            kiln.effects_barrier()
            assert sorted(seen) == [-2, -1, 1, 2]
    seen.clear()
    _, push = kiln.linearize(f, 1.0)
    assert sorted(seen) == [-2, -1, 1, 2]
    assert float(push(1.0)) == 4.0
    assert len(seen) == 4
    # Examples that are done run again until all are.
    seen.clear()
    assert kiln.vmap(f)(np.array([1.0, 2.0])).tolist() == [4.0, 4.0]
    kiln.effects_barrier()
    assert sorted(v for v in seen if v > 0) == [1, 2, 2, 4]


def test_effects_outside_the_program_cannot_be_repeated() -> None:
    def body(s: Any) -> Any:
        return io_callback(lambda v: v * 2, s, s)

    with pytest.raises(
        NotImplementedError, match=r"vmap of while_loop.*\n.*batched predicate.*: io"
    ):
        kiln.vmap(lambda x: lax.while_loop(lambda s: s < 3.0, body, x))(np.ones(2, np.float32))


def test_ordered_effects_in_condition_and_body() -> None:
    seen: list[Any] = []

    def say(what: str, v: Any) -> Any:
        kiln.debug.callback(lambda x: seen.append((what, float(x))), v, ordered=True)
        return v

    def f(x: Any) -> Any:
        return lax.while_loop(lambda s: say("cond", s) < 3.0, lambda s: say("body", s) * 2.0, x)

    with override(engine="xla"):
        kiln.jit(f)(1.0)
        kiln.effects_barrier()
    assert seen == [("cond", 1), ("body", 1), ("cond", 2), ("body", 2), ("cond", 4)]


def test_named_sizes() -> None:
    n, k = symbol("n"), symbol("k")
    f = lambda x, m: lax.while_loop(lambda s: s[0] < m, lambda s: (s[0] + 1, s[1] * x), (0, x))
    jaxpr, _ = stage(f, [ShapedArray((n,), F32), ShapedArray((), I32)])
    check(jaxpr)
    for axes in ([0, None], [None, 0], [0, 0]):
        over, _ = batch_jaxpr(jaxpr, MappedAxis(k), axes, True)
        assert [a.shape for a in over.out_avals] == [(k,), (k, n)]
        check(over)


def test_operands_of_other_types_are_refused() -> None:
    cond, _ = stage(lambda s: [s < 3.0], [ShapedArray((), F32)])
    body, _ = stage(lambda s: [s * 2.0], [ShapedArray((), F32)])
    params = {"cond_jaxpr": cond, "cond_nconsts": 0, "body_jaxpr": body, "body_nconsts": 0}
    assert while_p.infer(ShapedArray((), F32), **params) == [ShapedArray((), F32)]
    with pytest.raises(TypeError, match="the condition is to have types"):
        while_p.infer(ShapedArray((), I32), **params)


def test_the_engine_writes_a_while() -> None:
    jaxpr, _ = stage(lambda x: doubled(x, 10.0), [ShapedArray((), F32)])
    assert "stablehlo.while" in engine("xla").compiler.text(Program(jaxpr, "f"))
