"""Programs with the user's functions in them belong to one user."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

import kiln
from kiln.ir.sharing import is_shareable

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
