"""How results are split, given how operands are: reshapes, contractions, windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.errors import ShardingTypeError
from kiln.ir.shardings.abstract_mesh import AbstractMesh, AxisType
from kiln.ir.types import ShapedArray, with_split
from kiln.ops import out_sharding as splitting

MESH = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit,) * 2)


def array(shape: tuple[int, ...], *entries: Any) -> Any:
    split = (*entries, *[None] * (len(shape) - len(entries)))
    return with_split(ShapedArray(shape, np.dtype(np.float32)), MESH, split)


@pytest.mark.parametrize(
    ("before", "entries", "after", "expected"),
    [
        ((8, 4), ("x", "y"), (8, 4, 1), ("x", "y", None)),
        ((8, 1, 4), ("x", None, "y"), (8, 4), ("x", "y")),
        ((8,), ("x",), (1, 8), (None, "x")),
        ((8, 4), ("x",), (32,), ("x",)),
        ((8, 4), ("x", "y"), (32,), (("x", "y"),)),
        ((16,), ("x",), (4, 4), ("x", None)),
        ((16,), (("x", "y"),), (4, 4), ("x", "y")),
        ((16,), (("x", "y"),), (8, 2), (("x", "y"), None)),
        ((8, 6, 4), ("x", None, "y"), (8, 2, 3, 4), ("x", None, None, "y")),
        ((8, 6, 4), ("x", None, "y"), (8, 3, 2, 4), ("x", None, None, "y")),
        ((3, 4, 8), (None, None, "x"), (12, 8), (None, "x")),
        ((0, 4), (None, None), (4, 0), (None, None)),
    ],
)
def test_reshapes(before: Any, entries: Any, after: Any, expected: Any) -> None:
    assert splitting.reshaped(array(before, *entries), after) == expected


@pytest.mark.parametrize(
    ("before", "entries", "after"),
    [
        ((8, 4), (None, "y"), (32,)),
        ((8,), ("x",), (2, 4)),
        ((8, 6), ("x",), (6, 8)),
    ],
)
def test_reshapes_that_are_ambiguous(before: Any, entries: Any, after: Any) -> None:
    with pytest.raises(ShardingTypeError, match="reshape is not supported") as caught:
        splitting.reshaped(array(before, *entries), after)
    assert "out_sharding=P(...)" in str(caught.value).splitlines()[2]


def test_products() -> None:
    over = (((1,), (0,)), ((), ()))
    x, w = array((8, 4), "x"), array((4, 6), None, "y")
    assert splitting.contracted("dot", x, w, over) == ("x", "y")
    assert splitting.contracted("dot", array((8, 4), None, "y"), array((4, 6)), over) == (
        None,
        None,
    )
    batched = (((2,), (1,)), ((0,), (0,)))
    a, b = array((4, 2, 3), "x"), array((4, 3, 2))
    assert splitting.contracted("dot", a, b, batched) == ("x", None, None)
    assert splitting.contracted("dot", b, a, (((1,), (2,)), ((0,), (0,)))) == ("x", None, None)
    with pytest.raises(ShardingTypeError, match="consistent sharding"):
        splitting.contracted("dot", array((8, 4), None, "x"), array((4, 6), "y"), over)
    with pytest.raises(ShardingTypeError, match="it is ambiguous"):
        splitting.contracted("dot", array((8, 4), None, "x"), array((4, 6), "x"), over)


def test_stacks_of_matrices() -> None:
    stack = array((8, 3, 3), "x")
    assert splitting.stacks("lu", [stack], (2,), [stack, array((8, 3))]) == [
        ("x", None, None),
        ("x", None),
    ]
    with pytest.raises(ShardingTypeError, match="must be unsharded on non-batch dimensions"):
        splitting.stacks("lu", [array((8, 4, 4), None, "x")], (2,), [stack])
    with pytest.raises(ShardingTypeError, match="same batch sharding"):
        splitting.stacks("solve", [stack, array((8, 3, 3))], (2, 2), [stack])


def test_what_needs_a_whole_axis() -> None:
    x = array((8, 4), "x")
    assert splitting.whole_along("sort", x, [1]) == ("x", None)
    with pytest.raises(
        ShardingTypeError, match="unsharded along the axes it works on, and x splits axis 0"
    ):
        splitting.whole_along("sort", x, [0])


def test_new_sizes_must_be_divisible() -> None:
    x = array((8, 4), "x")
    assert splitting.resized("slice", x, array((4, 4))) == ("x", None)
    with pytest.raises(ShardingTypeError, match=r"out dim \(6\) is not divisible by mesh axes"):
        splitting.resized("slice", x, array((6, 4)))
