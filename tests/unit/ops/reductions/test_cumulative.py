"""Running reductions against NumPy and the reference library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.ops.elements.elementwise import add
from kiln.ops.reductions import cumulative as ops
from kiln.transforms.jvp import jvp
from kiln.transforms.reverse import linearize

NAMES = ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"]


def gradient(fun: Any, x: Any) -> Any:
    outs, linear = linearize(lambda x: [fun(x)], [x])
    (ct,) = linear.pull([from_host(np.ones(outs[0].shape, outs[0].dtype))])
    return np.asarray(ct)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients(name: str, reverse: bool) -> None:
    jax = pytest.importorskip("jax")
    ours, theirs = getattr(ops, name), getattr(jax.lax, name)
    rng = np.random.default_rng(1)
    # Ties: the derivative of cummax there depends on the order of combination.
    x = rng.integers(-2, 3, (7, 4)).astype("float32")
    value, pull = jax.vjp(jax.jit(lambda x: theirs(x, 0, reverse)), x)
    (wanted,) = pull(np.ones_like(x))
    with override(engine="reference"):
        found = ours(from_host(x), 0, reverse)
        ct = gradient(lambda x: ours(x, 0, reverse), from_host(x))
    np.testing.assert_allclose(found, value, 1e-5, 1e-5)
    np.testing.assert_allclose(ct, wanted, 1e-4, 1e-5)
    with override(engine="xla"):
        np.testing.assert_allclose(ours(from_host(x), 0, reverse), value, 1e-5, 1e-5)


def test_sums_of_nothing_do_not_move() -> None:
    # exp(-inf) is 0: a sum of such terms is 0 wherever they move to. The first is not a sum.
    x = from_host(np.array([-np.inf, -np.inf, 1, -np.inf], "float32"))
    ones = from_host(np.ones(4, "float32"))
    _, (tangent,) = jvp(lambda x: [ops.cumlogsumexp(x)], [x], [ones])
    assert np.asarray(tangent).tolist() == [1, 0, 1, 1]


def test_integers_wrap() -> None:
    x = np.full(5, 100, "int8")
    np.testing.assert_array_equal(ops.cumsum(from_host(x)), np.cumsum(x, dtype="int8"))


@pytest.mark.parametrize("engine", ["reference", "xla"])
def test_narrow_floats_accumulate_in_32_bits(engine: str) -> None:
    with override(engine=engine):
        out = ops.cumsum(from_host(np.full(5000, 1, "float16")))
    assert np.asarray(out)[-1] == 5000


def test_errors() -> None:
    x = from_host(np.ones(3, "float32"))
    with pytest.raises(ValueError, match="axis 1 is out of bounds"):
        ops.cumsum(x, 1)
    with pytest.raises(TypeError, match="does not accept dtype bool"):
        ops.cummax(from_host(np.ones(3, "bool")))
    with pytest.raises(TypeError, match="does not accept dtype int32"):
        ops.cumlogsumexp(from_host(np.ones(3, "int32")))


@pytest.mark.parametrize("size", range(9))
def test_prefixes_combine_with_all_before(size: int) -> None:
    x = np.arange(2.0 * size, dtype="float32").reshape(2, size)
    (out,) = ops.prefixes(lambda a, b: [add(a[0], b[0])], [from_host(x)], 1)
    np.testing.assert_array_equal(out, np.cumsum(x, 1))
