from __future__ import annotations

import pytest

from kiln.linen import FrozenDict
from kiln.traverse_util import (
    ModelParamTraversal,
    empty_node,
    flatten_dict,
    path_aware_map,
    unflatten_dict,
)

NESTED = {"a": {"b": 1, "c": {}}, "d": [{"x": 2}]}


def test_paths_and_back() -> None:
    assert flatten_dict(NESTED) == {("a", "b"): 1, ("d",): [{"x": 2}]}
    assert flatten_dict(NESTED, sep="/") == {"a/b": 1, "d": [{"x": 2}]}
    kept = flatten_dict(NESTED, keep_empty_nodes=True)
    assert kept["a", "c"] is empty_node
    assert unflatten_dict(kept) == NESTED


def test_leaves_may_be_dicts() -> None:
    flat = flatten_dict(NESTED, is_leaf=lambda path, value: path == ("a",))
    assert flat[("a",)] is NESTED["a"]


def test_map_with_paths() -> None:
    found = path_aware_map(lambda path, leaf: "/".join(path), NESTED)
    assert found == {"a": {"b": "a/b", "c": {}}, "d": "d"}


@pytest.mark.parametrize("flat", [{("a",): 1, ("a", "b"): 2}, {("a", "b"): 2, ("a",): 1}])
def test_a_path_through_a_leaf(flat) -> None:
    with pytest.raises(ValueError, match="one path ends in a leaf"):
        unflatten_dict(flat)


@pytest.mark.parametrize("function", [flatten_dict, unflatten_dict])
def test_what_is_no_dict(function) -> None:
    with pytest.raises(TypeError, match="expected a dict"):
        function(3)


def test_the_kind_of_dict_is_kept() -> None:
    kernels = ModelParamTraversal(lambda path, value: path.endswith("/k"))
    params = FrozenDict({"a": {"k": 1, "b": 2}, "e": {}})
    updated = kernels.update(lambda x: -x, params)
    assert isinstance(updated, FrozenDict)
    assert updated == {"a": {"k": -1, "b": 2}, "e": {}}
    assert list(kernels.iterate(params)) == [1]
