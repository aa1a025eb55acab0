"""Registering classes as pytree nodes."""

from __future__ import annotations

import copy
import dataclasses
import functools
from typing import Any, NamedTuple

import pytest

from kiln.base import tree
from kiln.base.tree import nodes as tree_nodes
from kiln.base.tree.nodes import Partial


class Pair:
    def __init__(self, a: Any, b: Any, note: Any = None) -> None:
        self.a, self.b, self.note = a, b, note

    def tree_flatten(self) -> tuple[tuple[Any, Any], Any]:
        return (self.a, self.b), self.note

    @classmethod
    def tree_unflatten(cls, note: Any, children: Any) -> Pair:
        a, b = children
        return cls(a, b, note)


def test_registered_class() -> None:
    class Own(Pair):
        pass

    assert tree.tree_leaves(Own(1, 2)) != [1, 2]
    assert tree_nodes.register_pytree_node_class(Own) is Own
    leaves, treedef = tree.tree_flatten(Own(1, [2], "x"))
    assert leaves == [1, 2]
    assert repr(treedef) == "PyTreeDef(CustomNode(Own[x], [*, [*]]))"
    back = treedef.unflatten([5, 6])
    assert (back.a, back.b, back.note) == (5, [6], "x")
    assert treedef != tree.tree_structure(Own(1, [2], "y"))
    assert [tree.keystr(path) for path, _ in tree.tree_leaves_with_path(Own(1, 2))] == [
        *("[<flat index 0>]", "[<flat index 1>]")
    ]
    with pytest.raises(ValueError, match="Duplicate custom PyTreeDef type registration"):
        tree_nodes.register_pytree_node_class(Own)
    with pytest.raises(ValueError, match="Duplicate"):
        tree_nodes.register_pytree_node(dict, lambda x: (x, None), lambda d, kids: {})


def test_registered_with_keys() -> None:
    @tree_nodes.register_pytree_with_keys_class
    class Named(Pair):
        def tree_flatten_with_keys(self) -> tuple[Any, Any]:
            return ((tree.GetAttrKey("a"), self.a), (tree.DictKey("b"), self.b)), self.note

    pairs, treedef = tree.tree_flatten_with_path({"n": Named(1, (2,))})
    assert [tree.keystr(path) for path, _ in pairs] == ["['n'].a", "['n']['b'][0]"]
    assert treedef == tree.tree_structure({"n": Named(3, (4,))})


def test_bad_registration() -> None:
    with pytest.raises(TypeError, match="a class and two functions"):
        tree_nodes.register_pytree_node(Pair, 1, 2)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a class and two functions"):
        tree_nodes.register_pytree_node(3, lambda x: ((), None), lambda d, k: 3)  # type: ignore[arg-type]


def test_dataclass() -> None:
    @functools.partial(tree_nodes.register_dataclass, data_fields=["a", "c"], meta_fields=["b"])
    @dataclasses.dataclass
    class Point:
        a: Any
        b: Any
        c: Any = 3

    leaves, treedef = tree.tree_flatten(Point(1, "m"))
    assert leaves == [1, 3]
    assert repr(treedef) == "PyTreeDef(CustomNode(Point[('m',)], [*, *]))"
    assert treedef.unflatten([7, 8]) == Point(7, "m", 8)
    assert [str(path[0]) for path, _ in tree.tree_leaves_with_path(Point(1, 2))] == [".a", ".c"]


def test_dataclass_fields_from_their_metadata() -> None:
    @tree_nodes.register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Layer:
        weight: Any
        size: int = tree_nodes.static_field(default=2)
        derived: int = dataclasses.field(init=False, default=0)

    assert tree.tree_leaves(Layer(1)) == [1]
    assert tree.tree_structure(Layer(1)) == tree.tree_structure(Layer(2))
    assert tree.tree_structure(Layer(1)) != tree.tree_structure(Layer(1, 3))


