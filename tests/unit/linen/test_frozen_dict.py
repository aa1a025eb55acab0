from __future__ import annotations

import pickle

import pytest

import kiln
from kiln.linen import frozen_dict
from kiln.linen.frozen_dict import FrozenDict, freeze, pretty_repr, unfreeze


def test_inner_dicts_are_shown_frozen() -> None:
    frozen = freeze({"b": {"c": 1}, "a": 2})
    assert isinstance(frozen["b"], FrozenDict)
    assert list(frozen) == ["b", "a"]
    assert frozen.get("q") is None
    assert isinstance(next(iter(frozen.values())), FrozenDict)


def test_nothing_can_be_changed() -> None:
    given = {"a": {"b": 1}}
    frozen = FrozenDict(given)
    given["a"]["b"] = 2
    assert frozen == {"a": {"b": 1}}
    with pytest.raises(ValueError, match="FrozenDict is immutable"):
        frozen["a"] = 3
    thawed = unfreeze(frozen)
    thawed["a"]["b"] = 5
    assert frozen["a"]["b"] == 1


def test_equality_and_hash_do_not_depend_on_order() -> None:
    one, other = freeze({"a": 1, "b": {"c": 2}}), freeze({"b": {"c": 2}, "a": 1})
    assert one == other
    assert hash(one) == hash(other)
    assert one == {"b": {"c": 2}, "a": 1}
    assert one != freeze({"a": 1})
    assert one != 3


def test_an_unhashable_leaf_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(freeze({"a": [1]}))


def test_a_tree_of_arrays() -> None:
    frozen = freeze({"b": {"c": 1}, "a": 2})
    leaves, treedef = kiln.tree_util.tree_flatten(frozen)
    assert leaves == [2, 1]
    assert kiln.tree_util.tree_unflatten(treedef, leaves) == frozen
    paths = [kiln.tree_util.keystr(path) for path, _ in kiln.tree.leaves_with_path(frozen)]
    assert paths == ["['a']", "['b']['c']"]
    doubled = kiln.jit(lambda t: kiln.tree.map(lambda x: 2 * x, t))(frozen)
    assert isinstance(doubled, FrozenDict)
    assert doubled["b"]["c"] == 2


def test_copy_and_pop() -> None:
    frozen = freeze({"a": 1, "b": 2})
    assert frozen.copy({"a": freeze({"c": 3})}) == {"a": {"c": 3}, "b": 2}
    rest, value = frozen.pop("a")
    assert (rest, value) == (freeze({"b": 2}), 1)
    assert frozen_dict.copy({"a": 1}, {"b": 2}) == {"a": 1, "b": 2}
    assert frozen_dict.pop({"a": 1, "b": 2}, "a") == ({"b": 2}, 1)
    assert isinstance(frozen_dict.copy(frozen), FrozenDict)
    assert isinstance(frozen_dict.pop(frozen, "a")[0], FrozenDict)
    with pytest.raises(KeyError):
        frozen.pop("c")
    with pytest.raises(TypeError, match="Expected FrozenDict or dict"):
        frozen_dict.copy(3)
    with pytest.raises(TypeError, match="Expected FrozenDict or dict"):
        frozen_dict.pop(3, "a")


def test_text() -> None:
    text = "FrozenDict({\n    a: {\n        b: 'x',\n        c: {},\n    },\n})"
    assert repr(freeze({"a": {"b": "x", "c": {}}})) == text
    assert repr(freeze({})) == "FrozenDict({})"
    assert pretty_repr({"a": 1}, 2) == "{\n  a: 1,\n}"
    assert pretty_repr(3) == "3"
    assert repr(freeze({"a": 1}).keys()) == "frozen_dict_keys(['a'])"
    assert repr(freeze({"a": 1}).values()) == "frozen_dict_values([1])"


def test_pickle() -> None:
    frozen = freeze({"a": {"b": 1}})
    again = pickle.loads(pickle.dumps(frozen))
    assert isinstance(again, FrozenDict)
    assert again == frozen
