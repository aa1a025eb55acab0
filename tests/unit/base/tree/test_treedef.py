"""Flattening and structures, against jax where it has an opinion."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import numpy as np
import pytest

from kiln.base import tree
from kiln.base.tree import PyTreeDef, tree_structure

Point = namedtuple("Point", ["x", "y"])


class MyList(list[Any]):
    pass


TREES: list[Any] = [
    1,
    None,
    (),
    [],
    {},
    (1,),
    (1, 2),
    [1, (2, 3)],
    {"b": 1, "a": (2, [3])},
    {(1, 2): 1, (0,): 2},
    Point(1, [2, 3]),
    OrderedDict(b=1, a=[2]),
    defaultdict(list, b=1, a=2),
    (None, [None], {"a": None, "b": 4}),
    [MyList([1]), range(3), "text", {1, 2}],
    ((1, 2), {"k": {"deep": [1, (2, {"x": 3})]}}),
    tuple(range(300)),
    [np.zeros(2), np.float32(1), (np.ones(1),)],
]


@pytest.mark.parametrize("value", TREES, ids=lambda x: str(x)[:40])
def test_as_jax(value: Any) -> None:
    theirs = pytest.importorskip("jax").tree_util
    leaves, treedef = tree.tree_flatten(value)
    other_leaves, other = theirs.tree_flatten(value)
    assert len(leaves) == len(other_leaves) == treedef.num_leaves
    assert all(a is b for a, b in zip(leaves, other_leaves, strict=True))
    assert repr(treedef) == repr(other)
    assert treedef.num_nodes == other.num_nodes
    assert treedef.node_data() == other.node_data()
    assert repr(treedef.children()) == repr(other.children())
    assert tree.treedef_is_leaf(treedef) == theirs.treedef_is_leaf(other)
    pairs, with_path = tree.tree_flatten_with_path(value)
    other_pairs = theirs.tree_flatten_with_path(value)[0]
    assert [str(p) for p, _ in pairs] == [str(p) for p, _ in other_pairs]
    assert [tree.keystr(p) for p, _ in pairs] == [theirs.keystr(p) for p, _ in other_pairs]
    assert with_path == treedef


@pytest.mark.parametrize("value", TREES[:-1], ids=lambda x: str(x)[:40])
def test_round_trip(value: Any) -> None:
    leaves, treedef = tree.tree_flatten(value)
    back = treedef.unflatten(iter(leaves))
    assert back == value
    assert type(back) is type(value)
    again = tree.tree_flatten(back)[1]
    assert again == treedef
    assert hash(again) == hash(treedef)
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert copy.deepcopy(treedef) == treedef
    assert PyTreeDef.from_node_data_and_children(treedef.node_data(), treedef.children()) == treedef
    if not treedef.is_leaf:
        assert tree.tree_map(lambda a, b: b, value, value) == value
        assert tree.tree_flatten(value, is_leaf=lambda x: False)[1] == treedef


def test_structures_that_differ() -> None:
    values: list[Any] = [1, None, (), [], {}, (1,), [1], {"a": 1}, {"b": 1}, Point(1, 2), (1, 2)]
    values += [OrderedDict(a=1), defaultdict(list, a=1), defaultdict(int, a=1), ((1,),), (1, None)]
    structures = [tree_structure(value) for value in values]
    assert len(set(structures)) == len(structures)
    assert tree_structure(1) != 3
    assert tree_structure(OrderedDict(a=1, b=2)) != tree_structure(OrderedDict(b=1, a=2))
    assert tree_structure({"a": 1, "b": 2}) == tree_structure({"b": 1, "a": 2})


def test_is_leaf() -> None:
    leaves, treedef = tree.tree_flatten([(1, 2), [3, None]], is_leaf=lambda x: isinstance(x, tuple))
    assert leaves == [(1, 2), 3]
    assert repr(treedef) == "PyTreeDef([*, [*, None]])"
    assert tree.tree_leaves([None, 1], is_leaf=lambda x: x is None) == [None, 1]
    assert tree.tree_leaves((1, 2), is_leaf=lambda x: True) == [(1, 2)]


def test_unsortable_keys() -> None:
    with pytest.raises(ValueError, match="cannot be sorted") as error:
        tree.tree_flatten({1: 2, "a": 3})
    assert "OrderedDict" in str(error.value)
    assert tree.tree_leaves(OrderedDict([(1, 2), ("a", 3)])) == [2, 3]


def test_wrong_number_of_leaves() -> None:
    with pytest.raises(ValueError, match="Too few leaves for PyTreeDef; expected 2, got 1"):
        tree.tree_unflatten(tree_structure((1, 2)), [1])
    with pytest.raises(ValueError, match="Too many leaves for PyTreeDef; expected 2, got 3"):
        tree.tree_unflatten(tree_structure((1, 2)), [1, 2, 3])


def test_structure_algebra() -> None:
    assert repr(tree_structure((1, 2)).compose(tree_structure([1, 2]))) == (
        "PyTreeDef(([*, *], [*, *]))"
    )
    assert tree_structure((1, 2)).compose(tree_structure([1, 2])).num_leaves == 4
    parts = [tree_structure(1), tree_structure([1])]
    assert tree.treedef_tuple(parts) == tree_structure((1, [1]))
    assert tree.treedef_children(tree_structure((1, [1]))) == parts
    assert tree_structure((1, 2)).flatten_up_to((1, [2, 3])) == [1, [2, 3]]
    assert tree.flatten_one_level({"b": 1, "a": [2]}) == ([[2], 1], ("a", "b"))
    assert tree.flatten_one_level(3) is None


@tree.register_pytree_node_class
class Noted:
    """A node whose metadata may be anything."""

    def __init__(self, child: Any, note: Any) -> None:
        self.child = child
        self.note = note

    def tree_flatten(self) -> tuple[Any, Any]:
        return (self.child,), self.note

    @classmethod
    def tree_unflatten(cls, note: Any, children: Any) -> Noted:
        return cls(children[0], note)


class Unhashable:
    def __hash__(self) -> int:
        raise RuntimeError("no hash")


@pytest.mark.parametrize(
    "note", [{"a": [1]}, [1], {1}, ([1],), Unhashable()], ids=lambda note: type(note).__name__
)
def test_metadata_without_a_hash(note: Any) -> None:
    one, same = tree_structure([Noted(1, note), 2]), tree_structure([Noted(3, note), 4])
    assert one == same
    assert hash(one) == hash(same)
    assert one != tree_structure([Noted(1, "other"), 2])
    other = tree_structure([Noted(1, {"a": [2]}), 2])
    assert one != other
    assert len({one, same, other}) == 2
    assert hash(tree_structure((Noted(1, note),))) != hash(tree_structure([Noted(1, note)]))
    assert tree.settled(one) == one
    assert hash(tree.settled(one)) == hash(one)


def test_settled_structures_do_not_change() -> None:
    note = {"a": [1, ({2}, 3)]}
    structure = tree_structure((Noted(1, note), 2))
    kept = tree.settled(structure)
    note["a"][1][0].add(4)  # type: ignore[index]
    assert kept != structure
    assert kept == tree_structure((Noted(1, {"a": [1, ({2}, 3)]}), 2))
    plain = tree_structure((Noted(1, "note"), 2))
    assert tree.settled(plain) is plain


def test_walking_visits_leaves_in_order_and_nodes_after_their_children() -> None:
    leaves, treedef = tree.tree_flatten({"b": 2, "a": 1, "c": ({"x": 3}, 4)})
    seen: list[object] = []

    def leaf(x: int) -> int:
        seen.append(x)
        return 10 * x

    def node(results: tuple[object, ...], data: object) -> object:
        seen.append(data)
        return results

    assert treedef.walk(node, leaf, leaves) == (10, 20, ((30,), 40))
    assert seen == [1, 2, 3, ["x"], 4, None, ["a", "b", "c"]]
    assert tree.tree_structure(0).walk(node, leaf, [7]) == 70
