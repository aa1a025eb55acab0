"""Plans: which steps a program becomes, and what their results share."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln import random
from kiln._runtime import Plan
from kiln.core.arrays.array import from_host, host_value
from kiln.core.engines.engine import make_plan
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.ops import shape
from kiln.ops.elements import elementwise
from kiln.ops.indexing.static_slicing import index_in_dim
from kiln.ops.linear.convolution import conv_general_dilated
from kiln.ops.reductions.reduction import reduce_max
from kiln.ops.reductions.sorting import sort


def planned(fun: Any, *operands: Any) -> Plan | None:
    return make_plan(stage_pure(fun, [aval_of(x) for x in operands]), list)


X = from_host(np.arange(12, dtype=np.float32).reshape(3, 4))
BIG = from_host(np.arange(1 << 16, dtype=np.float32).reshape(256, 256))


def test_operations_on_axes_are_no_steps() -> None:
    def turned(x: Any) -> list[Any]:
        y = shape.reshape(shape.transpose(shape.rev(x, (0,)), (1, 0)), (4, 3, 1))
        return [elementwise.add(shape.squeeze(y, (2,)), shape.transpose(x, (1, 0)))]

    plan = planned(turned, X)
    # Turned, the elements do not follow each other, so the reshape copies: by its meaning.
    assert plan is not None and plan.steps == 2 and plan.loops == 1
    want = np.asarray(X)[::-1].T + np.asarray(X).T
    np.testing.assert_array_equal(np.asarray(plan(X)[0]), want)


def test_constants_are_computed_once() -> None:
    plan = planned(
        lambda x: [
            elementwise.mul(x, elementwise.exp(shape.full((3, 4), 1.0, np.dtype(np.float32))))
        ],
        X,
    )
    assert plan is not None and plan.steps == 1


def test_a_reduction_is_two_loops() -> None:
    plan = planned(lambda x: [reduce_max(x, (0,))], X)
    assert plan is not None and (plan.steps, plan.loops) == (2, 2)
    assert np.asarray(plan(X)[0]).tolist() == [8, 9, 10, 11]


def test_what_has_no_loop_is_called() -> None:
    plan = planned(lambda x: [sort(x)], X)
    assert plan is not None and (plan.steps, plan.loops) == (1, 0)
    np.testing.assert_array_equal(np.asarray(plan(X)[0]), np.asarray(X))


def test_what_is_compiled_has_no_plan() -> None:
    x = from_host(np.ones((1, 1, 8), np.float32))
    assert planned(lambda x: [conv_general_dilated(x, x, (1,), "SAME")], x) is None


def test_an_input_is_returned_as_it_is() -> None:
    plan = planned(lambda x: [x, x, elementwise.neg(x)], X)
    assert plan is not None
    found = plan(X)
    assert found[0] is X and found[1] is X and found[2] is not X


def test_large_results_share_memory_or_have_no_plan() -> None:
    plan = planned(lambda x: [shape.reshape(x, (1 << 16,))], BIG)
    assert plan is not None
    (flat,) = plan(BIG)
    assert np.shares_memory(host_value(flat), host_value(BIG))
    assert not host_value(flat).flags.writeable
    assert planned(lambda x: [shape.transpose(x, (1, 0))], BIG) is None
    small = planned(lambda x: [shape.reshape(x, (12,))], X)
    assert small is not None
    assert not np.shares_memory(host_value(small(X)[0]), host_value(X))


def test_large_programs_let_other_threads_run_and_are_right() -> None:
    plan = planned(
        lambda x: [elementwise.add(elementwise.mul(x, x), shape.transpose(x, (1, 0)))], BIG
    )
    assert plan is not None and plan.loops == 2
    value = np.asarray(BIG)
    np.testing.assert_array_equal(np.asarray(plan(BIG)[0]), value * value + value.T)


def test_keys_of_two_words_are_planned() -> None:
    keys = random.split(random.key(3), 4)
    plan = planned(lambda ks: [index_in_dim(ks, 1, 0), elementwise.eq(ks, ks)], keys)
    assert plan is not None
    one, same = plan(keys)
    assert one.dtype == keys.dtype and bool(one[0] == keys[1]) and np.asarray(same).all()


def test_keys_of_four_words_are_not() -> None:
    """They are held as complex numbers: equal bits may be nan."""
    keys = random.wrap_key_data(np.full((3, 4), 0xFFFFFFFF, np.uint32), impl="rbg")
    assert planned(lambda ks: [elementwise.eq(ks, ks)], keys) is None
    assert np.asarray([keys == keys for _ in range(3)]).all()
