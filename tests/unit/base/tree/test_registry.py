"""One level of a pytree; the classes of nodes as a mapping that follows registrations."""

from __future__ import annotations

import collections
from typing import Any

import pytest

import kiln
from kiln.base.tree.registry import flatten_one_level_with_keys, node_classes

Pair = collections.namedtuple("Pair", ["a", "b"])


class Named:
    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value


def test_classes_are_listed_as_they_are_registered() -> None:
    assert {tuple, list, dict, type(None), collections.OrderedDict} <= set(node_classes)
    assert Named not in node_classes and 3 not in node_classes
    before = len(node_classes)
    kiln.tree_util.register_pytree_node(
        Named, lambda x: ((x.value,), x.name), lambda name, kids: Named(name, *kids)
    )
    assert Named in node_classes and len(node_classes) == before + 1
    with pytest.raises(KeyError):
        node_classes[int]


def test_namedtuples_are_not_listed_though_they_are_nodes() -> None:
    assert kiln.tree.leaves(Pair(1, 2)) == [1, 2]
    assert Pair not in node_classes and Pair not in list(node_classes)
    with pytest.raises(KeyError):
        node_classes[Pair]


@pytest.mark.parametrize(
    "value",
    [
        (1, 2),
        [1],
        {"b": 1, "a": 2},
        None,
        collections.OrderedDict(b=1, a=2),
        collections.defaultdict(int, b=1),
    ],
)
def test_nodes_come_apart_and_are_put_together(value: Any) -> None:
    functions = node_classes[type(value)]
    children, data = functions.to_iter(value)
    again = functions.from_iter(data, iter(children))
    assert again == value and type(again) is type(value)


def test_one_level_with_keys() -> None:
    pairs, data = flatten_one_level_with_keys({"a": [1], "b": 2})
    assert [str(key) for key, _ in pairs] == ["['a']", "['b']"]
    assert [child for _, child in pairs] == [[1], 2] and data == ("a", "b")
    with pytest.raises(ValueError, match="can't tree-flatten type"):
        flatten_one_level_with_keys(3)
