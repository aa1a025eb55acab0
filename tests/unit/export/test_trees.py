"""Structures of pytrees as tables, and the classes of nodes that have a stored form."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

import kiln
from kiln import export
from kiln.export import node_classes
from kiln.export.trees import argument_names, tree_of, tree_table


class Point(NamedTuple):
    x: Any
    y: Any


@kiln.tree_util.register_pytree_node_class
@dataclasses.dataclass
class Box:
    inside: Any
    label: str

    def tree_flatten(self):
        return (self.inside,), self.label

    @classmethod
    def tree_unflatten(cls, label, children):
        return cls(*children, label)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Let each test register classes of its own."""
    for name in ("_by_class", "_by_name"):
        monkeypatch.setattr(node_classes, name, dict(getattr(node_classes, name)))


def again(tree):
    structure = kiln.tree.structure(tree)
    assert tree_of(tree_table(structure)) == structure
    return tree_table(structure)


@pytest.mark.parametrize(
    "tree",
    [
        0,
        None,
        (),
        (1, [2, (3, None)]),
        {"b": 1, "a": {"c": (2,)}},
        {},
        collections.OrderedDict(b=1, a=2),
    ],
)
def test_plain_containers(tree):
    again(tree)


def test_keys_are_in_order():
    assert again({"b": 1, "a": 2})["keys"] == ["a", "b"]


def test_keys_that_are_no_strings():
    with pytest.raises(TypeError, match="only for dictionaries with string keys"):
        again({1: 2})
    with pytest.raises(NotImplementedError, match="string keys"):
        again(collections.OrderedDict({1: 2}))


def test_named_tuples():
    with pytest.raises(ValueError, match="register_namedtuple_serialization"):
        again(Point(1, 2))
    export.register_namedtuple_serialization(Point, serialized_name="Point")
    table = again(Point(1, (2, 3)))
    assert table["class_name"] == "Point" and table["data"] == b'["x", "y"]'
    with pytest.raises(ValueError, match="types other than namedtuples"):
        export.register_namedtuple_serialization(Box, serialized_name="Box")


def test_classes_with_data():
    def register(**changes):
        return export.register_pytree_node_serialization(
            **{
                "nodetype": Box,
                "serialized_name": "box",
                "serialize_auxdata": str.encode,
                "deserialize_auxdata": bytes.decode,
                **changes,
            }
        )

    assert register() is Box
    assert again({"a": Box((1, 2), "x")})["children"][0]["data"] == b"x"
    with pytest.raises(ValueError, match="Duplicate serialization registration for type"):
        register(serialized_name="another")
    with pytest.raises(ValueError, match="Duplicate serialization registration for serialized_na"):
        register(nodetype=Point, from_children=lambda _, kids: Point(*kids))
    with pytest.raises(ValueError, match="you must call register_pytree_node before"):
        register(nodetype=int, serialized_name="int")


def test_data_that_is_no_bytes():
    export.register_pytree_node_serialization(
        Box, serialized_name="box", serialize_auxdata=lambda x: x, deserialize_auxdata=bytes.decode
    )
    with pytest.raises(ValueError, match="must return bytes, got str"):
        again(Box(1, "x"))


def test_named_tuples_are_no_registered_nodes():
    class Pair(NamedTuple):
        x: Any

    kiln.tree.structure(Pair(1))
    with pytest.raises(ValueError, match="you must call register_pytree_node before"):
        export.register_pytree_node_serialization(
            Pair,
            serialized_name="pair",
            serialize_auxdata=lambda _: b"",
            deserialize_auxdata=lambda _: None,
        )


def test_classes_that_look_at_their_leaves():
    @kiln.tree_util.register_pytree_node_class
    class Described:
        def __init__(self, array, texts):
            assert array.shape == (len(texts),)
            self.array, self.texts = array, texts

        def tree_flatten(self):
            return (self.array,), self.texts

        @classmethod
        def tree_unflatten(cls, texts, children):
            return cls(*children, texts)

    export.register_pytree_node_serialization(
        Described,
        serialized_name="described",
        serialize_auxdata=lambda texts: "/".join(texts).encode(),
        deserialize_auxdata=lambda stored: tuple(stored.decode().split("/")),
    )
    given = collections.OrderedDict(d=Described(np.ones(2, np.float32), ("a", "b")))
    exported = export.export(kiln.jit(lambda d: d))(given)
    found = export.deserialize(exported.serialize()).call(given)["d"]
    assert found.texts == ("a", "b") and found.array.shape == (2,)


def test_from_children():
    made = []

    def from_children(data, children):
        made.append((data, children))
        return Box(children[0], data)

    export.register_pytree_node_serialization(
        Box,
        serialized_name="box",
        serialize_auxdata=str.encode,
        deserialize_auxdata=bytes.decode,
        from_children=from_children,
    )
    again(Box((1, 2), "x"))
    assert made == [("x", [0])]


def test_names_that_are_not_registered_here():
    with pytest.raises(ValueError, match="unregistered type `nobody`"):
        tree_of({"kind": 5, "children": [], "class_name": "nobody", "data": b""})
    with pytest.raises(ValueError, match="unknown kind 9"):
        tree_of({"kind": 9, "children": []})


def test_names_of_arguments():
    tree = kiln.tree.structure((({"w": 1}, [2]), {"k": 3}))
    assert argument_names(tree, [0] * 3) == ("args[0]['w']", "args[1][0]", "kwargs['k']")


def test_functions_of_registered_classes():
    export.register_namedtuple_serialization(Point, serialized_name="Point")
    exported = export.export(kiln.jit(lambda p: Point(p.y, p.x + 1)))(Point(1.0, 2.0))
    found = export.deserialize(exported.serialize()).call(Point(1.0, 2.0))
    assert type(found) is Point and [float(v) for v in found] == [2.0, 2.0]
