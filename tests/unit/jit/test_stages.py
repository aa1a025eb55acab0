"""Ahead of time: trace, lower, compile, call."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln import lax, stages
from kiln.jit.struct import ShapeDtypeStruct


def double(x, y):
    return {"out": lax.mul(x, 2.0)}


X = np.ones(3, np.float32)


def test_the_types_are_public() -> None:
    f = kiln.jit(double)
    traced = f.trace(X, 1.0)
    assert isinstance(f, stages.Wrapped)
    assert isinstance(traced, stages.Traced)
    assert isinstance(traced.lower(), stages.Lowered)
    assert isinstance(traced.lower().compile(), stages.Compiled)


def test_traced() -> None:
    traced = kiln.jit(double).trace(ShapeDtypeStruct((3,), "float32"), 1.0)
    assert traced.fun_name == "double"
    assert str(traced.jaxpr) == ("{ lambda ; a:f32[3] b:f32[]. let c:f32[3] = mul a 2.0 in (c,) }")
    assert traced.out_info == {"out": ShapeDtypeStruct((3,), "float32")}


def test_text() -> None:
    lowered = kiln.jit(double).lower(X, 1.0)
    assert "stablehlo.multiply" in lowered.as_text()
    assert "double" in lowered.as_text()
    assert "mul" in lowered.as_text("jaxpr")
    with pytest.raises(ValueError, match="no such dialect"):
        lowered.as_text("no such")
    assert "multiply" in lowered.compile().as_text()


def test_compiled_checks_its_arguments() -> None:
    compiled = kiln.jit(double).lower(X, 1.0).compile()
    np.testing.assert_array_equal(compiled(X, 1.0)["out"], [2, 2, 2])
    np.testing.assert_array_equal(compiled(X.astype(np.float64), 1.0)["out"], [2, 2, 2])
    with pytest.raises(
        TypeError, match=r"x compiled with float32\[3\] and called with float32\[4\]"
    ):
        compiled(np.ones(4, np.float32), 1.0)
    with pytest.raises(TypeError, match="pytree"):
        compiled((X, 1.0))
    with pytest.raises(TypeError, match="transform"):
        kiln.vmap(compiled, in_axes=(0, None))(np.ones((2, 3), np.float32), 1.0)


def test_shape_of_a_struct() -> None:
    struct = ShapeDtypeStruct((2, 3), np.float32)
    assert (struct.ndim, struct.size, len(struct)) == (2, 6, 2)
    assert struct == ShapeDtypeStruct([2, 3], "float32")
    assert hash(struct) == hash(ShapeDtypeStruct((2, 3), "float32"))
    assert repr(struct) == "ShapeDtypeStruct(shape=(2, 3), dtype=float32)"
    with pytest.raises(ValueError, match="dtype"):
        ShapeDtypeStruct((2,), None)
