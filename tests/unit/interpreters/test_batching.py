"""The tables of rules for stacks, and the ways to fill them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.core import ShapedArray
from kiln.extend.core import Primitive
from kiln.interpreters import batching, mlir
from kiln.lax import add_p, reduce_sum_p
from tests.unit.interpreters.outside import ENGINES

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def primitive(fun: Any, multiple: bool = False) -> Primitive:
    p = Primitive("p")
    p.multiple_results = multiple

    def abstract(*avals: Any, **params: Any) -> Any:
        outs = kiln.eval_shape(lambda *xs: fun(*xs, **params), *avals)
        found = [ShapedArray(x.shape, x.dtype) for x in kiln.tree.leaves(outs)]
        return found if multiple else found[0]

    p.def_impl(fun)
    p.def_abstract_eval(abstract)
    mlir.register_lowering(p, mlir.lower_fun(fun, multiple_results=multiple))
    return p


@pytest.mark.parametrize("engine", ENGINES)
def test_plain_rules(engine: str) -> None:
    p = primitive(lambda x: x * 2)
    seen: list[Any] = []

    def rule(xs: Any, axes: Any) -> Any:
        seen.append((type(xs), axes))
        return p.bind(*xs), axes[0]

    batching.primitive_batchers[p] = rule
    with override(engine=engine):
        np.testing.assert_array_equal(kiln.vmap(p.bind, 1, 1)(X), 2 * X)
        np.testing.assert_array_equal(kiln.jit(kiln.vmap(p.bind, 1, 1))(X), 2 * X)
    assert seen == [(tuple, (1,))] * 2
    assert batching.primitive_batchers[p] is rule


def test_an_axis_may_be_counted_from_the_end() -> None:
    p = primitive(lambda x: x * 2)
    batching.primitive_batchers[p] = lambda xs, axes: (p.bind(*xs), -1)
    np.testing.assert_array_equal(kiln.vmap(p.bind, 1, 0)(X), 2 * X.T)


def test_a_result_may_be_no_stack() -> None:
    p = primitive(jnp.sum)
    batching.primitive_batchers[p] = lambda xs, axes: (p.bind(*xs), batching.not_mapped)
    assert kiln.vmap(p.bind, out_axes=None)(X) == 15.0
    assert kiln.vmap(p.bind)(X).tolist() == [15.0, 15.0]


def test_rules_that_know_the_axis() -> None:
    p = primitive(lambda x: [x, x + 1], multiple=True)
    seen: list[Any] = []

    def of_axis(axis: Any, xs: Any, axes: Any) -> Any:
        seen.append((axis.size, axis.name))
        return p.bind(*xs), [axes[0]] * 2

    def of_size(size: Any, name: Any, kind: Any, xs: Any, axes: Any) -> Any:
        seen.append((size, name, kind))
        return p.bind(*xs), [axes[0]] * 2

    batching.fancy_primitive_batchers[p] = of_axis
    kiln.vmap(p.bind, axis_name="i")(X)
    batching.axis_primitive_batchers[p] = of_size
    assert len(kiln.vmap(p.bind, axis_name="i")(X)) == 2
    assert seen == [(2, "i"), (2, "i", None)]
    assert batching.axis_primitive_batchers[p] is of_size
    # The other tables show the same rule in their own form.
    assert batching.primitive_batchers[p]((X,), (0,))[1] == [0, 0]
    assert seen[-1] == (2, None, None)


def test_the_tables_show_kilns_own_rules() -> None:
    for found in (
        batching.primitive_batchers[add_p]((X, X), (0, 0)),
        batching.fancy_primitive_batchers[add_p](batching.AxisData(2), (X, X), (0, 0)),
        batching.axis_primitive_batchers[add_p](2, None, None, (X, X), (0, 0)),
    ):
        np.testing.assert_array_equal(found[0], 2 * X)
        assert found[1] == 0
    assert reduce_sum_p in batching.primitive_batchers
    assert Primitive("new") not in batching.primitive_batchers


def test_primitives_that_do_to_a_stack_what_they_do_to_an_array() -> None:
    p = primitive(lambda x: x * 2)
    batching.defvectorized(p)
    np.testing.assert_array_equal(kiln.vmap(p.bind, 1, 1)(X), 2 * X)


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0), (1, 0), (0, 1)])
def test_elementwise_primitives(axes: Any) -> None:
    p = primitive(lambda x, y: x * y)
    batching.defbroadcasting(p)
    x = np.ones((3, 4), np.float32) * 2
    operands = [
        x[0] if a is None else np.moveaxis(x * np.arange(3, dtype=np.float32)[:, None], 0, a)
        for a in axes
    ]
    found = kiln.vmap(p.bind, axes)(*operands)
    np.testing.assert_array_equal(found, kiln.vmap(lambda a, b: a * b, axes)(*operands))


def test_elementwise_primitives_of_a_scalar() -> None:
    p = primitive(lambda x, y: x * y)
    batching.defbroadcasting(p)
    np.testing.assert_array_equal(kiln.vmap(lambda x: p.bind(x, 2.0))(X), 2 * X)


def test_reductions() -> None:
    p = primitive(lambda x, *, axes: jnp.sum(x, axes))
    batching.defreducer(p)
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for axis in range(3):
        found = kiln.vmap(lambda v: p.bind(v, axes=(0,)), axis)(x)
        np.testing.assert_array_equal(found, np.moveaxis(x, axis, 0).sum(1))


def test_moving_and_making_stacks() -> None:
    assert batching.bdim_at_front(X, 1, 3).shape == (3, 2)
    assert batching.bdim_at_front(X, None, 4).shape == (4, 2, 3)
    assert batching.broadcast(X, 4, 1).shape == (2, 4, 3)
    assert batching.moveaxis(X, 1, 0).shape == (3, 2)
