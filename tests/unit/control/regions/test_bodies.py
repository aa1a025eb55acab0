"""From functions of pytrees to regions."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.base.tree import tree_structure
from kiln.control.regions import bodies
from kiln.core.staging import eval_jaxpr
from kiln.core.trace import aval_of
from kiln.ir.analysis.checker import check
from kiln.ir.types import ShapedArray

F32 = ShapedArray((), np.dtype(np.float32))


@pytest.fixture(autouse=True)
def _reference() -> Iterator[None]:
    with override(engine="reference"):
        yield


def test_arrays_of_copies_what_may_change() -> None:
    mine = np.ones(2, np.float32)
    (held, number), tree = bodies.arrays_of("scan", "init", {"a": mine, "b": 2})
    mine[:] = 7
    assert held.tolist() == [1, 1]
    assert number == 2
    assert tree == tree_structure({"a": 0, "b": 0})


def test_objects_that_become_arrays() -> None:
    class Wrapped:
        def __jax_array__(self) -> Any:
            return jnp.ones(3)

    assert bodies.as_operand(Wrapped()).shape == (3,)
    assert bodies.as_operand("text") is None
    assert bodies.as_operand(np.array(["text"])) is None
    with pytest.raises(
        TypeError, match=r"init\[1\] has type object, which is not a valid JAX type"
    ):
        bodies.arrays_of("scan", "init", (1, object()))


def test_what_a_body_closes_over_comes_first() -> None:
    w = jnp.arange(3.0)
    tree = tree_structure(({"a": 0}, 0))
    body = bodies.stage_body("scan", lambda d, x: (d["a"] * w, w + x), tree, [F32, F32])
    assert [c is w for c in body.consts] == [True]
    assert body.out_tree == tree_structure((0, 0))
    assert body.jaxpr.in_avals == [aval_of(w), F32, F32]
    check(body.jaxpr)
    outs = eval_jaxpr(body.jaxpr, (), w, jnp.float32(2), jnp.float32(1))
    assert [x.tolist() for x in outs] == [[0, 2, 4], [1, 2, 3]]


def test_bodies_are_apart_where_a_named_axis_has_another_size() -> None:
    def total(count: int) -> Any:
        def body(carry: Any, _: Any) -> Any:
            return carry + lax.axis_size("i"), None

        def fun(x: Any) -> Any:
            return lax.scan(body, x, None, length=2)[0]

        return kiln.vmap(fun, axis_name="i")(jnp.zeros(count)).tolist()

    assert [total(count) for count in (2, 3, 2)] == [[4, 4], [6, 6, 6], [4, 4]]


def test_inputs_are_named_as_the_user_does() -> None:
    tree = tree_structure(({"a": [0]}, 0))

    def names(fun: Any) -> list[str]:
        return list(bodies.stage_body("scan", fun, tree, [F32, F32]).jaxpr.arg_names)

    class Method:
        def step(self, state: Any, row: Any) -> Any:
            return row

        def __call__(self, state: Any, row: Any) -> Any:
            return row

    assert names(lambda state, row: row) == ["state['a'][0]", "row"]
    assert names(Method().step) == ["state['a'][0]", "row"]
    assert names(Method()) == ["state['a'][0]", "row"]
    assert names(functools.partial(lambda z, state, row: row, 1)) == ["state['a'][0]", "row"]
    assert names(lambda *args: args[1]) == ["args[0]['a'][0]", "args[1]"]


def test_common_constants_keep_their_order() -> None:
    a, b, c = (jnp.float32(i) for i in (1, 2, 3))
    tree = tree_structure((0,))
    staged = [
        bodies.stage_body("cond", fun, tree, [F32])
        for fun in (lambda x: a * x + b, lambda x: b * x - c, lambda x: x)
    ]
    jaxprs, consts = bodies.with_common_consts(staged)
    assert [float(x) for x in consts] == [1, 2, 3]
    outs = [float(eval_jaxpr(jaxpr, (), *consts, jnp.float32(5))[0]) for jaxpr in jaxprs]
    assert outs == [7, 7, 5]
    for jaxpr in jaxprs:
        check(jaxpr)


def test_carries_widen_until_they_are_stable() -> None:
    weak = ShapedArray((), np.dtype(np.int32), weak_type=True)
    asked: list[list[ShapedArray]] = []

    def record(avals: Any) -> Any:
        asked.append(list(avals))
        return "body", [avals[1], F32]

    carry, body = bodies.settle_carry([0, 0], record)
    assert body == "body"
    assert [x.dtype for x in carry] == [np.float32, np.float32]
    assert [avals[0] for avals in asked] == [weak, weak, F32]
    strong, _ = bodies.settle_carry([np.int32(0)], lambda avals: ("body", [F32]))
    assert strong[0].dtype == np.int32


def test_interning_is_bounded() -> None:
    tree = tree_structure((0,))

    def record(i: int) -> Any:
        return bodies.interned(bodies.stage_body("scan", lambda x: x * float(i), tree, [F32]).jaxpr)

    bodies.clear()
    assert record(1) is record(1)
    with override(body_cache_mb=0):
        kept = [record(i) for i in range(6)]
        assert record(0) is not kept[0]
        assert len(bodies._interned) == 1
    bodies.clear()
    assert not bodies._interned
