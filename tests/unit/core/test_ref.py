"""References as objects: what they tell, and what they refuse."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.core.ref import Ref, check_distinct


def test_it_tells_the_type_of_its_array() -> None:
    ref = kiln.new_ref(jnp.zeros((2, 3)))
    assert isinstance(ref, kiln.Ref)
    assert not isinstance(ref, kiln.Array)
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == ((2, 3), np.float32, 2, 6, 2)
    assert str(ref.aval) == "Ref{float32[2,3]}"


def test_it_is_compared_by_identity() -> None:
    a, b = kiln.new_ref(1), kiln.new_ref(1)
    assert a == a
    assert a != b
    assert len({a, b}) == 2


def test_its_text() -> None:
    assert repr(kiln.new_ref(jnp.arange(3))) == "Ref([0, 1, 2], dtype=int32)"
    seen: list[str] = []
    kiln.jit(lambda ref: seen.append(repr(ref)))(kiln.new_ref(1.0))
    assert seen == ["Traced<Ref{float32[]}>with<StagingTrace>"]


@pytest.mark.parametrize(
    "use",
    [
        bool,
        iter,
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
        np.asarray,
        jnp.asarray,
        jnp.sin,
        kiln.jit(jnp.sin),
        kiln.device_put,
        lambda ref: jnp.add(1, ref),
        lambda ref: ref + 1,
        len,
    ],
)
def test_it_is_no_array(use: Callable[[Any], Any]) -> None:
    ref = kiln.new_ref(jnp.float32(1))
    with pytest.raises(TypeError):
        use(ref)


def test_a_view_tells_what_it_is_of() -> None:
    view = kiln.new_ref(jnp.zeros((2, 3))).at[1].at[1:]
    assert (view.shape, view.dtype, view.ndim) == ((2,), np.float32, 1)
    assert repr(view) == "RefView(f32[2] of Ref{float32[2,3]})"


def test_two_uses_of_one_reference_are_named() -> None:
    ref = kiln.new_ref(1.0)
    check_distinct("call of f", [ref, kiln.new_ref(1.0), 2], ["a", "b", "c"])
    with pytest.raises(ValueError, match="at both a and c"):
        check_distinct("call of f", [ref, 1, ref], ["a", "b", "c"])
    with pytest.raises(ValueError, match="closed over and passed as the argument b"):
        check_distinct("call of f", [ref, ref], ["", "b"])


def test_a_reference_that_was_kept_is_a_leak() -> None:
    kept: list[Ref] = []

    @kiln.jit
    def keep(x: Any) -> Any:
        kept.append(kiln.new_ref(x))
        return x

    keep(1.0)
    with pytest.raises(kiln.errors.UnexpectedTracerError, match="reference of type Ref"):
        kept[0][...]
    with pytest.raises(kiln.errors.UnexpectedTracerError):
        kiln.jit(lambda ref: ref[...])(kept[0])


def test_leaks_are_found_where_they_happen() -> None:
    kept: list[Ref] = []
    with kiln.checking_leaks():
        with pytest.raises(kiln.errors.UnexpectedTracerError, match="a reference of type Ref"):
            kiln.jit(lambda x: kept.append(kiln.new_ref(x)))(1.0)
        assert float(kiln.jit(lambda x: kiln.new_ref(x)[...])(1.0)) == 1


def test_a_reference_outlives_a_derivative_that_it_does_not_depend_on() -> None:
    def f(x: Any) -> Any:
        return x**2, (kiln.new_ref(1.0), kiln.new_ref(x))

    slope, (fixed, moving) = kiln.grad(f, has_aux=True)(3.0)
    assert float(slope) == 6
    fixed[...] = 2.0
    assert float(fixed[...]) == 2
    with pytest.raises(kiln.errors.UnexpectedTracerError):
        moving[...]


@pytest.mark.parametrize(
    "function",
    [
        kiln.jit(lambda ref: {"a": ref}),
        kiln.jit(lambda ref: kiln.new_ref(ref[...])),
        lambda ref: kiln.vmap(kiln.new_ref)(jnp.ones(2)),
        lambda ref: kiln.lax.cond(True, lambda: ref, lambda: ref),
        lambda ref: kiln.lax.fori_loop(0, 2, lambda i, r: r, ref),
        lambda ref: kiln.lax.while_loop(lambda r: True, lambda r: r, ref),
        lambda ref: kiln.lax.scan(lambda c, _: (c, ref), 0, None, 2),
        kiln.make_jaxpr(lambda ref: ref),
    ],
)
def test_references_are_not_returned(function: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match="cannot be returned"):
        function(kiln.new_ref(1.0))
