"""The operations of products and convolutions, and of their derivatives, as they are defined."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax

LAST = ("NHWC", "HWIO", "NHWC")


def flops(fun: Callable[..., Any], *args: Any) -> float:
    found = kiln.jit(fun).lower(*args).compile().cost_analysis()
    assert found is not None
    return float(found["flops"])


def with_derivatives(fun: Callable[..., Any], x: Any, y: Any) -> list[float]:
    """Return the operations of a bilinear function, and of its derivatives by x and by y."""
    out = kiln.eval_shape(fun, x, y)
    result = jnp.ones(out.shape, out.dtype)
    return [
        flops(fun, x, y),
        flops(lambda y, r: kiln.linear_transpose(lambda x: fun(x, y), x)(r), y, result),
        flops(lambda x, r: kiln.linear_transpose(lambda y: fun(x, y), y)(r), x, result),
    ]


def defined(x: Sequence[int], w: Sequence[int], out: Any, params: Any) -> int:
    """Count the products of a convolution by its definition, tap by tap."""
    lhs, rhs, result = params["dimension_numbers"]
    found = 2 * out[result[0]] * out[result[1]] * w[rhs[1]]
    for i, (low, _) in enumerate(params["padding"]):
        at = [
            place * params["window_strides"][i] + tap * params["rhs_dilation"][i] - low
            for place, tap in itertools.product(range(out[result[2 + i]]), range(w[rhs[2 + i]]))
        ]
        holes = params["lhs_dilation"][i]
        found *= sum(0 <= p < x[lhs[2 + i]] * holes and p % holes == 0 for p in at)
    return int(found)


CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 16, 16), (8, 3, 3, 3), {}),
    ((2, 5, 40), (7, 5, 3), {"window_strides": (1,)}),
    ((2, 3, 6, 5, 4), (4, 3, 3, 2, 3), {"window_strides": (1, 1, 1)}),
    ((2, 20, 20, 16), (3, 3, 16, 32), {"dimension_numbers": LAST}),
    ((2, 20, 20, 16), (1, 1, 16, 32), {"dimension_numbers": LAST}),
    ((2, 20, 20, 16), (3, 3, 16, 32), {"dimension_numbers": LAST, "window_strides": (2, 2)}),
    ((2, 9, 8, 4), (3, 2, 4, 8), {"dimension_numbers": LAST, "rhs_dilation": (2, 3)}),
    # Transposed: most taps meet holes.
    ((2, 4, 9, 8), (6, 4, 3, 3), {"lhs_dilation": (2, 2), "padding": ((1, 2), (1, 2))}),
    ((2, 16, 10, 10), (32, 4, 3, 3), {"feature_group_count": 4, "window_strides": (2, 1)}),
    ((4, 6, 10, 10), (8, 6, 3, 3), {"batch_group_count": 2}),
]


@pytest.mark.parametrize(("x", "w", "given"), CONVOLUTIONS)
def test_convolutions(x: tuple[int, ...], w: tuple[int, ...], given: dict[str, Any]) -> None:
    settings = {"window_strides": (1, 1), "padding": "SAME", **given}

    def fun(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, **settings)

    operands = jnp.ones(x), jnp.ones(w)
    (eqn,) = kiln.make_jaxpr(fun)(*operands).jaxpr.eqns
    expected = defined(x, w, kiln.eval_shape(fun, *operands).shape, eqn.params)
    # A derivative moves each product to another sum: there are as many.
    assert flops(fun, *operands) == expected
    assert with_derivatives(fun, *operands) == [expected] * 3


@pytest.mark.parametrize("spec", [None, LAST])
def test_depthwise_convolutions(spec: Any) -> None:
    x, w = ((2, 9, 9, 16), (3, 3, 1, 16)) if spec else ((2, 16, 9, 9), (16, 1, 3, 3))

    def fun(padding: str) -> Callable[..., Any]:
        return lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), padding, feature_group_count=16, dimension_numbers=spec
        )

    # They are nests: a sum of 9 products has 8 additions.
    elements = 2 * 16 * 7 * 7
    valid, _, by_kernel = with_derivatives(fun("VALID"), jnp.ones(x), jnp.ones(w))
    assert valid == 17 * elements
    assert by_kernel == 18 * elements
    # Nests compute with the padding too, and their additions are fused or not.
    same, by_operand, _ = with_derivatives(fun("SAME"), jnp.ones(x), jnp.ones(w))
    products = 2 * 16 * 9 * 9 * 9
    assert 17 / 9 * products <= same <= 2 * products
    assert 17 / 9 * products <= by_operand <= 2 * products


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_convolutions_of_other_types(dtype: str) -> None:
    with kiln.enable_x64(True):
        x, w = jnp.ones((1, 2, 8), dtype), jnp.ones((4, 2, 3), dtype)
        assert flops(lambda x, w: lax.conv(x, w, (1,), "VALID"), x, w) == 2 * 4 * 6 * 2 * 3


def test_named_sizes() -> None:
    made = kiln.jit(
        lambda x, w: lax.conv(x, w, (1,), "VALID"), abstracted_axes=({0: "n"}, {})
    ).lower(jnp.ones((3, 2, 8)), jnp.ones((4, 2, 3)))
    costs = made.cost_analysis()
    assert costs is not None
    assert costs["flops"] == 3 * 2 * 4 * 6 * 2 * 3


M = (((1,), (0,)), ((), ()))
PRODUCTS = [
    ((3, 3), (3, 3), M),
    ((64, 64), (64, 64), M),
    ((1, 256), (256, 300), M),
    ((5, 20, 30), (5, 30, 40), (((2,), (1,)), ((0,), (0,)))),
    ((20, 5, 30), (30, 5, 40), (((2,), (0,)), ((1,), (1,)))),
]


@pytest.mark.parametrize(("x", "y", "axes"), PRODUCTS)
def test_products(x: tuple[int, ...], y: tuple[int, ...], axes: Any) -> None:
    def fun(x: Any, y: Any) -> Any:
        return lax.dot_general(x, y, axes)

    operands = jnp.ones(x), jnp.ones(y)
    terms = math.prod(x[axis] for axis in axes[0][0])
    expected = 2 * terms * math.prod(kiln.eval_shape(fun, *operands).shape)
    found = with_derivatives(fun, *operands)
    # A sum of one term has no addition.
    assert found == [expected] * 3 if 1 not in x else found[:2] == [expected] * 2


@pytest.mark.parametrize(("dtype", "each"), [("float16", 2), ("int8", 2), ("complex64", 8)])
@pytest.mark.parametrize("size", [3, 64])
def test_products_of_other_types(dtype: str, each: int, size: int) -> None:
    x = jnp.ones((size, size), dtype)
    assert flops(lambda x, y: x @ y, x, x) == each * size**3


def test_products_with_epilogues_and_in_loops() -> None:
    x = jnp.ones((64, 64))

    def step(c: Any, _: Any) -> Any:
        return jnp.tanh(c @ x), None

    assert flops(lambda x: jnp.tanh(x @ x + 1), x) == 2 * 64**3 + 2 * 64**2
    assert flops(lambda c: lax.scan(step, c, None, length=10)[0], x) == 10 * (2 * 64**3 + 64**2)
