"""Section 12: ahead of time."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import ShapeDtypeStruct, stages
from tests.contract.marks import contract

x = np.arange(3, dtype=np.float32)


def scaled(x, y):
    return {"out": x * y + 1}


@contract("12.0")
def test_types_of_the_stages() -> None:
    f = kiln.jit(scaled)
    traced = f.trace(x, 2.0)
    assert isinstance(f, stages.Wrapped)
    assert isinstance(traced, stages.Traced)
    assert isinstance(traced.lower(), stages.Lowered)
    assert isinstance(f.lower(x, 2.0), stages.Lowered)
    assert isinstance(f.lower(x, 2.0).compile(), stages.Compiled)


@contract("12.2")
def test_types_in_place_of_values() -> None:
    f = kiln.jit(lambda tree, y: tree["a"] * y + tree["b"][0])
    struct = ShapeDtypeStruct((3,), "float32")
    for args in (
        ({"a": struct, "b": [ShapeDtypeStruct((), "float32")]}, ShapeDtypeStruct((), "float32")),
        ({"a": struct, "b": [np.float32(1)]}, np.float32(2)),
        ({"a": x, "b": [ShapeDtypeStruct((), "float32")]}, np.float32(2)),
    ):
        assert f.trace(*args).out_info == struct
        out = f.lower(*args).compile()({"a": x, "b": [np.float32(1)]}, np.float32(2))
        np.testing.assert_array_equal(out, x * 2 + 1)


@contract("12.4")
def test_texts() -> None:
    lowered = kiln.jit(scaled).lower(x, 2.0)
    for text in (lowered.as_text(), lowered.as_text("stablehlo"), lowered.as_text(dialect=None)):
        assert "scaled" in text
        assert "multiply" in text
        assert "add" in text
    compiled = lowered.compile().as_text()
    assert "scaled" in compiled
    assert "multiply" in compiled
    with pytest.raises(ValueError, match="no-such-dialect"):
        lowered.as_text("no-such-dialect")


@contract("12.5")
def test_calling_what_was_compiled() -> None:
    traces: list = []

    def f(x, y, n):
        traces.append(1)
        return x * y * n

    compiled = kiln.jit(f, static_argnums=2).lower(x, 2.0, 3).compile()
    for args in (
        (x, 2.0),
        (x.astype(np.float64), 2.0),
        (jnp.asarray(x), np.float32(2)),
        (x, np.float64(2)),
    ):
        np.testing.assert_array_equal(compiled(*args), x * 6)
    assert len(traces) == 1
    with pytest.raises(
        TypeError, match=r"x compiled with float32\[3\] and called with float32\[4\]"
    ):
        compiled(np.ones(4, np.float32), 2.0)
    with pytest.raises(TypeError, match=r"x compiled with float32\[3\] and called with int32\[3\]"):
        compiled(np.arange(3), 2.0)
    for wrong in ((x,), (x, 2.0, 3), ((x, 2.0),), (x, [2.0])):
        with pytest.raises(TypeError, match="structure"):
            compiled(*wrong)
    for transformed in (
        lambda: kiln.grad(lambda y: compiled(x, y).sum())(2.0),
        lambda: kiln.vmap(compiled, in_axes=(0, None))(x[None], 2.0),
        lambda: kiln.jit(compiled)(x, 2.0),
    ):
        with pytest.raises(TypeError, match="transform"):
            transformed()
    assert len(traces) == 1


@contract("12.6")
def test_eval_shape_allocates_nothing() -> None:
    runs: list = []

    def f(x, y):
        kiln.debug.callback(lambda: runs.append(1))
        return {"out": x * y, "n": 1}

    huge = ShapeDtypeStruct((10**8, 10**8), "float32")
    expected = {"out": huge, "n": ShapeDtypeStruct((), "int32", weak_type=True)}
    assert kiln.eval_shape(f, huge, 2.0) == kiln.jit(f).eval_shape(huge, y=2.0) == expected
    assert runs == []


@contract("12.6")
def test_shape_dtype_struct() -> None:
    struct = ShapeDtypeStruct((2, 3), np.float32)
    assert (struct.shape, struct.dtype, struct.ndim, struct.size) == ((2, 3), np.float32, 2, 6)
    assert len(struct) == 2
    assert not struct.weak_type
    assert struct == ShapeDtypeStruct([2, 3], "float32")
    assert hash(struct) == hash(ShapeDtypeStruct((2, 3), "float32"))
    assert struct != ShapeDtypeStruct((2, 3), "int32")
    assert struct != ShapeDtypeStruct((3, 2), "float32")
    assert struct != ShapeDtypeStruct((2, 3), "float32", weak_type=True)
    assert repr(struct) == "ShapeDtypeStruct(shape=(2, 3), dtype=float32)"
    with pytest.raises((TypeError, ValueError), match="dtype"):
        ShapeDtypeStruct((2,), None)
    with pytest.raises(TypeError):
        len(ShapeDtypeStruct((), "float32"))
