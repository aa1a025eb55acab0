"""Splitting a scan in two: what is stacked for the way back, and what is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.control.loops.scan import scan_p
from kiln.control.loops.scan_split import split_by_counts, split_scan
from kiln.control.regions import region
from kiln.core.staging import eval_jaxpr, stage
from kiln.ir.analysis.checker import check
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import exp, mul
from tests.unit.control.scans import XS, H, W, scans, weights

F32 = ShapedArray((), np.dtype(np.float32))
I32 = ShapedArray((), np.dtype(np.int32))


@pytest.fixture(autouse=True)
def _reference() -> Iterator[None]:
    with override(engine="reference", check=True):
        yield


def test_cut() -> None:
    assert split_by_counts([1, 2, 3, 4], 1, 2) == [[1], [2, 3], [4]]
    assert split_by_counts([], 0) == [[], []]


def test_a_known_carry_that_meets_an_unknown_one_becomes_unknown() -> None:
    jaxpr, _ = stage(lambda n, a, b, x: [n + 1, b * 2.0, a * x, a * n], [I32, F32, F32, F32])
    params = {"jaxpr": jaxpr, "num_consts": 0, "num_carry": 3, "length": 2}
    parts = split_scan(params, [False, True, False, False])
    assert parts.unknown == (False, True, True, False)
    assert parts.unknown_out == (False, True, True, True)
    check(parts.known)
    check(parts.staged)
    # x is a slice already; n is needed before it is raised, as a float.
    assert parts.rows == (("operand", 1), ("result", 1))
    known = eval_jaxpr(parts.known, (), np.int32(3), np.float32(5))
    assert [float(v) for v in known] == [4, 3]


def test_constants_and_slices_are_not_stacked_again() -> None:
    w, h, xs = map(jnp.asarray, (W, H, XS))
    program = kiln.make_jaxpr(kiln.grad(lambda w, h, xs: weights(w, h, xs)[1].sum(), (0, 1, 2)))
    forward, backward = scans(program(w, h, xs))
    stacked = [v.aval.shape for v in forward.outvars[forward.params["num_carry"] :]]
    # Of the residuals only h, before and after the step, changes and is not a slice of xs.
    assert (3, 2, 2) not in stacked
    assert stacked.count((3, 2)) <= 4
    consts = [v.aval.shape for v in backward.invars[: backward.params["num_consts"]]]
    assert consts == [(2, 2)]


def test_a_residual_of_constants_alone_is_computed_outside() -> None:
    def f(w: Any, h: Any) -> Any:
        return lax.scan(lambda h, _: (h * jnp.exp(w), None), h, None, length=4)[0].sum()

    program = kiln.make_jaxpr(kiln.grad(f, 1))(jnp.float32(0.1), jnp.float32(2.0))
    backward = scans(program)[-1]
    assert [v.aval.shape for v in backward.invars] == [(), ()]
    np.testing.assert_allclose(
        kiln.grad(f, (0, 1))(0.1, 2.0), (8 * np.exp(0.4), np.exp(0.4)), rtol=1e-5
    )


def test_nothing_of_a_loop_without_turns_is_reported() -> None:
    def f(x: Any, w: Any) -> Any:
        # No iteration changes the logarithm.
        return lax.scan(lambda h, row: (h * jnp.log(w) * row, None), x[0], x[1:])[0]

    def g(x: Any, w: Any) -> Any:
        return kiln.grad(f)(x, w)

    named, w = kiln.jit(g, abstracted_axes=({0: "n"}, {})), jnp.float32(-1)
    with override(debug_nans=True):
        for function in (g, kiln.jit(g), named):
            np.testing.assert_array_equal(function(jnp.ones(1), w), [1])
            with pytest.raises(FloatingPointError, match="`log`"):
                function(jnp.ones(2), w)
            with pytest.raises(FloatingPointError, match="`log`"):
                function(jnp.ones(3), w)
        for x in (jnp.ones(1), jnp.ones(3)):
            np.testing.assert_array_equal(named(x, jnp.float32(np.e)), np.ones(x.size))


def test_a_constant_in_the_carry_is_not_stacked_either() -> None:
    def f(w: Any, h: Any) -> Any:
        body = lambda c, _: ({"w": c["w"], "h": jnp.sin(c["w"] @ c["h"])}, None)
        return lax.scan(body, {"w": w, "h": h}, None, length=4)[0]["h"].sum()

    program = kiln.make_jaxpr(kiln.grad(f, (0, 1)))(jnp.asarray(W), jnp.asarray(H))
    shapes = [v.aval.shape for eqn in scans(program) for v in eqn.outvars]
    assert (4, 2, 2) not in shapes


def test_transposition_of_a_loop_with_a_counter_and_constants() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, w: Any) -> Any:
            i, h = c
            return (i + 1, h * w + x * i), h * jnp.exp(w)

        (_, h), ys = lax.scan(step, (jnp.int32(1), x * 0.0), jnp.array([1.0, 2.0, 3.0]))
        return h, ys

    example = jnp.float32(0.0)
    transposed = kiln.linear_transpose(f, example)
    h, ys = f(jnp.float32(1.0))
    (found,) = transposed((jnp.float32(1.0), jnp.ones(3)))
    np.testing.assert_allclose(found, h + ys.sum(), rtol=1e-6)


def effects_in(jaxpr: Any) -> list[tuple[str, bool]]:
    """Return the equations with effects and no program inside, and whether they are in a scan."""
    found = []
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        inner = region.jaxprs_of(eqn.params)
        if eqn.effects and not inner:
            found.append((eqn.primitive.name, False))
        for body in inner:
            in_scan = eqn.primitive is scan_p
            found += [(name, within or in_scan) for name, within in effects_in(body)]
    return found


def test_effects_stay_in_the_loop_though_no_step_changes_their_operands() -> None:
    def f(w: Any, h: Any) -> Any:
        def step(h: Any, _: Any) -> Any:
            kiln.debug.print("{}", w)
            return h * jnp.exp(w), None

        return lax.scan(step, h, None, length=4)[0]

    program = kiln.make_jaxpr(kiln.grad(f, 1))(jnp.float32(0.1), jnp.float32(2.0))
    assert effects_in(program) == [("debug_callback", True)]


def test_an_equation_with_an_effect_is_not_hoisted() -> None:
    def body(w: Any, h: Any) -> list[Any]:
        kiln.debug.print("{}", w)
        return [mul(h, exp(w))]

    jaxpr, _ = stage(body, [F32, F32])
    params = {"jaxpr": jaxpr, "num_consts": 1, "num_carry": 1, "length": 2}
    parts = split_scan(params, [False, True])
    assert [eqn.primitive.name for eqn in parts.hoisted.eqns] == ["exp"]
    assert [eqn.primitive.name for eqn in parts.known.eqns] == ["debug_callback"]
    assert not parts.staged.effects
