"""Dense, DenseGeneral and Einsum refuse what they cannot contract, and take what is injected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, linen
from kiln.linen.metadata import Partitioned
from tests.unit.linen.refusals import inside, refusal

X = np.ones((2, 3, 4), np.float32)
KEY = kiln.random.key(0)


def shapes(module: Any, *inputs: Any) -> Any:
    variables = kiln.eval_shape(lambda: module.init(KEY, *inputs))
    return kiln.tree.map(lambda x: x.shape, variables)["params"]


def test_init_is_the_same_under_jit() -> None:
    module = linen.DenseGeneral((5, 2), axis=(0, 2))
    eager, jitted = module.init(KEY, X), kiln.jit(module.init)(KEY, X)
    assert kiln.tree.structure(eager) == kiln.tree.structure(jitted)
    for x, y in zip(kiln.tree.leaves(eager), kiln.tree.leaves(jitted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_names_and_shapes() -> None:
    assert shapes(linen.Dense(5), X) == {"kernel": (4, 5), "bias": (5,)}
    assert shapes(linen.DenseGeneral((5, 6), (2, 1), (0,)), X) == {
        "kernel": (2, 3, 4, 5, 6),
        "bias": (2, 5, 6),
    }
    assert shapes(linen.Einsum((4, 5), "bij,jk->bki"), X) == {"kernel": (4, 5), "bias": (5,)}


def test_a_number_has_no_axis_of_features() -> None:
    text = refusal(inside(lambda: linen.Dense(5)), np.float32(1))
    assert "Dense at /Dense_0" in text
    assert "out of range for 0 axes" in text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"axis": 3}, "axis 3 is out of range for 3 axes"),
        ({"axis": (-4,)}, "is out of range for 3 axes"),
        ({"batch_dims": (1,)}, "must be consecutive leading dimensions starting from 0."),
        ({"batch_dims": (-1,)}, "must be consecutive leading dimensions starting from 0."),
    ],
)
def test_axes_that_are_not_there(options: Any, text: str) -> None:
    assert text in refusal(inside(lambda: linen.DenseGeneral(5, **options)), X)


def test_an_axis_is_contracted_or_batched() -> None:
    module = inside(lambda: linen.DenseGeneral(5, axis=0, batch_dims=(0,)))
    assert "both contracted and a batch axis" in refusal(module, X, error=TypeError)


@pytest.mark.parametrize(
    ("equation", "text"),
    [
        ("bij,jk", 'must be explicit and include "->"'),
        ("bij,jk,kl->bil", "must have exactly two operands"),
        ("bij,jk->bikk", "einsum_str='bij,jk->bikk'"),
    ],
)
def test_equations(equation: str, text: str) -> None:
    assert text in refusal(inside(lambda: linen.Einsum((4, 5), equation)), X)


def test_the_equation_is_given_once() -> None:
    with pytest.raises(ValueError, match="constructor or at call time"):
        linen.Einsum((4, 5)).init(KEY, X)
    with pytest.raises(ValueError, match="Should be passed just once"):
        linen.Einsum((4, 5), "bij,jk->bik").init(KEY, X, "bij,jk->bik")


def test_a_product_of_ones_own() -> None:
    calls = []

    def product(*args: Any, **options: Any) -> Any:
        calls.append(options)
        return lax.dot_general(*args, **options)

    for module in (
        linen.Dense(5, dot_general=product, precision="highest"),
        linen.DenseGeneral(5, dot_general=product, precision="highest"),
        linen.Dense(5, dot_general_cls=lambda: product, precision="highest"),
    ):
        module.init(KEY, X)
    assert calls == [{"precision": "highest"}] * 3


def test_kernels_keep_their_boxes() -> None:
    init = linen.with_partitioning(linen.initializers.lecun_normal(), ("in", "out"))
    kernel = linen.DenseGeneral((5,), kernel_init=init).init(KEY, X)["params"]["kernel"]
    assert isinstance(kernel, Partitioned)
    assert kernel.unbox().shape == (4, 5)
    out = linen.DenseGeneral((5,), kernel_init=init).init_with_output(KEY, X)[0]
    assert out.shape == (2, 3, 5)


def test_types() -> None:
    variables = linen.Dense(5, param_dtype=jnp.bfloat16).init(KEY, X)
    assert variables["params"]["kernel"].dtype == jnp.bfloat16
    assert linen.Dense(5, dtype=jnp.bfloat16).init_with_output(KEY, X)[0].dtype == jnp.bfloat16
    with pytest.raises(ValueError, match="Dtype must be inexact"):
        linen.Dense(5, dtype=jnp.int32).init(KEY, X)


def test_one_batch_axis_may_be_a_number() -> None:
    assert shapes(linen.DenseGeneral(5, batch_dims=0), X) == shapes(
        linen.DenseGeneral(5, batch_dims=(0,)), X
    )
