"""Operands become operands of a primitive: literals, one dtype, explicit broadcasts, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.numpy import promotion


def text(fun: Any, *args: Any) -> str:
    return " ".join(str(kiln.make_jaxpr(fun)(*args)).replace("; ", " ").split())


F = np.ones(3, np.float32)
I = np.ones(3, np.int32)
B = np.ones(3, bool)


@pytest.mark.parametrize(
    ("fun", "args", "eqns"),
    [
        (lambda x: 2 * x, (F,), "b:f32[3] = mul 2.0 a"),
        (lambda x: x + 1, (I,), "b:i32[3] = add a 1"),
        (lambda x: x**2, (F,), "b:f32[3] = integer_pow[y=2] a"),
        (lambda x: x**3, (F,), "b:f32[3] = integer_pow[y=3] a"),
        (lambda x: x**0.5, (F,), "b:f32[3] = pow a 0.5"),
        (jnp.add, (F, F), "c:f32[3] = add a b"),
        (jnp.add, (B, B), "c:bool[3] = or a b"),
        (lambda x: x + np.int32(3), (F,), "b:f32[3] = add a 3.0"),
        (lambda x: x + np.float64(3), (F,), "b:f32[3] = add a 3.0"),
        (
            lambda x: x + 2.0,
            (I,),
            (
                "b:f32[3] = convert_element_type[new_dtype=float32 weak_type=True] a "
                "c:f32[3] = add b 2.0"
            ),
        ),
        (
            jnp.add,
            (I, F),
            (
                "c:f32[3] = convert_element_type[new_dtype=float32 weak_type=False] a "
                "d:f32[3] = add c b"
            ),
        ),
        (lambda c, x: jnp.where(c, x, 0), (B, F), "c:f32[3] = select_n a 0.0 b"),
        (lambda: jnp.log(2.0), (), "a:f32[] = log 2.0"),
        (lambda x: jnp.clip(x, 0, 1), (F,), "b:f32[3] = max 0.0 a c:f32[3] = min 1.0 b"),
        (lambda x: jnp.mean(x), (F,), "b:f32[] = reduce_sum[axes=(0,)] a c:f32[] = div b 3.0"),
    ],
)
def test_program(fun: Any, args: Any, eqns: str) -> None:
    found = text(fun, *args)
    assert found.split(" let ")[1].split(" in ")[0].strip() == eqns


def test_shapes_are_broadcast_explicitly() -> None:
    found = text(jnp.add, np.ones((2, 3), np.float32), F)
    assert "c:f32[2,3] = broadcast_in_dim[broadcast_dimensions=(1,) shape=(2, 3)] b" in found
    assert "d:f32[2,3] = add a c" in found
    assert "broadcast" not in text(jnp.add, np.ones((2, 3), np.float32), np.float32(1))


def test_a_scalar_stays_a_scalar() -> None:
    assert promotion.binary("add", jnp.ones(3), 2.0)[1] == np.float32(2)
    assert type(promotion.binary("add", jnp.asarray(1.0), 2)[1]) is float
    assert promotion.binary("add", jnp.ones(3, "uint8"), 300)[1] == 44


@pytest.mark.parametrize("wrong", [[1], (1,), None, "a", {}, object()])
def test_what_is_no_array_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"add requires ndarray or scalar arguments, got <class"):
        jnp.add(wrong, 2)
    with pytest.raises(TypeError, match=r"at position 1\."):
        jnp.add(jnp.ones(2), wrong)
    with pytest.raises(TypeError, match="sin requires ndarray or scalar"):
        jnp.sin(wrong)


def test_numpy_strings_are_refused() -> None:
    with pytest.raises(TypeError, match="add requires"):
        jnp.add(np.array(["a"]), 1)


def test_incompatible_shapes() -> None:
    expected = r"add got incompatible shapes for broadcasting: \(3,\), \(4,\)"
    with pytest.raises(TypeError, match=expected):
        jnp.add(jnp.ones(3), jnp.ones(4))
    with pytest.raises(TypeError, match=expected):
        kiln.jit(jnp.add)(jnp.ones(3), jnp.ones(4))


def test_int_outside_int32() -> None:
    with pytest.raises(OverflowError, match="int32"):
        jnp.arange(3) + 2**40


def test_rank_promotion_option() -> None:
    x, y = jnp.ones((2, 3)), jnp.ones(3)
    with kiln.numpy_rank_promotion("raise"):
        with pytest.raises(ValueError, match="add on shapes"):
            x + y
        assert (x + 1).shape == (2, 3)
        assert (x + jnp.ones((1, 3))).shape == (2, 3)
    with kiln.numpy_rank_promotion("warn"), pytest.warns(UserWarning, match="rank_promotion"):
        x + y


def test_strict_dtype_promotion() -> None:
    with kiln.numpy_dtype_promotion("strict"):
        assert (jnp.ones(3) + 1).dtype == np.float32
        with pytest.raises(TypeError, match="strict"):
            jnp.ones(3) + jnp.arange(3)


def test_x64() -> None:
    with kiln.enable_x64(True):
        assert (jnp.ones(3, "float32") + 1.5).dtype == np.float32
        assert jnp.asarray(1.5).dtype == np.float64
        assert (jnp.arange(3) / 2).dtype == np.float64
        assert jnp.sum(jnp.ones(3, "int8")).dtype == np.int64
