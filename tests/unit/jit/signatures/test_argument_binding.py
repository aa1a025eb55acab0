"""Calls rewritten to pass by position what can be."""

from __future__ import annotations

from typing import Any

import pytest

from kiln.base.tree import tree_structure
from kiln.jit.signatures.argument_binding import (
    ArgumentBinding,
    Named,
    flatten_call,
    form_of,
    in_tree_of,
    respelled,
    unflatten_call,
)
from kiln.jit.signatures.parameters import Chosen


def several(a: Any, /, b: Any, c: Any = 3, *rest: Any, d: Any = 4, **named: Any) -> Any:
    return a, b, c, rest, d, named


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((1,), {"b": 2, "c": 3}, ((1, 2, 3), {})),
        ((1,), {"c": 3, "d": 4, "b": 2}, ((1, 2, 3), {"d": 4})),
        ((1,), {"c": 3}, ((1,), {"c": 3})),
        ((1, 2), {"b": 3}, ((1, 2), {"b": 3})),
        ((), {"a": 1, "b": 2}, ((), {"a": 1, "b": 2})),
        ((1, 2, 3, 4), {"d": 5}, ((1, 2, 3, 4), {"d": 5})),
        ((1, 2), {"other": 3}, ((1, 2), {"other": 3})),
    ],
)
def test_what_can_be_passed_by_position_is(args: Any, kwargs: Any, expected: Any) -> None:
    binding = ArgumentBinding(several, Chosen())
    for _ in range(2):
        assert binding.by_position(args, kwargs) == expected


def test_methods_leave_out_what_is_bound() -> None:
    class Model:
        def f(self, x: Any, y: Any) -> Any:
            return x, y

    assert ArgumentBinding(Model().f, Chosen()).by_position((), {"y": 2, "x": 1}) == ((1, 2), {})


def test_where_the_spelling_has_a_meaning_it_stays() -> None:
    f = lambda x, y, z: (x, y, z)
    kwargs = {"x": 1, "y": 2, "z": 3}
    assert ArgumentBinding(f, Chosen((1,), ("y",))).by_position((), kwargs) == ((1, 2, 3), {})
    assert ArgumentBinding(f, Chosen((), ("y",))).by_position((), kwargs) == (
        (1,),
        {"y": 2, "z": 3},
    )
    assert ArgumentBinding(f, Chosen((0,), ())).by_position((), kwargs) == ((), kwargs)


def test_exchanged_code_is_noticed() -> None:
    def f(x: Any, y: Any) -> Any:
        return x, y

    binding = ArgumentBinding(f, Chosen())
    assert binding.by_position((), {"x": 1, "y": 2}) == ((1, 2), {})
    f.__code__ = (lambda y, x: (x, y)).__code__
    assert binding.by_position((), {"x": 1, "y": 2}) == ((2, 1), {})


def test_functions_without_code_are_left_alone() -> None:
    assert ArgumentBinding(len, Chosen()).by_position((), {"obj": 1}) == ((), {"obj": 1})
    assert ArgumentBinding(len, Chosen()).dynamic_names() == ()


def test_a_call_with_keywords_is_no_call_with_a_tuple_and_a_dict() -> None:
    leaves, tree = flatten_call((1, 2), {"a": 3})
    other_leaves, other = flatten_call(((1, 2), {"a": 3}), {})
    assert leaves == other_leaves
    assert tree != other
    assert unflatten_call(tree, leaves) == Named((1, 2), {"a": 3})
    assert unflatten_call(other, leaves) == (((1, 2), {"a": 3}), {})
    assert str(in_tree_of(tree)) == "PyTreeDef(((*, *), {'a': *}))"
    assert str(in_tree_of(other)) == "PyTreeDef((((*, *), {'a': *}), {}))"


def test_a_compiled_call_is_spelled_like_the_traced_one() -> None:
    names = ("x", "y", "z")
    assert respelled((1,), {"y": 2}, tree_structure((0, 0)), names) == ((1, 2), {})
    assert respelled((1,), {"q": 2}, tree_structure((0, 0)), names) == ((1,), {"q": 2})
    tree = flatten_call((0,), {"z": 0})[1]
    assert respelled((1,), {"z": 2}, tree, names) == ((1,), {"z": 2})
    assert respelled((), {"z": 2, "x": 1}, tree, names) == ((1,), {"z": 2})


@pytest.mark.parametrize(
    ("args", "kwargs", "static", "shown"),
    [
        ((1, [2, 3]), {}, (), ((1, [2, 3]), {})),
        ((1,), {"c": (2, 3), "b": [4]}, (), ((1,), {"c": (2, 3), "b": [4]})),
        ((1,), {"c": (2, 3), "b": [4], "d": 5}, (), ((1,), {"c": (2, 3), "b": [4], "d": 5})),
        ((1,), {"c": (2, 3), "b": [4], "a1": 5}, (1,), ((1,), {"c": (2, 3), "a1": 5})),
        ((1, 2), {"c": 3}, (0,), ((2,), {"c": 3})),
        ((), {}, (), ((), {})),
    ],
)
def test_the_form_of_a_call(args: Any, kwargs: Any, static: Any, shown: Any) -> None:
    binding = ArgumentBinding(several, Chosen(static, tuple("abc"[i] for i in static)))
    spelled, named = binding.by_position(args, kwargs)
    places = [i for i in range(len(spelled)) if i not in static]
    leaves, tree = flatten_call(tuple([spelled[i] for i in places]), named)
    moved = binding.moved(len(args), tuple(kwargs))
    form = form_of(tree, places, len(args), moved, ())
    assert form.in_tree == tree_structure(shown)
    assert form.in_tree.unflatten([leaves[i] for i in form.order]) == shown
