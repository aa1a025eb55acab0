"""What every element-wise operation shares: types, scalars beside arrays, derivatives, batching."""

from __future__ import annotations

import numpy as np
import pytest

from kiln.base.errors import MissingRule
from kiln.core.absent import Zero
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage
from kiln.ir.sizes.size import symbol
from kiln.ir.types import ShapedArray
from kiln.ops.elements import families
from kiln.ops.elements.elementwise import mul, mul_p, sin
from kiln.transforms.batching import MappedAxis, batch
from kiln.transforms.jvp import jvp
from kiln.transforms.reverse import linearize

F32 = np.dtype(np.float32)
half_p = families.Elementwise(
    "half",
    lambda x: x / 2,
    families.FLOAT,
    lambda t, o, x: half(t),
    linear=lambda ct, x: [half(ct)],
)
half = families.unary(half_p)
opaque_p = families.Elementwise("opaque", np.sin, families.FLOAT)


def aval(*shape: object, dtype: object = F32, weak: bool = False) -> ShapedArray:
    return ShapedArray(shape, dtype, weak)  # type: ignore[arg-type]


def test_scalars_stand_beside_arrays() -> None:
    assert mul_p.infer(aval(2, 3), aval()) == aval(2, 3)
    assert mul_p.infer(aval(), aval(2, 3)) == aval(2, 3)
    assert mul_p.infer(aval(), aval()) == aval()


def test_axes_of_size_one_do_not_stretch() -> None:
    with pytest.raises(TypeError, match="incompatible shapes"):
        mul_p.infer(aval(2, 3), aval(1, 3))


def test_named_sizes_are_compared_by_structure() -> None:
    n = symbol("n")
    assert mul_p.infer(aval(n, 3), aval(n, 3)).shape == (n, 3)
    with pytest.raises(TypeError, match="incompatible shapes"):
        mul_p.infer(aval(n), aval(n + 1))


def test_the_result_is_weak_if_all_operands_are() -> None:
    assert mul_p.infer(aval(weak=True), aval(3, weak=True)).weak_type
    assert not mul_p.infer(aval(weak=True), aval(3)).weak_type


def test_a_new_member_is_one_line() -> None:
    x = from_host(np.array([1.0, 3.0], np.float32))
    assert np.asarray(half(x)).tolist() == [0.5, 1.5]
    assert half.__name__ == "half"
    _, (t,) = jvp(lambda x: [half(x)], [x], [x])
    assert np.asarray(t).tolist() == [0.5, 1.5]
    _, linear = linearize(lambda x: [half(x)], [x])
    assert np.asarray(linear.pull([x])[0]).tolist() == [0.5, 1.5]


def test_without_partials_there_is_no_derivative() -> None:
    x = from_host(np.ones(2, np.float32))
    with pytest.raises(MissingRule, match="jvp of 'opaque'"):
        jvp(lambda x: [opaque_p.bind(x)], [x], [x])
    # Nothing moves, so nobody asks.
    _, (t,) = jvp(lambda x: [opaque_p.bind(x)], [x], [Zero(x.aval)])
    assert isinstance(t, Zero)


def test_the_cotangent_of_a_scalar_is_a_sum() -> None:
    x, s = from_host(np.ones((2, 3), np.float32)), from_host(np.float32(2.0) * np.ones(()))
    s = from_host(np.asarray(2.0, np.float32))
    _, linear = linearize(lambda s: [mul(s, x)], [s])
    assert float(np.asarray(linear.pull([x])[0])) == 6.0


def test_equal_axes_are_batched_in_place() -> None:
    n = 4
    x = aval(2, n, 3)
    jaxpr, _ = stage(
        lambda x, y: batch(lambda a, b: [mul(sin(a), b)], MappedAxis(n), [x, y], [1, 1])[0], [x, x]
    )
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["sin", "mul"]


def test_a_mapped_scalar_is_stretched_along_the_array() -> None:
    scalars = from_host(np.array([1.0, 10.0], np.float32))
    x = from_host(np.array([1.0, 2.0, 3.0], np.float32))
    outs, axes = batch(lambda s, x: [mul(s, x)], MappedAxis(2), [scalars, x], [0, None])
    assert axes == [0]
    assert np.asarray(outs[0]).tolist() == [[1, 2, 3], [10, 20, 30]]


def test_python_scalars_are_matched() -> None:
    x = from_host(np.ones(2, np.int8))
    assert families.matched(x, 3)[1].dtype == np.int8
    assert families.matched(2.5, x) == [2.5, x]
    assert families.matched(1, 2.5) == [1.0, 2.5]
    assert families.matched(True, 2) == [1, 2]