def test_dataclass_errors() -> None:
    @dataclasses.dataclass
    class Point:
        a: Any
        b: Any

    with pytest.raises(
        ValueError, match=r"must include all dataclass fields.*Missing fields: \{'b'\}"
    ):
        tree_nodes.register_dataclass(Point, ["a"], [])
    with pytest.raises(ValueError, match=r"Unexpected fields: \{'c'\}"):
        tree_nodes.register_dataclass(Point, ["a", "c"], ["b"])
    with pytest.raises(TypeError, match="data_fields and meta_fields are required"):
        tree_nodes.register_dataclass(Pair)
    with pytest.raises(TypeError, match="must both be specified"):
        tree_nodes.register_dataclass(Point, ["a", "b"])
    with pytest.raises(ValueError, match=r"must not overlap.*Overlapping fields: \{'a'\}"):
        tree_nodes.register_dataclass(Point, ["a", "b"], ["a"])
    tree_nodes.register_dataclass(Point, ["a"], [], drop_fields=["b"])


@pytest.mark.parametrize(
    ("flattened", "phrase"),
    [
        ("hello", r"return a \(children, aux_data\) tuple, got 'hello'"),
        ((2, 3, 4), r"return a \(children, aux_data\) tuple, got \(2, 3, 4\)"),
        ((7, 7), r"tuple where 'children' is iterable, got \(7, 7\)"),
    ],
)
def test_what_flatten_functions_return(flattened: Any, phrase: str) -> None:
    class Bad:
        pass

    tree_nodes.register_pytree_node(Bad, lambda bad: flattened, lambda data, children: Bad())
    with pytest.raises(ValueError, match=phrase):
        tree.tree_leaves(Bad())


def test_static() -> None:
    @tree_nodes.register_static
    @dataclasses.dataclass(frozen=True)
    class Flag:
        on: bool

    assert tree.tree_leaves([Flag(True), 1]) == [1]
    assert tree.tree_structure(Flag(True)) == tree.tree_structure(Flag(True))
    assert tree.tree_structure(Flag(True)) != tree.tree_structure(Flag(False))
    assert tree.tree_map(lambda x: x, Flag(True)) == Flag(True)


def test_partial() -> None:
    def add(a: Any, b: Any, c: Any = 0) -> Any:
        return a + b + c

    bound = tree.Partial(add, 1, c=2)
    leaves, treedef = tree.tree_flatten(bound)
    assert leaves == [1, 2]
    assert treedef.unflatten([10, 20])(3) == 33
    assert [tree.keystr(path) for path, _ in tree.tree_leaves_with_path(bound)] == [
        *(".args[0]", ".keywords['c']")
    ]
    inner = functools.partial(add, 5)
    assert tree.tree_leaves(tree.Partial(inner, 1)) == [1]
    assert tree.Partial(inner, 1)() == 6
    assert tree.tree_structure(tree.Partial(inner, 1)) == tree.tree_structure(
        tree.Partial(inner, 2)
    )
    assert tree.tree_leaves(inner) == [inner]


def test_namedtuple_seen_first_among_leaves() -> None:
    class Seen(NamedTuple):
        x: Any
        y: Any

    assert tree.tree_leaves((1, Seen(2, 3))) == [1, 2, 3]
    tree_nodes.register_pytree_node(Seen, lambda x: ((x.x,), x.y), lambda y, kids: Seen(kids[0], y))
    assert tree.tree_leaves((1, Seen(2, 3))) == [1, 2]


def test_classes_of_users_are_not_kept_alive() -> None:
    class Leaf:
        pass

    tree.tree_leaves((Leaf(), Leaf()))
    assert Leaf not in tree_nodes.LEAF_TYPES


def test_a_partial_inside_a_partial_shows_its_parts() -> None:
    inner = functools.partial(max, 1)
    outer = Partial(inner, 2)
    assert outer.func == inner
    assert inner == outer.func
    assert outer.func.args == (1,)
    assert copy.copy(outer.func) == inner
    with pytest.raises(AttributeError):
        outer.func.other
