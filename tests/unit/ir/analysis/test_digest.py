"""Programs as bytes: equal for equal programs in all processes, different for all others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.extend.core import Primitive
from kiln.interpreters.mlir import lower_fun, register_lowering
from kiln.ir.analysis.digest import Unnameable, portable_bytes, weight

X = np.ones((4, 4), np.float32)


def described(f: Callable[..., Any], *args: Any) -> bytes:
    return portable_bytes(kiln.make_jaxpr(f)(*(args or (X,))).jaxpr)


VARIANTS: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
    ("sum", lambda x: jnp.sum(x * 2.0, axis=0), ()),
    ("another axis", lambda x: jnp.sum(x * 2.0, axis=1), ()),
    ("another constant", lambda x: jnp.sum(x * 3.0, axis=0), ()),
    ("zero", lambda x: jnp.sum(x * 0.0, axis=0), ()),
    ("minus zero", lambda x: jnp.sum(x * -0.0, axis=0), ()),
    ("nan", lambda x: jnp.sum(x * float("nan"), axis=0), ()),
    ("max", lambda x: jnp.max(x * 2.0, axis=0), ()),
    ("another type", lambda x: jnp.sum(x * 2.0, axis=0), (X.astype(np.float16),)),
    ("another shape", lambda x: jnp.sum(x * 2.0, axis=0), (X[:3],)),
    ("two results", lambda x: (jnp.sum(x * 2.0, axis=0), x), ()),
    ("scan", lambda x: lax.scan(lambda c, y: (c + y, c), x[0], x), ()),
    ("scan backwards", lambda x: lax.scan(lambda c, y: (c + y, c), x[0], x, reverse=True), ()),
    ("while", lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, x), ()),
    ("while to 10", lambda x: lax.while_loop(lambda c: c.sum() < 10, lambda c: c + 1, x), ()),
    ("cond", lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x), ()),
    ("cond exchanged", lambda x: lax.cond(x[0, 0] > 0, jnp.cos, jnp.sin, x), ()),
    ("relu", lambda x: kiln.nn.relu(x), ()),
    ("gather", lambda x: x[jnp.array([1, 2])], ()),
    ("gather others", lambda x: x[:, jnp.array([1, 2])], ()),
    ("keys", lambda x: kiln.random.normal(kiln.random.key(0), (3,)), ()),
]


def test_different_programs_have_different_bytes() -> None:
    found = [described(f, *args) for _, f, args in VARIANTS]
    assert len(set(found)) == len(VARIANTS)


def test_equal_programs_have_equal_bytes() -> None:
    assert [described(f, *args) for _, f, args in VARIANTS] == [
        described(f, *args) for _, f, args in VARIANTS
    ]


TEXT = """
import hashlib
import tests.unit.ir.analysis.test_digest as here
print([hashlib.sha256(here.described(f, *a)).hexdigest()[:8] for _, f, a in here.VARIANTS])
"""


def test_bytes_are_the_same_in_every_process() -> None:
    def run(seed: str) -> str:
        command = [sys.executable, "-c", TEXT]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout

    assert run("1") == run("2")


def test_rules_of_derivatives_do_not_matter() -> None:
    def function(factor: float) -> Callable[[Any], Any]:
        @kiln.custom_jvp
        def f(x: Any) -> Any:
            return jnp.sin(x)

        f.defjvp(lambda primals, tangents: (f(*primals), factor * tangents[0]))
        return f

    # The name of the function is the same, and so is its code.
    assert described(function(1.0)) == described(function(2.0))


def test_functions_of_users_have_no_name() -> None:
    def calls(x: Any) -> Any:
        return kiln.pure_callback(
            lambda y: np.asarray(y), kiln.ShapeDtypeStruct((4, 4), X.dtype), x
        )

    def prints(x: Any) -> Any:
        kiln.debug.print("{}", x)
        return x

    for f in (calls, prints):
        with pytest.raises(Unnameable):
            described(f)


def test_primitives_of_users_have_no_name() -> None:
    twice_p = Primitive("twice")
    twice_p.def_abstract_eval(lambda x: x)
    register_lowering(twice_p, lower_fun(lambda x: x * 2.0, multiple_results=False))
    with pytest.raises(Unnameable, match="twice"):
        described(lambda x: twice_p.bind(jnp.sin(x)))


def test_objects_that_are_unknown_have_no_name() -> None:
    class Own:
        pass

    for value in (Own(), Own, lambda: 1, np.array([None]), {"a": Own()}):
        with pytest.raises(Unnameable):
            portable_bytes(value)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, True),
        (1, 1.0),
        ("1", 1),
        (0.0, -0.0),
        ((1, 2), [1, 2]),
        ((1, (2,)), ((1, 2),)),
        (np.float32(1), np.float64(1)),
        (np.array([1, 2]), np.array([[1, 2]])),
        (np.dtype("f4"), np.dtype("f8")),
        (np.dtype(">f4"), np.dtype("<f4")),
        (jnp.bfloat16, jnp.float16),
        ({"a": 1}, {"b": 1}),
        (frozenset((1, 2)), frozenset((1, 3))),
        (("a", "b"), ("a\0b",)),
        (None, "None"),
    ],
)
def test_values_that_differ(a: Any, b: Any) -> None:
    assert portable_bytes(a) != portable_bytes(b)


def test_dicts_and_sets_have_no_order() -> None:
    assert portable_bytes({"a": 1, "b": 2}) == portable_bytes({"b": 2, "a": 1})
    assert portable_bytes({"x", "y", "z"}) == portable_bytes({"z", "y", "x"})


def test_weight_counts_what_is_inside() -> None:
    inner = kiln.jit(lambda x: jnp.sin(jnp.cos(jnp.tan(x))))
    jaxpr = kiln.make_jaxpr(lambda x: inner(x) + 1.0)(X).jaxpr
    assert weight(jaxpr, 100) >= 5
    assert weight(jaxpr, 2) >= 2
    assert weight(kiln.make_jaxpr(lambda x: x)(X).jaxpr, 9) == 0
