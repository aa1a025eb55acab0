from __future__ import annotations

import collections

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln.checkpoints.entries import Layout
from kiln.checkpoints.leaves import held, leaves_with_paths, rebuilt, structure_of
from kiln.sharding import NamedSharding, P, make_mesh


def test_paths_tell_names_apart() -> None:
    tree = {"a/b": 1, "a": {"b": 2}, "a%2Fb": 3, "": 4, "%": [5, None]}
    pairs, treedef = leaves_with_paths(tree)
    assert len({path for path, _ in pairs}) == 6
    assert treedef.unflatten([leaf for _, leaf in pairs]) == tree
    assert leaves_with_paths(7)[0] == [("", 7)]


def test_structures_come_back() -> None:
    tree = {"b": [1, (2, None), {}], "a": {True: (), 3: [4]}}
    leaves = [leaf for _, leaf in leaves_with_paths(tree)[0]]
    assert rebuilt(structure_of(tree), iter(leaves)) == tree
    other = collections.OrderedDict([("y", 1), ("x", [2])])
    described = structure_of(other)
    assert described["class"] == "collections.OrderedDict"
    assert rebuilt(described, iter([1, 2])) == {"y": 1, "x": [2]}


def test_each_part_is_held_once() -> None:
    mesh = make_mesh((2, 2), ("a", "b"))
    x = kiln.device_put(jnp.arange(8.0).reshape(4, 2), NamedSharding(mesh, P("a")))
    (leaf,) = held(x, "saving", copy=False)
    assert leaf.entry.layout == Layout((2, 1), (0, 0))
    np.testing.assert_array_equal(leaf.parts, np.arange(8.0).reshape(2, 2, 2))
    np.testing.assert_array_equal(leaf.parts[1].data, [[4, 5], [6, 7]])


def test_copies_are_made_of_what_may_change() -> None:
    x = np.ones(3)
    assert np.shares_memory(held(x, "saving", copy=False)[0].parts[0].data, x)
    assert not np.shares_memory(held(x, "saving", copy=True)[0].parts[0].data, x)
