"""Filters of names: what they hold, and their unions, intersections and differences."""

from __future__ import annotations

import itertools

import pytest

from kiln.linen.errors import InvalidFilterError
from kiln.linen.scopes.filters import (
    DenyList,
    filter_to_set,
    group_collections,
    in_filter,
    intersect_filters,
    is_filter_empty,
    subtract_filters,
    union_filters,
)

NAMES = ["a", "b", "c", "d"]
FILTERS = [
    True,
    False,
    "a",
    ["a", "b"],
    ("b", "c"),
    {"d"},
    [],
    DenyList("a"),
    DenyList(["a", "b"]),
    DenyList(True),
    DenyList(False),
    DenyList(DenyList(["b"])),
]


def held(wanted):
    return {name for name in NAMES if in_filter(wanted, name)}


@pytest.mark.parametrize(("a", "b"), list(itertools.product(FILTERS, repeat=2)))
def test_set_operations_are_those_of_the_names_held(a, b):
    assert held(union_filters(a, b)) == held(a) | held(b)
    assert held(intersect_filters(a, b)) == held(a) & held(b)
    assert held(subtract_filters(a, b)) == held(a) - held(b)


@pytest.mark.parametrize("wanted", FILTERS)
def test_empty_means_that_no_name_is_held(wanted):
    assert is_filter_empty(wanted) == (not held(wanted))


def test_names_of_a_finite_filter():
    assert filter_to_set(["a", "b"]) == {"a", "b"}
    assert filter_to_set("a") == {"a"}
    with pytest.raises(InvalidFilterError):
        filter_to_set(DenyList("a"))


def test_collections_go_to_the_first_filter_that_holds_them():
    found = group_collections({"a": 1, "b": 2, "c": 3}, ["a", True, "b"])
    assert found == ({"a": 1}, {"b": 2, "c": 3}, {})


def test_anything_else_is_no_filter():
    for ask in (lambda f: in_filter(f, "a"), is_filter_empty):
        with pytest.raises(InvalidFilterError, match="Invalid Filter"):
            ask(3.5)
