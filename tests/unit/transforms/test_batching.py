"""Batching: the same program on a stack of operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.base.errors import UnexpectedTracerError
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage_pure
from kiln.core.trace import axis_size_of
from kiln.ir.sizes.size import symbol
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import add, mul, sin
from kiln.ops.shape import reduce_sum
from kiln.transforms.batching import MappedAxis, batch, batch_jaxpr
from kiln.transforms.jvp import jvp

F32 = np.dtype(np.float32)
STACK = from_host(np.arange(6, dtype=np.float32).reshape(2, 3))


def test_each_example_is_computed() -> None:
    (out,), (at,) = batch(lambda x: [reduce_sum(sin(x), (0,))], MappedAxis(2), [STACK], [0])
    assert at == 0
    np.testing.assert_allclose(np.asarray(out), np.sin(np.asarray(STACK)).sum(1), 1e-6)


def test_the_function_sees_one_example() -> None:
    seen: list[Any] = []

    def fun(x: Any, y: Any) -> list[Any]:
        seen.append((x.shape, y.shape, str(x)))
        return [x]

    batch(fun, MappedAxis(3), [STACK, STACK], [1, None])
    assert seen[0][:2] == ((2,), (2, 3))
    assert "BatchTrace" in seen[0][2]


def test_what_is_not_mapped_stays_so() -> None:
    outs, at = batch(lambda x, y: [add(y, y), x, 3.0], MappedAxis(2), [STACK, STACK], [0, None])
    assert at == [None, 0, None]
    assert outs[1] is STACK
    assert outs[2] == 3.0


def test_operands_mapped_at_different_axes() -> None:
    x = np.asarray(STACK)
    (out,), (at,) = batch(
        lambda a, b: [mul(a, b)], MappedAxis(2), [STACK, from_host(x.T.copy())], [0, 1]
    )
    found = np.moveaxis(np.asarray(out), at or 0, 0)
    np.testing.assert_array_equal(found, x * x)


def test_nested_axes() -> None:
    def outer(row: Any) -> list[Any]:
        outs, _ = batch(lambda x: [mul(x, reduce_sum(row, (0,)))], MappedAxis(3), [row], [0])
        return outs

    (out,), _ = batch(outer, MappedAxis(2), [STACK], [0])
    x = np.asarray(STACK)
    np.testing.assert_allclose(np.asarray(out), x * x.sum(1, keepdims=True))


def test_batching_goes_through_derivatives() -> None:
    def slope(x: Any) -> list[Any]:
        return jvp(lambda y: [mul(y, y)], [x], [x])[1]

    (out,), _ = batch(slope, MappedAxis(2), [STACK], [0])
    np.testing.assert_allclose(np.asarray(out), 2 * np.asarray(STACK) ** 2)


def test_a_named_axis_is_known_inside_only() -> None:
    sizes: list[Any] = []
    batch(lambda x: sizes.append(axis_size_of("i")) or [x], MappedAxis(2, "i"), [STACK], [0])
    assert sizes == [2]
    with pytest.raises(NameError):
        axis_size_of("i")


def test_the_trace_ends_with_the_function() -> None:
    kept: list[Any] = []
    batch(lambda x: kept.append(x) or [x], MappedAxis(2), [STACK], [0])
    with pytest.raises(UnexpectedTracerError):
        sin(kept[0])


def test_programs_over_stacks() -> None:
    row = ShapedArray((3,), F32)
    jaxpr = stage_pure(lambda x, y: [mul(x, y), sin(y)], [row, row])
    stacked, mapped = batch_jaxpr(jaxpr, MappedAxis(2), [1, None])
    assert mapped == [True, False]
    assert [v.aval.shape for v in stacked.invars] == [(3, 2), (3,)]
    assert [v.shape for v in stacked.out_avals] == [(2, 3), (3,)]
    assert batch_jaxpr(jaxpr, MappedAxis(2), [1, None])[0] is stacked
    forced, mapped = batch_jaxpr(jaxpr, MappedAxis(2), [1, None], force=True)
    assert mapped == [True, True]
    assert forced.out_avals[1].shape == (2, 3)


def test_the_mapped_axis_may_be_named_size() -> None:
    n = symbol("n")
    jaxpr = stage_pure(lambda x, y: [mul(x, y)], [ShapedArray((3,), F32), ShapedArray((), F32)])
    stacked, _ = batch_jaxpr(jaxpr, MappedAxis(n), [0, 0])
    assert stacked.out_avals[0].shape == (n, 3)
