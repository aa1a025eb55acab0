"""Programs with the user's functions in them belong to one user."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.nn
import kiln.numpy as jnp
from kiln.ir.analysis.user_code import holds_user_code, is_shareable

X = np.ones(3, np.float32)


def at_module_level(x):
    return x


def callback(fun):
    return lambda x: kiln.pure_callback(fun, kiln.ShapeDtypeStruct((3,), np.float32), x)


def local():
    def fun(x):
        return x

    return fun


@pytest.mark.parametrize(
    ("fun", "expected"),
    [
        (lambda x: x * 2 + 1, True),
        (lambda x: kiln.jit(lambda x: x + 1)(x), True),
        (kiln.nn.relu, True),
        (callback(at_module_level), True),
        (callback(local()), False),
        (callback(functools.partial(math.pow, 2.0)), False),
        (lambda x: kiln.jit(callback(local()))(x), False),
        (lambda x: kiln.lax.cond(True, callback(local()), at_module_level, x), False),
    ],
)
def test_functions_with_closures_are_not_shared(fun, expected) -> None:
    jaxpr = kiln.make_jaxpr(fun)(X).jaxpr
    assert is_shareable(jaxpr) is expected
    assert is_shareable(jaxpr) is expected


def _on_host(x: Any) -> Any:
    return x


def _program(f: Any) -> Any:
    return kiln.make_jaxpr(f)(jnp.float32(1)).jaxpr


def test_plain_programs_hold_none() -> None:
    for f in (lambda x: x + 1, kiln.nn.relu, lambda x: kiln.lax.fori_loop(0, 3, _twice, x)):
        assert not holds_user_code(_program(f))


def _twice(i: Any, x: Any) -> Any:
    return x * 2


def test_callbacks_and_rules() -> None:
    like = np.zeros((), np.float32)
    local = lambda x: x
    for callback in (_on_host, local):
        for f in (
            lambda x: kiln.pure_callback(callback, like, x),  # noqa: B023
            lambda x: kiln.lax.cond(x > 0, lambda y: kiln.pure_callback(callback, like, y), abs, x),  # noqa: B023
        ):
            assert holds_user_code(_program(f))

    @kiln.custom_jvp
    def ruled(x: Any) -> Any:
        return x

    ruled.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    assert holds_user_code(_program(lambda x: ruled(x)))


def test_rules_of_users_for_functions_of_kiln() -> None:
    ruled = kiln.custom_jvp(kiln.nn.softplus)
    ruled.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    both = kiln.custom_vjp(kiln.nn.softplus)
    both.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
    like = np.zeros((), np.float32)
    for f in (ruled, both):
        assert holds_user_code(_program(f))
        assert holds_user_code(_program(lambda x: kiln.pure_callback(f, like, x)))  # noqa: B023
    assert not holds_user_code(_program(lambda x: kiln.pure_callback(kiln.nn.softplus, like, x)))


def test_constants_of_inner_programs_count() -> None:
    inner = kiln.make_jaxpr(lambda x: x + jnp.asarray(X))(X)
    outer = kiln.make_jaxpr(lambda x: kiln.jit(lambda x: x * 2)(x))(X).jaxpr
    (eqn,) = outer.eqns
    with_consts = outer.with_(eqns=[eqn.with_(params={**eqn.params, "jaxpr": inner})])
    assert is_shareable(outer)
    assert inner.consts and not is_shareable(with_consts)
