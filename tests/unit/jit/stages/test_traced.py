"""Ahead of time: trace, lower, compile, call."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln import lax, stages
from kiln.jit.signatures.struct import ShapeDtypeStruct


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
    with pytest.raises(ValueError, match="unknown dialect"):
        lowered.as_text("no such")
    assert "mul" in lowered.compile().as_text()
    assert "fmul" in lowered.compile().as_text("llvm")


def test_shape_of_a_struct() -> None:
    struct = ShapeDtypeStruct((2, 3), np.float32)
    assert (struct.ndim, struct.size, len(struct)) == (2, 6, 2)
    assert struct == ShapeDtypeStruct([2, 3], "float32")
    assert hash(struct) == hash(ShapeDtypeStruct((2, 3), "float32"))
    assert repr(struct) == "ShapeDtypeStruct(shape=(2, 3), dtype=float32)"
    with pytest.raises(ValueError, match="dtype"):
        ShapeDtypeStruct((2,), None)
    assert struct.update(shape=(4,)) == ShapeDtypeStruct((4,), "float32")
    with pytest.raises(AttributeError, match="immutable"):
        struct.shape = (4,)
    with pytest.raises(TypeError, match="color"):
        struct.update(color=1)


def test_a_struct_keeps_its_width_until_it_is_used() -> None:
    struct = ShapeDtypeStruct((2,), "float64")
    assert repr(struct) == "ShapeDtypeStruct(shape=(2,), dtype=float64)"
    f = kiln.jit(lambda x: x + 1)
    assert str(f.trace(struct).in_avals) == "((ShapedArray(float32[2]),), {})"
    with kiln.enable_x64(True):
        assert str(f.trace(struct).in_avals) == "((ShapedArray(float64[2]),), {})"


def test_whatever_has_a_shape_and_a_dtype_stands_for_an_array() -> None:
    class Like:
        shape, dtype = (3,), np.dtype("float32")

    f = kiln.jit(lambda x: x + 1)
    assert kiln.eval_shape(f, Like()) == ShapeDtypeStruct((3,), "float32")
    info = f.lower(X).args_info[0][0]
    assert f.lower(info).in_avals == f.lower(X).in_avals


def test_a_pair_of_arguments_is_no_call_with_keywords() -> None:
    def f(*args, **kwargs):
        return args, kwargs

    g = kiln.jit(f)
    assert g((1.0,), {"k": 2.0}) == (((1.0,), {"k": 2.0}), {})
    assert g(1.0, k=2.0) == ((1.0,), {"k": 2.0})
    compiled = g.lower(1.0, k=2.0).compile()
    assert compiled(3.0, k=4.0) == ((3.0,), {"k": 4.0})
    with pytest.raises(TypeError, match="structure"):
        compiled((1.0,), {"k": 2.0})


def test_wrong_structures_are_named() -> None:
    compiled = kiln.jit(lambda x, *, d: x + d["a"]).lower(X, d={"a": 1.0}).compile()
    with pytest.raises(TypeError, match=r"at kwargs\['d'\]"):
        compiled(X, d={"b": 1.0})
    with pytest.raises(TypeError, match=r"at kwargs.*\['n'\]"):
        compiled(X, d={"a": 1.0}, n=3)
    with pytest.raises(TypeError, match="at args"):
        compiled(X, X, d={"a": 1.0})


def test_types_of_leaves_in_trees_are_checked_by_name() -> None:
    x = kiln.numpy.ones(3)
    compiled = kiln.jit(lambda d: d["a"] + d["b"]).lower({"a": x, "b": x}).compile()
    np.testing.assert_array_equal(compiled({"a": x, "b": X}), [2, 2, 2])
    wrong = r"d\['b'\] compiled with float32\[3\] and called with float32\[4\]"
    for b in (np.ones(4, np.float32), kiln.numpy.ones(4)):
        with pytest.raises(TypeError, match=wrong):
            compiled({"a": x, "b": b})
    np.testing.assert_array_equal(compiled({"a": x, "b": x}), [2, 2, 2])


def test_numbers_that_do_not_fit() -> None:
    compiled = kiln.jit(lambda n: n + 1).lower(3).compile()
    assert compiled(4) == 5
    assert compiled(np.int64(4)) == 5
    with pytest.raises(OverflowError, match="argument n"):
        compiled(2**40)
    with pytest.raises(TypeError, match=r"int32\[\] and called with bool\[\]"):
        compiled(True)


def test_constants_and_values_inside_a_trace() -> None:
    compiled = kiln.jit(lambda x: x + kiln.numpy.asarray(X)).lower(X).compile()
    np.testing.assert_array_equal(compiled(X), [2, 2, 2])
    np.testing.assert_array_equal(kiln.jit(lambda x: compiled(X) + x)(X), [3, 3, 3])


def test_nan_is_found() -> None:
    compiled = kiln.jit(lambda x: x / x).lower(X).compile()
    with kiln.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        compiled(np.zeros(3, np.float32))


def test_locations() -> None:
    lowered = kiln.jit(double).lower(X, 1.0)
    assert "loc(" not in lowered.as_text()
    assert "test_traced.py" in lowered.as_text(debug_info=True)
    assert lowered.as_text("hlo").startswith("HloModule jit_double")
    assert lowered.compiler_ir("jaxpr").eqns


def test_the_reference_engine() -> None:
    kiln.config.update("engine", "reference")
    try:
        lowered = kiln.jit(double).lower(X, 1.0)
        compiled = lowered.compile()
    finally:
        kiln.config.update("engine", None)
    assert "mul" in lowered.as_text()
    assert lowered.cost_analysis() is compiled.cost_analysis() is compiled.memory_analysis() is None
    np.testing.assert_array_equal(compiled(X, 1.0)["out"], [2, 2, 2])
    with pytest.raises(ValueError, match="unknown dialect"):
        lowered.as_text("hlo")


def test_a_stage_says_what_it_is() -> None:
    assert repr(kiln.jit(double).lower(X, 1.0)) == "<Lowered double(float32[3], float32[])>"
