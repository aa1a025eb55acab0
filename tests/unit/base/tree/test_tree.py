"""Flattening, structures, maps, key paths and prefixes, against jax where it has an opinion."""

from __future__ import annotations

from collections import namedtuple

import pytest

import kiln.tree as short
import kiln.tree_util as long
from kiln.base import tree
from kiln.base.tree import registry as tree_registry
from kiln.base.tree import tree_structure

Point = namedtuple("Point", ["x", "y"])


def test_map() -> None:
    assert tree.tree_map(lambda a, b: (a, b), {"a": 1}, {"a": [2, 3]}) == {"a": (1, [2, 3])}
    assert tree.tree_map(lambda a, b: a + b, Point(1, [2]), Point(3, [4])) == Point(4, [6])
    assert list(tree.tree_map(lambda x: x, {"b": 1, "a": 2})) == ["a", "b"]
    assert tree.tree_map(lambda a, b: b, [None], [3], is_leaf=lambda x: x is None) == [3]


def test_prefixes() -> None:
    prefix, full = {"a": 1, "b": 2}, {"a": [3, 4], "b": (5, {"x": 6})}
    assert tree.broadcast_prefix(prefix, full) == [1, 1, 2, 2]
    assert tree.tree_broadcast(prefix, full) == {"a": [1, 1], "b": (2, {"x": 2})}
    assert tree.broadcast_prefix(7, full) == [7] * 4
    assert tree.prefix_errors(prefix, full) == []
    leaves = tree.broadcast_prefix((1, None), ([1, 2], 3), is_leaf=lambda x: x is None)
    assert leaves == [1, 1, None]
    with pytest.raises(ValueError, match=r"tree\[1\]"):
        tree.broadcast_prefix((1, None), ([1, 2], 3))


def test_transpose() -> None:
    outer, inner = tree_structure([0, 0]), tree_structure({"a": 0, "b": 0})
    value = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert tree.tree_transpose(outer, inner, value) == {"a": [1, 3], "b": [2, 4]}
    assert tree.tree_transpose(outer, None, value) == {"a": [1, 3], "b": [2, 4]}
    assert tree.tree_transpose(tree.tree_structure([]), inner, []) == {"a": [], "b": []}
    with pytest.raises(TypeError, match="Mismatch: that is not"):
        tree.tree_transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3, "c": 4}])


def test_reductions() -> None:
    assert tree.tree_reduce(lambda a, b: a + b, [1, (2, 3)]) == 6
    assert tree.tree_reduce(lambda a, b: a + b, [], 5) == 5
    with pytest.raises(TypeError):
        tree.tree_reduce(lambda a, b: a + b, [])
    assert tree.tree_reduce_associative(lambda a, b: f"({a}{b})", list("abcde")) == "(((ab)(cd))e)"
    assert tree.tree_reduce_associative(lambda a, b: a, [], identity=0) == 0
    with pytest.raises(TypeError, match="identity"):
        tree.tree_reduce_associative(lambda a, b: a, [])
    assert tree.tree_all([True, (1,)])
    assert not tree.tree_all([True, (0,)])
    assert tree.all_leaves([1, "a"])
    assert not tree.all_leaves([1, None])


def test_paths() -> None:
    value = {"a": [1, Point(2, 3)]}
    texts = tree.tree_map_with_path(lambda path, x, y: f"{tree.keystr(path)}={x}{y}", value, value)
    assert texts == {"a": ["['a'][0]=11", Point("['a'][1].x=22", "['a'][1].y=33")]}
    path = tree.tree_leaves_with_path(value)[2][0]
    assert tree.keystr(path, simple=True, separator="/") == "a/1/y"
    assert repr(path) == "(DictKey(key='a'), SequenceKey(idx=1), GetAttrKey(name='y'))"
    found = tree.tree_leaves_with_path(value, lambda path, x: len(path) == 1, True)
    assert [x for _, x in found] == [[1, Point(2, 3)]]


def test_public_modules() -> None:
    known = {**vars(tree), **vars(tree_registry)}
    assert all(known[name] is getattr(long, name) for name in long.__all__)
    assert short.map is tree.tree_map
    assert set(short.__all__) <= set(dir(short))
    jax = pytest.importorskip("jax")
    assert {name for name in dir(jax.tree) if not name.startswith("_")} <= set(short.__all__)
