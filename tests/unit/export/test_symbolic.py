"""Shapes of text, and text of sizes."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export
from kiln.export.size_expressions import shape_of_text, size_text
from kiln.ir.sizes.size import maximum, minimum, symbol

B, N = symbol("b"), symbol("n")


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("", ()),
        ("3", (3,)),
        ("b", (B,)),
        ("(b, 4)", (B, 4)),
        ("b,", (B,)),
        ("b, 2*b+1, b*n", (B, 2 * B + 1, B * N)),
        ("-1*b + n, b^2, 2*b^2*n", (N - B, B * B, 2 * B * B * N)),
        ("floordiv(b, 2), mod(b, 3)", (B // 2, B % 3)),
        ("max(b, 4), min(b, n)", (maximum(B, 4), minimum(B, N))),
        ("(n+1)//2, n % 2", ((N + 1) // 2, N % 2)),
    ],
)
def test_shapes(text, shape):
    assert export.symbolic_shape(text) == shape
    written = ", ".join(map(size_text, shape)) + ("," if shape else "")
    assert shape_of_text(written, None, "shape") == shape


def test_placeholders():
    like = (2, 3, 4)
    assert export.symbolic_shape(None, like=like) == like
    assert export.symbolic_shape("b, ...", like=like) == (B, 3, 4)
    assert export.symbolic_shape("_, b, _", like=like) == (2, B, 4)
    assert export.symbolic_shape("2, b, ...", like=(2, 5)) == (2, B)


@pytest.mark.parametrize(
    ("text", "like", "match"),
    [
        ("b +", None, "syntax error"),
        ("b.c", None, "'b.c' is not a size"),
        ("f(b, 2)", None, "is not a size"),
        ("1.5", None, "is not a size"),
        ("b, _", None, "no shape to take the size from"),
        ("b, _", (3,), "axis 1 is a placeholder, and the array has 1 axes"),
        ("..., b", (3,), "must come last"),
        ("b^2000000000", None, "a power that is not in the range from 0 to 64"),
        ("9^9^9", None, "a power"),
        ("((2^60)^60)^60", None, "64 bits"),
        ("((a+b+c+d+e)^8)^8", None, "more than 4096 terms"),
        ("floordiv(4, 0)", None, "by zero"),
        ("mod(b, 0)", None, "the size b was divided by 0"),
        ("-" * 100_000 + "1", None, "nested deeper"),
        ("1" + "+1" * 2_000, None, "nested deeper"),
        ("+".join("b" * 50_000), None, "nested deeper"),
        ("4, b", (3, 2), "axis 0 has the size 3, not 4"),
    ],
)
def test_other_text_is_refused(text, like, match):
    with pytest.raises(ValueError, match=match):
        export.symbolic_shape(text, like=like)


def test_what_is_no_text():
    with pytest.raises(ValueError, match="should be None or a string"):
        export.symbolic_shape(3)


def test_scopes():
    scope = export.SymbolicScope()
    assert export.symbolic_shape("b", scope=scope) == (B,)
    (two,) = export.symbolic_shape("b", scope=export.SymbolicScope(["b >= 2"]))
    assert export.symbolic_shape("b", constraints=["b >= 2"]) == (two,) and two >= 2
    with pytest.raises(ValueError, match="both a `scope` and `constraints`"):
        export.symbolic_shape("b", constraints=["b >= 2"], scope=scope)


def test_which_sizes_are_symbolic():
    assert [export.is_symbolic_dim(d) for d in (B, 3, np.int32(3))] == [True, False, False]


def test_types_of_arguments():
    args = ({"w": jnp.ones((3, 4)), "b": np.float32(1)}, kiln.ShapeDtypeStruct((5,), "int8"))
    found = export.symbolic_args_specs(args, ({"w": "b, _", "b": None}, "2*b"))
    assert [leaf.shape for leaf in kiln.tree.leaves(found)] == [(), (B, 4), (2 * B,)]
    assert [str(leaf.dtype) for leaf in kiln.tree.leaves(found)] == ["float32", "float32", "int8"]
    same = export.symbolic_args_specs((jnp.ones(3), jnp.ones(3)), "b")
    assert [leaf.shape for leaf in same] == [(B,), (B,)]
    as_list = export.symbolic_args_specs((jnp.ones(3), jnp.ones(3)), ["b", None])
    assert [leaf.shape for leaf in as_list] == [(B,), (3,)]
    with pytest.raises(ValueError, match="prefix"):
        export.symbolic_args_specs((jnp.ones(3), jnp.ones(3)), ("b", "b", "b"))
