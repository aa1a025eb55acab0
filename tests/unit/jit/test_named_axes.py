"""What the user wrote for abstracted_axes -> the named axes of each leaf."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.ir.sizes.size import symbol
from kiln.ir.types import ShapedArray
from kiln.jit.named_axes import NamedAxes, fresh_names, numbered, with_names
from kiln.jit.signatures.argument_binding import flatten_call
from kiln.jit.signatures.parameters import Chosen

N, M = ((0, "n"),), ((1, "m"),)


def f(x: Any, y: Any, z: Any = None, *, w: Any = None) -> None:
    """A function to call."""


def of(given: Any, *args: Any, static: tuple[int, ...] = (), count: int = 0, **kwargs: Any) -> Any:
    axes = NamedAxes(f, given, Chosen(static))
    tree = flatten_call(args, kwargs)[1]
    return axes.of_leaves(count or len(args) + len(static), tree)


def test_entries_go_to_arguments() -> None:
    assert of(({0: "n"}, {1: "m"}), 1, 2) == [N, M]
    assert of(({0: "n"}, None), 1, [2, 3]) == [N, (), ()]
    assert of(("n", None), 1, 2) == [N, N]
    assert of({0: "n"}, 1, {"a": 2, "b": 3}) == [N, N, N]
    assert of((None, {"a": {0: "n"}, "b": (None, "m")}), 1, {"a": 2, "b": 3}) == [(), N, M]


def test_keywords_find_their_entry() -> None:
    assert of(({0: "n"}, {1: "m"}), 1, y=2) == [N, M]
    assert of(({0: "n"}, {1: "m"}), 1, z=2, w=3) == [N, (), ()]


def test_static_arguments_may_have_an_entry() -> None:
    assert of(({0: "n"}, None, {1: "m"}), 1, 2, static=(1,)) == [N, M]
    assert of(({0: "n"}, {1: "m"}), 1, 2, static=(1,)) == [N, M]


def test_too_few_entries_and_other_trees() -> None:
    with pytest.raises(ValueError, match="1 entries"):
        of(({0: "n"},), 1, 2)
    with pytest.raises(ValueError, match="tree prefix"):
        of(({"a": {0: "n"}}, None), 1, 2)


def test_types_with_names() -> None:
    avals = [ShapedArray((4, 3), np.dtype("f4")), ShapedArray((3,), np.dtype("f4"))]
    named = with_names(avals, [N, ()], {"n": "k"})
    assert named[0].shape == (symbol("k"), 3)
    assert named[1] is avals[1]
    assert with_names(avals, [N, ()], {})[0] == avals[0]


def test_names_have_numbers() -> None:
    avals = [ShapedArray((4, 3), np.dtype("f4")), ShapedArray((3,), np.dtype("f4"))]
    axes = [((0, "n"), (-1, "m")), ((0, "k"),)]
    assert numbered(avals, axes, ["m", "n"]) == (((0, 1), (1, 0)), ())


def test_names_that_are_taken() -> None:
    assert fresh_names({"n", "m"}, ()) == {"n": "n", "m": "m"}
    assert fresh_names({"n"}, ("n", "m")) == {"n": "n1"}
    assert fresh_names({"n", "n1"}, ("n",)) == {"n": "n2", "n1": "n1"}
