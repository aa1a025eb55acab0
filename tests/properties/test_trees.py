"""Containers of arrays come back as they were: flattened, mapped, jitted, differentiated."""

from __future__ import annotations

import collections
import dataclasses
import pickle
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import kiln
import kiln.numpy as jnp
from kiln import tree_util
from tests.properties.agreement import by_meaning
from tests.properties.exploring import explored


class Point(NamedTuple):
    """A named tuple."""

    x: Any
    y: Any


@tree_util.register_pytree_node_class
class Pair:
    """A class with children and a static name."""

    def __init__(self, left: Any, right: Any, name: str) -> None:
        self.left, self.right, self.name = left, right, name

    def tree_flatten(self) -> tuple[Any, str]:
        return (self.left, self.right), self.name

    @classmethod
    def tree_unflatten(cls, name: str, children: Any) -> Pair:
        return cls(*children, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pair) and vars(self) == vars(other)


@tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    """A dataclass with a static field."""

    weight: Any
    size: int = dataclasses.field(metadata={"static": True})


KEYS = st.text("abc", min_size=1, max_size=2)
LEAVES = st.floats(-4, 4, width=32)


def _containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.dictionaries(KEYS, children, max_size=3),
        st.dictionaries(KEYS, children, max_size=3).map(collections.OrderedDict),
        st.dictionaries(KEYS, children, max_size=3).map(lambda d: collections.defaultdict(list, d)),
        st.builds(Point, children, children),
        st.builds(Pair, children, children, KEYS),
        st.builds(Layer, children, st.integers(0, 2)),
    )


TREES = st.recursive(st.one_of(LEAVES, st.none()), _containers, max_leaves=8)


@explored(TREES, few=60, many=3000)
def test_unflatten_undoes_flatten(tree: Any) -> None:
    leaves, structure = kiln.tree.flatten(tree)
    again = kiln.tree.unflatten(structure, leaves)
    assert again == tree
    assert kiln.tree.structure(again) == structure
    assert hash(kiln.tree.structure(again)) == hash(structure)
    assert structure.num_leaves == len(leaves) == len(kiln.tree.leaves(tree))


@explored(TREES, few=40, many=2000)
def test_map_keeps_the_structure(tree: Any) -> None:
    assert kiln.tree.map(lambda x: x, tree) == tree
    doubled = kiln.tree.map(lambda x, y: x + y, tree, tree)
    assert kiln.tree.structure(doubled) == kiln.tree.structure(tree)
    assert kiln.tree.leaves(doubled) == [2 * x for x in kiln.tree.leaves(tree)]


@explored(TREES, few=40, many=2000)
def test_paths_are_distinct_and_in_order(tree: Any) -> None:
    pairs, structure = tree_util.tree_flatten_with_path(tree)
    assert structure == kiln.tree.structure(tree)
    assert [x for _, x in pairs] == kiln.tree.leaves(tree)
    names = [tree_util.keystr(path) for path, _ in pairs]
    assert len(set(names)) == len(names)


@explored(TREES, TREES, few=60, many=3000)
def test_structures_are_equal_if_trees_differ_in_leaves_only(first: Any, second: Any) -> None:
    a, b = kiln.tree.structure(first), kiln.tree.structure(second)
    marked = kiln.tree.map(lambda x: "leaf", first)
    assert (a == b) == (marked == kiln.tree.map(lambda x: "leaf", second) and _same(first, second))


def _same(x: Any, y: Any) -> bool:
    """Tell whether two equal trees also have equal container types (2-tuples equal Points)."""
    if type(x) is not type(y):
        return isinstance(x, float) and isinstance(y, float)
    if isinstance(x, (list, tuple)):
        return all(map(_same, x, y))
    if isinstance(x, dict):
        same_order = not isinstance(x, collections.OrderedDict) or list(x) == list(y)
        return same_order and all(_same(x[k], y[k]) for k in x)
    if isinstance(x, Pair):
        return x.name == y.name and _same(x.left, y.left) and _same(x.right, y.right)
    if isinstance(x, Layer):
        return x.size == y.size and _same(x.weight, y.weight)
    return True


@explored(TREES, few=24, many=1000)
def test_transpose_undoes_itself(tree: Any) -> None:
    outer = kiln.tree.structure(tree)
    inner = kiln.tree.structure([0, {"a": 0}])
    pairs = kiln.tree.map(lambda x: [x, {"a": -x}], tree)
    turned = kiln.tree.transpose(outer, inner, pairs)
    assert turned[0] == tree
    assert kiln.tree.transpose(inner, outer, turned) == pairs


@explored(TREES, few=16, many=500)
def test_jit_and_vmap_return_the_containers_they_were_given(tree: Any) -> None:
    structure = kiln.tree.structure(tree)
    with by_meaning():
        jitted = kiln.jit(lambda t: kiln.tree.map(lambda x: x + 1, t))(tree)
        assert kiln.tree.structure(jitted) == structure
        found = [float(x) for x in kiln.tree.leaves(jitted)]
        np.testing.assert_allclose(found, [x + 1 for x in kiln.tree.leaves(tree)], rtol=1e-6)
        if structure.num_leaves:
            rows = kiln.tree.map(lambda x: jnp.full(2, x), tree)
            mapped = kiln.vmap(lambda t: kiln.tree.map(lambda x: -x, t))(rows)
            assert kiln.tree.structure(mapped) == structure


@explored(TREES, few=16, many=500)
def test_grad_returns_the_containers_of_its_argument(tree: Any) -> None:
    def energy(t: Any) -> Any:
        return sum(jnp.float32(x) ** 2 for x in kiln.tree.leaves(t)) + 0.0 * jnp.float32(1)

    arrays = kiln.tree.map(jnp.float32, tree)
    with by_meaning():
        gradient = kiln.grad(energy)(arrays)
    assert kiln.tree.structure(gradient) == kiln.tree.structure(tree)
    found = [float(x) for x in kiln.tree.leaves(gradient)]
    np.testing.assert_allclose(found, [2 * x for x in kiln.tree.leaves(tree)], rtol=1e-6)


@explored(TREES, few=16, many=500)
def test_structures_survive_pickling(tree: Any) -> None:
    structure = kiln.tree.structure(tree)
    if "Pair" not in str(structure):
        assert pickle.loads(pickle.dumps(structure)) == structure
