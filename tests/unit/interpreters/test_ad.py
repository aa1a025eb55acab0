"""The tables of derivative rules, and the ways to fill them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.core import ShapedArray
from kiln.errors import MissingRule
from kiln.extend.core import Primitive
from kiln.interpreters import ad, mlir
from kiln.lax import neg_p, sin, sin_p
from tests.unit.interpreters.outside import ENGINES, scaled_product

VECTOR = ShapedArray((2,), np.dtype(np.float32))


def primitive(fun: Any, name: str = "p") -> Primitive:
    p = Primitive(name)
    p.def_impl(fun)
    p.def_abstract_eval(lambda x, *others: ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(p, mlir.lower_fun(fun, multiple_results=False))
    return p


@pytest.mark.parametrize("engine", ENGINES)
def test_rules_for_each_operand(engine: str) -> None:
    product = primitive(lambda x, y: x * y)
    with override(engine=engine):
        ad.defjvp(product, lambda t, x, y: t * 5.0, None)
        assert kiln.jit(kiln.grad(product.bind, (0, 1)))(2.0, 3.0) == (5.0, 0.0)
        ad.defjvp2(product, lambda t, out, x, y: t * out, lambda t, out, x, y: t * 100)
        assert kiln.grad(product.bind, (0, 1))(2.0, 3.0) == (6.0, 100.0)


def test_no_operand_moves() -> None:
    product = primitive(lambda x, y: x * y)
    ad.defjvp(product, None, lambda t, x, y: t)
    assert kiln.grad(product.bind)(2.0, 3.0) == 0.0


@pytest.mark.parametrize("engine", ENGINES)
def test_linear_primitives(engine: str) -> None:
    half = primitive(lambda x: x / 2)
    with override(engine=engine):
        ad.deflinear(half, lambda ct: [ct * 3])
        assert kiln.grad(half.bind)(1.0) == 3.0
        ad.deflinear2(half, lambda ct, x: [ct * x.aval.size])
        found = kiln.jit(kiln.grad(lambda x: jnp.sum(half.bind(x))))(jnp.ones(2))
        assert found.tolist() == [2.0, 2.0]
        assert kiln.jvp(half.bind, (4.0,), (6.0,)) == (2.0, 3.0)


def test_bilinear_primitives() -> None:
    product = primitive(lambda x, y: x * y)
    ad.defbilinear(product, lambda ct, x, y: ct * y * 7, lambda ct, x, y: ct * x * 9)
    assert kiln.grad(product.bind, (0, 1))(2.0, 3.0) == (21.0, 18.0)
    assert kiln.jvp(product.bind, (2.0, 3.0), (1.0, 1.0)) == (6.0, 5.0)


def test_a_rule_may_return_none_or_zero() -> None:
    p = primitive(lambda x: x)
    ad.primitive_jvps[p] = lambda primals, tangents: (p.bind(*primals), p.bind(*tangents))
    for nothing in (lambda ct, x: [None], lambda ct, x: ad.Zero, lambda ct, x: [ad.Zero(x.aval)]):
        ad.primitive_transposes[p] = nothing
        assert kiln.grad(p.bind)(1.0) == 0.0


def test_the_tangent_of_an_integer_is_nothing() -> None:
    p = primitive(lambda x, n: x * n)
    seen: list[Any] = []

    def jvp(primals: Any, tangents: Any) -> Any:
        seen.append(tangents[1])
        return p.bind(*primals), p.bind(tangents[0], primals[1])

    ad.primitive_jvps[p] = jvp
    p.def_abstract_eval(lambda x, n: x)
    assert kiln.jvp(lambda x: p.bind(x, 3), (2.0,), (1.0,)) == (6.0, 3.0)
    assert type(seen[0]) is ad.Zero
    assert seen[0].aval.dtype == kiln.dtypes.float0


def test_wrong_numbers_of_cotangents_are_refused() -> None:
    p = primitive(lambda x: x)
    ad.deflinear2(p, lambda ct, x: [ct, ct])
    with pytest.raises(TypeError, match="2 cotangents for 1 operands") as caught:
        kiln.grad(p.bind)(1.0)
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("use", "table"),
    [
        (lambda p: kiln.jvp(p.bind, (1.0,), (1.0,)), "primitive_jvps"),
        (lambda p: kiln.linear_transpose(p.bind, 1.0)(1.0), "primitive_transposes"),
        (lambda p: kiln.vmap(p.bind)(jnp.ones(2)), "primitive_batchers"),
    ],
)
def test_a_missing_rule_says_where_to_put_it(use: Any, table: str) -> None:
    with pytest.raises(MissingRule, match=table) as caught:
        use(primitive(lambda x: x, "bare"))
    assert "'bare'" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 3


def test_the_tables_show_kilns_own_rules() -> None:
    out, tangent = ad.primitive_jvps[sin_p]((0.0,), (2.0,))
    assert (float(out), float(tangent)) == (0.0, 2.0)
    assert ad.primitive_transposes[neg_p](3.0, ad.UndefinedPrimal(VECTOR))[0] == -3.0
    assert ad.get_primitive_transpose(neg_p) is not None
    assert sin_p in ad.primitive_jvps
    assert sin_p not in ad.primitive_transposes
    with pytest.raises(KeyError):
        ad.primitive_transposes[sin_p]
    with pytest.raises(MissingRule, match="it is not linear"):
        ad.get_primitive_transpose(sin_p)


def test_the_tables_are_mappings() -> None:
    p = scaled_product("listed")
    rule = ad.primitive_jvps[p]
    assert p in set(ad.primitive_jvps)
    assert len(ad.primitive_jvps) > 100
    assert ad.primitive_jvps.get(p) is rule
    del ad.primitive_jvps[p]
    assert p not in ad.primitive_jvps
    assert ad.primitive_jvps.get(p, 1) == 1
    with pytest.raises(KeyError):
        del ad.primitive_jvps[p]
    assert "not a primitive" not in ad.primitive_jvps
    assert "jvp" in repr(ad.primitive_jvps)


def test_a_rule_of_kilns_own_can_be_replaced_and_restored() -> None:
    ad.primitive_jvps[sin_p] = lambda primals, tangents: (sin(*primals), tangents[0] * 7)
    try:
        assert kiln.grad(lambda x: kiln.lax.sin(x))(0.5) == 7.0
    finally:
        del ad.primitive_jvps[sin_p]
    np.testing.assert_allclose(kiln.grad(lambda x: kiln.lax.sin(x))(0.5), np.cos(0.5), 1e-6)


def test_tangents_and_their_sums() -> None:
    zero, one = ad.Zero(VECTOR), jnp.ones(2)
    assert ad.instantiate_zeros(zero).tolist() == [0.0, 0.0]
    assert ad.instantiate_zeros(one) is one
    assert ad.add_tangents(zero, one) is one
    assert ad.add_tangents(one, zero) is one
    assert ad.add_tangents(one, one).tolist() == [2.0, 2.0]
    assert ad.zeros_like_aval(VECTOR).shape == (2,)
    assert ad.is_undefined_primal(ad.UndefinedPrimal(VECTOR))
    assert not ad.is_undefined_primal(one)


def test_forward_mode_of_flat_functions() -> None:
    outs, moved = ad.jvp(
        lambda x, y: [x * y, x], (2.0, 3.0), (1.0, ad.Zero(VECTOR.update(shape=())))
    )
    assert list(map(float, outs)) == [6.0, 2.0]
    assert list(map(float, moved)) == [3.0, 1.0]
    _, moved = ad.jvp(lambda x: [x, 1.0], (2.0,), (1.0,), instantiate=False)
    assert type(moved[1]) is ad.Zero
