"""Checks left in a program: when they raise, and what."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.errors import FailedCheckError

X = np.array([1.0, -2.0, 3.0, -4.0], np.float32)
ENGINES = ["native", "xla", "reference"]


def positive(x):
    kiln.check(x > 0, "x is {:.1f}", x)
    return x * 2


def called(fun, *args):
    out = fun(*args)
    kiln.block_until_ready(out)
    kiln.effects_barrier()
    return out


def test_raises_at_once():
    assert float(positive(jnp.float32(1))) == 2.0
    with pytest.raises(FailedCheckError, match=r"^x is -1\.0 \(`check` failed\) at .*\.py:"):
        positive(jnp.float32(-1))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("fun", "good", "bad", "text"),
    [
        (positive, 1.0, -1.0, "x is -1.0"),
        (kiln.grad(positive), 1.0, -1.0, "x is -1.0"),
        (kiln.vmap(positive), abs(X), X, "x is -2.0"),
        (lambda x: lax.map(positive, x), abs(X), X, "x is -2.0"),
        (lambda x: lax.cond(x < 9, positive, lambda y: y, x), 1.0, -1.0, "x is -1.0"),
        (lambda x: lax.fori_loop(0, 3, lambda i, c: positive(c - 4 * i), x), 9.0, 3.0, "x is -4.0"),
        (kiln.checkpoint(positive), 1.0, -1.0, "x is -1.0"),
        (kiln.vmap(kiln.vmap(positive)), abs(X[None]), X[None], "x is -2.0"),
    ],
)
def test_compiled_programs_raise(fun, good, bad, text, engine):
    with override(engine=engine):
        jitted = kiln.jit(lambda x: fun(x))
        called(jitted, good)
        with pytest.raises(FailedCheckError) as caught:
            called(jitted, bad)
        assert str(caught.value).startswith(text)
        called(jitted, good)


def test_unmapped_checks():
    fun = kiln.vmap(lambda x, y: (kiln.check(y > 0, "y is {} beside {}", y, x), x)[1], (0, None))
    assert fun(X, 1.0).tolist() == X.tolist()
    with pytest.raises(FailedCheckError, match=r"y is -1.0 beside 1.0"):
        fun(X, -1.0)


def test_debug_checks_are_for_checkify():
    fun = kiln.jit(lambda x: (kiln.check(x > 0, "bad", debug=True), x)[1])
    assert float(fun(-1.0)) == -1.0


def test_what_is_no_check():
    with pytest.raises(TypeError, match=r"takes a scalar pred as argument, got 1.0"):
        kiln.check(1.0, "text")
    with pytest.raises(TypeError, match=r"scalar pred.*\n.*jnp.all"):
        kiln.check(jnp.ones(2, bool), "text")
    with pytest.raises(TypeError, match="the message is a int"):
        kiln.check(True, 5)
    with pytest.raises(TypeError, match="PyTrees of arrays, but got 'a'"):
        kiln.check(True, "{}", "a")
    with pytest.raises(IndexError, match="does not fit 0 values"):
        kiln.check(True, "{}")
    with pytest.raises(KeyError, match="does not fit 1 values"):
        kiln.check(True, "{name}", 1)


def test_checks_of_a_branch_are_of_the_examples_that_take_it():
    fun = lambda x: lax.cond(x > 0, lambda y: y, positive, x)
    assert kiln.vmap(fun)(abs(X) + 1).tolist() == (abs(X) + 1).tolist()
    with pytest.raises(FailedCheckError):
        kiln.vmap(fun)(-abs(X) - 1)


def test_a_region_that_passes_no_flag_on():
    def total(y):
        added = lambda a, b: (kiln.check(b > 0, "low"), a + b)[1]
        return lax.reduce(y[None], np.float32(0), added, (0,))

    with pytest.raises(NotImplementedError, match=r"vmap of .*\n.*\n.*move the check out"):
        kiln.vmap(lambda x: lax.cond(x > 0, total, lambda y: y, x))(X)
