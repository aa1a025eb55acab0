"""Primitives of high values: what they compute, record, differentiate to, and refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.core.hitypes import lowered, raised
from kiln.experimental import hijax
from tests.unit.control.hi_values import (
    Box,
    Scaled,
    ScaledTy,
    from_scaled_p,
    halved,
    rounded,
    to_scaled_p,
)

X = np.array([1.0, -0.5, 0.3], np.float32)
ROUNDED = np.round(X * 127) / 127


def test_values_without_a_trace() -> None:
    x = to_scaled_p.bind(X)
    assert type(x) is Scaled and x.small.dtype == np.int8
    np.testing.assert_allclose(from_scaled_p.bind(x), ROUNDED, rtol=1e-6)
    assert kiln.typeof(x) == ScaledTy((3,)) and not hasattr(x, "aval")


def test_programs_hold_the_arrays_and_name_the_primitive() -> None:
    text = str(kiln.make_jaxpr(rounded)(X))
    assert "b:i8[3] c:f32[] = to_scaled a" in text
    assert "d:f32[3] = from_scaled b c" in text
    np.testing.assert_allclose(kiln.jit(rounded)(X), ROUNDED, rtol=1e-6)


@pytest.mark.parametrize("engine", ["native", "xla", "reference"])
def test_engines(engine: str) -> None:
    with override(engine=engine):
        np.testing.assert_allclose(kiln.jit(rounded)(X), ROUNDED, rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, kiln.jit], ids=["eager", "jit"])
def test_derivatives_are_those_of_the_rules(wrap: Any) -> None:
    # The rules say so; rounding has none, and what is left would have the derivative 1.
    slope = kiln.grad(wrap(lambda x: (halved(x) * X).sum()))(X)
    np.testing.assert_allclose(slope, 1.1 * X, rtol=1e-6)
    out, moved = kiln.jvp(wrap(halved), (X,), (X,))
    np.testing.assert_allclose(out, X, rtol=1e-6)
    np.testing.assert_allclose(moved, 1.1 * X, rtol=1e-6)
    second = kiln.jvp(kiln.grad(wrap(lambda x: (halved(x) ** 2).sum())), (X,), (X,))
    np.testing.assert_allclose(second[0], 2.2 * X, rtol=1e-6)
    np.testing.assert_allclose(second[1], 2.42 * X, rtol=1e-6)


def test_tangents_of_other_arrays_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="consist of other arrays") as caught:
        kiln.grad(lambda x: rounded(x).sum())(X)
    assert len(str(caught.value).splitlines()) == 3


class Scale(hijax.HiPrimitive):
    """Linear in its second operand."""

    multiple_results = True

    def abstract_eval(self, k: Any, x: Any, *, twice: bool) -> Any:
        return [x, x], set()

    def to_lojax(self, k: Any, x: Any, *, twice: bool) -> Any:
        return [k * x * (2 if twice else 1), x]

    def jvp(self, primals: Any, tangents: Any, *, twice: bool) -> Any:
        k, x = primals
        assert type(tangents[0]) is hijax.Zero
        return scale_p.bind(k, x, twice=twice), scale_p.bind(k, tangents[1], twice=twice)

    def transpose(self, cts: Any, k: Any, x: Any, *, twice: bool) -> Any:
        assert hijax.is_undefined_primal(x) and not hijax.is_undefined_primal(k)
        return [None, cts[0] * k * (2 if twice else 1) + cts[1]]


scale_p = Scale("scale")


def test_several_results_parameters_and_a_transpose() -> None:
    def f(x: Any) -> Any:
        a, b = scale_p.bind(jnp.asarray(3.0), x, twice=True)
        return (a + b).sum()

    np.testing.assert_allclose(kiln.grad(f)(X), np.full(3, 7.0))
    np.testing.assert_allclose(kiln.jit(kiln.grad(f))(X), np.full(3, 7.0))
    assert "scale[twice=True]" in str(kiln.make_jaxpr(f)(X))


def test_equations_with_other_parameters_are_other_programs() -> None:
    def f(x: Any, twice: bool) -> Any:
        return scale_p.bind(jnp.asarray(3.0), x, twice=twice)[0]

    jitted = kiln.jit(f, static_argnums=1)
    np.testing.assert_allclose(jitted(X, True), 6 * X)
    np.testing.assert_allclose(jitted(X, False), 3 * X)


class Host(hijax.HiPrimitive):
    def is_high(self, *avals: Any, **params: Any) -> bool:
        return False

    def impl(self, x: Any) -> Any:
        return ("impl", float(x))


def test_what_is_not_high_runs_its_impl() -> None:
    assert Host("host").bind(2.0) == ("impl", 2.0)


def test_rules_that_are_missing() -> None:
    bare = hijax.HiPrimitive("bare")
    for use, rule in [(bare.bind, "to_lojax"), (kiln.jit(bare.bind), "abstract_eval")]:
        with pytest.raises(NotImplementedError, match=f"does not define {rule}") as caught:
            use(1.0)
        assert len(str(caught.value).splitlines()) == 3
    with pytest.raises(NotImplementedError, match="does not define batch"):
        kiln.vmap(rounded)(np.ones((2, 3), np.float32))


def test_values_that_change_are_made_and_used_while_a_program_is_recorded() -> None:
    def f(x: Any) -> Any:
        box = Box(x)
        box.set({"a": box.get() * 2, "b": x})
        return box.get()["a"] + box.get()["b"]

    np.testing.assert_allclose(f(X), 3 * X)
    np.testing.assert_allclose(kiln.jit(f)(X), 3 * X)
    np.testing.assert_allclose(kiln.vmap(f)(X), 3 * X)
    np.testing.assert_allclose(kiln.grad(lambda x: f(x).sum())(X), np.full(3, 3.0))


def test_arrays_in_a_row() -> None:
    types = [ScaledTy((3,)), kiln.typeof(1.0)]
    arrays = lowered(types, [Scaled(X, 2.0), 5.0])
    assert arrays[1:] == [2.0, 5.0]
    scaled, number = raised(types, arrays)
    assert (scaled.small is arrays[0], scaled.scale, number) == (True, 2.0, 5.0)
