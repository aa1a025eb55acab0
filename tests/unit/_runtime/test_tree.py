"""Pytrees taken apart and put together by the runtime agree with their definition in Python."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kiln.tree as tree
from kiln.base.tree_nodes import KINDS, kind_of_new, register_dataclass
from kiln.base.treedef import PyTreeDef
from kiln.tree_util import Partial, register_pytree_node


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Box:
    width: Any
    height: Any
    unit: str = "m"


register_dataclass(Box, ["width", "height"], ["unit"])


def defined(x: Any, leaves: list[Any]) -> Any:
    """Flatten by the node kinds alone: what the runtime's shortcuts must agree with."""
    kind = KINDS.get(type(x)) or kind_of_new(type(x))
    if kind is None:
        leaves.append(x)
        return None
    children, data = kind.flatten(x)
    return type(x), data, tuple([defined(child, leaves) for child in children])


LEAVES = st.one_of(st.integers(), st.floats(), st.text(max_size=3), st.builds(object))
NAMES = st.text("abcxyz", max_size=3)
TREES = st.recursive(
    st.one_of(LEAVES, st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(NAMES, inner, max_size=4),
        st.dictionaries(st.integers(), inner, max_size=3),
        st.dictionaries(NAMES, inner, max_size=3).map(collections.OrderedDict),
        st.dictionaries(NAMES, inner, max_size=3).map(lambda d: collections.defaultdict(list, d)),
        st.builds(Point, inner, inner),
        st.builds(Box, inner, inner, NAMES),
        inner.map(lambda x: Partial(max, x, key=x)),
    ),
    max_leaves=12,
)


@given(TREES)
def test_flattening_is_as_defined(x: Any) -> None:
    want: list[Any] = []
    key = defined(x, want)
    leaves, structure = tree.flatten(x)
    assert all(a is b for a, b in zip(leaves, want, strict=True))
    assert structure.key == key and structure.num_leaves == len(want)
    again = tree.unflatten(structure, leaves)
    assert type(again) is type(x)
    assert tree.structure(again) == structure
    assert hash(tree.structure(again)) == hash(structure)
    assert all(a is b for a, b in zip(tree.leaves(again), leaves, strict=True))
    assert all(a is b for a, b in zip(structure.flatten_up_to(x), leaves, strict=True))


@given(TREES, TREES)
def test_structures_are_equal_if_their_keys_are(x: Any, y: Any) -> None:
    a, b = tree.structure(x), tree.structure(y)
    assert (a == b) is (a.key == b.key)
    assert (a != b) is not (a == b)
    assert a != a.key


@given(TREES, st.sampled_from([list, dict, type(None), Point]))
def test_leaves_as_told(x: Any, stop: type) -> None:
    def is_leaf(y: Any) -> bool:
        return isinstance(y, stop)

    leaves, structure = tree.flatten(x, is_leaf)
    assert structure.num_leaves == len(leaves)
    assert all(is_leaf(y) or kind_of_new(type(y)) is None for y in leaves)


def test_nesting_without_end_is_an_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        tree.flatten(endless)
    deep: Any = 1.0
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RecursionError):
        tree.flatten(deep)
    # Taken down by hand: freeing so many nested lists at once is Python's affair.
    while isinstance(deep, list):
        deep = deep.pop()


def test_a_list_that_changes_meanwhile() -> None:
    victim: list[Any] = []

    class Sly:
        pass

    def flatten(x: Any) -> Any:
        victim.clear()
        return (1.0,), None

    register_pytree_node(Sly, flatten, lambda data, kids: Sly())
    victim += [Sly(), 2.0, 3.0]
    with pytest.raises(RuntimeError, match="size"):
        tree.flatten(victim)


@pytest.mark.parametrize(
    "wrong", [lambda x: 3, lambda x: (1, 2, 3), lambda x: (3, None), lambda x: 1 / 0]
)
def test_flatten_functions_that_are_wrong(wrong: Any) -> None:
    class Odd:
        pass

    register_pytree_node(Odd, wrong, lambda data, kids: Odd())
    with pytest.raises((TypeError, ValueError, ZeroDivisionError)):
        tree.flatten([1.0, Odd()])


def test_leaves_from_any_iterable() -> None:
    structure = tree.structure([1, (2, 3)])
    assert tree.unflatten(structure, iter([4, 5, 6])) == [4, (5, 6)]
    with pytest.raises(ValueError, match="Too few"):
        tree.unflatten(structure, [1])
    with pytest.raises(ValueError, match="Too many"):
        tree.unflatten(structure, range(4))
    with pytest.raises(TypeError):
        tree.unflatten(structure, 3)


def test_a_key_that_is_none() -> None:
    for wrong in (3, (list, None), (list, None, [None]), (3, None, ()), (list, None, (3,))):
        with pytest.raises(ValueError, match="no structure"):
            PyTreeDef(wrong)
