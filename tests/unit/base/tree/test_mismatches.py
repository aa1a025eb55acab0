"""Where and how two pytrees differ."""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

import pytest

from kiln.base import tree


class Point(NamedTuple):
    x: Any
    y: Any


LISTS: defaultdict[str, Any] = defaultdict(list, a=1)
INTS: defaultdict[str, Any] = defaultdict(int, a=1)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ((1, 2), (1, 2, 3), "length 2.*length 3"),
        ((1, 2), [1, 2], "tuple.*different type, list"),
        ({"a": 1}, {"b": 1}, "different pytree metadata.*Dict key mismatch.*'a'.*'b'"),
        ({"a": 1}, {"a": 1, "b": 2}, "different numbers.*key sets is b\n"),
        ({"a": 1}, 3, "different type, int"),
        ((1, None), (1, 2), r"tree\[1\]"),
        ((1, {"k": [1]}), (1, {"k": [1, 2]}), r"tree\[1\]\['k'\]"),
        (Point(1, 2), (1, 2), "Point.*different type, tuple"),
        (OrderedDict(a=1, b=2), OrderedDict(b=1, a=2), "metadata of OrderedDict"),
        (LISTS, INTS, "metadata of defaultdict"),
    ],
)
def test_mismatch(first: Any, second: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"(?s){message}"):
        tree.tree_map(lambda a, b: a, first, second)
    errors = tree.prefix_errors(first, second)
    assert len(errors) == 1
    assert len(errors[0].splitlines()) == 3
    assert tree.equality_errors(first, second)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1, 2], [7], "List arity mismatch: 1 != 2; list: [7]."),
        ((1,), (7, 8), "Tuple arity mismatch: 2 != 1; tuple: (7, 8)."),
        ({"a": 1}, {"b": 7}, "Dict key mismatch; expected keys: ['a'];"),
        ([(1,)], [{"a": 7}], "Expected tuple, got {'a': 7}."),
        ({"a": {"b": 1}}, {"a": 7}, "Expected dict, got 7."),
        ([Point(1, 2)], [(1, 2)], "Expected named tuple, got (1, 2)."),
        (None, [2], "Expected None, got [2]."),
        (OrderedDict(a=1), [2], "Custom node type mismatch"),
    ],
)
def test_what_was_expected_is_said(first: Any, second: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        tree.tree_structure(first).flatten_up_to(second)


def test_every_place_is_named() -> None:
    errors = tree.prefix_errors(((1,), [2]), ((1, 2), [3, 4]), name="in_axes")
    assert [error.splitlines()[0].split()[-1] for error in errors] == ["in_axes[0]", "in_axes[1]"]
    assert tree.prefix_errors({"a": 1}, {"a": [1, 2]}) == []


def test_equality_errors() -> None:
    found = tree.equality_errors((1, 2, {"a": 1}), (1, [2], {"b": 1}))
    assert [(tree.keystr(path), why) for path, _, _, why in found] == [
        ("[1]", "their types differ"),
        ("[2]", "their keys differ: only the first has ['a'], only the second has ['b']"),
    ]
    assert found[0][1:3] == ("a pytree leaf", "a list of length 1")
    assert tree.equality_errors(tree.tree_structure([1]), tree.tree_structure([2])) == []
