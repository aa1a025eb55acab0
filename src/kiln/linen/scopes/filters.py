"""Filters that select collections or random streams.

A filter is True (all), False (none), a name, a collection of names, or a `DenyList` (all but).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kiln.linen.errors import InvalidFilterError


@dataclasses.dataclass(frozen=True)
class DenyList:
    """Every name except those that the filter `deny` selects.

    Example:
        >>> norm, x = linen.BatchNorm(use_running_average=False), jnp.ones((4, 2))
        >>> variables = norm.init(random.key(0), x)
        >>> sorted(norm.apply(variables, x, mutable=linen.DenyList("params"))[1])
        ['batch_stats']
    """

    deny: CollectionFilter


Filter = bool | str | Collection[str] | DenyList
CollectionFilter = Filter
PRNGSequenceFilter = Filter
NOT_INTERMEDIATES = DenyList("intermediates")


def in_filter(wanted: Filter, name: str) -> bool:
    """Tell whether a filter selects a name.

    Raises: InvalidFilterError for anything that is not a filter.
    """
    if isinstance(wanted, bool):
        return wanted
    if isinstance(wanted, str):
        return name == wanted
    if isinstance(wanted, DenyList):
        return not in_filter(wanted.deny, name)
    if isinstance(wanted, Collection):
        return name in wanted
    raise InvalidFilterError(wanted)


def _parts(wanted: Filter) -> tuple[bool, frozenset[str]]:
    # Every filter is a finite set of names, or all names but a finite set.
    if isinstance(wanted, bool):
        return wanted, frozenset()
    if isinstance(wanted, str):
        return False, frozenset((wanted,))
    if isinstance(wanted, DenyList):
        endless, names = _parts(wanted.deny)
        return not endless, names
    if isinstance(wanted, Collection):
        return False, frozenset(wanted)
    raise InvalidFilterError(wanted)


def _of_parts(endless: bool, names: frozenset[str]) -> Filter:
    if endless:
        return DenyList(names) if names else True
    return names


def is_filter_empty(wanted: Filter) -> bool:
    """Tell whether a filter selects no name.

    Raises: InvalidFilterError for what is not a filter.
    """
    endless, names = _parts(wanted)
    return not endless and not names


def filter_to_set(wanted: Filter) -> set[str]:
    """Return the names that a filter selects, if they are finitely many.

    Raises: InvalidFilterError for a filter that selects all names but some.
    """
    endless, names = _parts(wanted)
    if endless:
        raise InvalidFilterError(wanted)
    return set(names)


def union_filters(a: Filter, b: Filter) -> Filter:
    """Return the union of two filters.

    `a` and `b` are booleans, names, collections of names, or DenyLists.
    Raises: InvalidFilterError for what is not a filter.
    """
    (endless_a, names_a), (endless_b, names_b) = _parts(a), _parts(b)
    if endless_a and endless_b:
        return _of_parts(True, names_a & names_b)
    if endless_a:
        return _of_parts(True, names_a - names_b)
    if endless_b:
        return _of_parts(True, names_b - names_a)
    return _of_parts(False, names_a | names_b)


def intersect_filters(a: Filter, b: Filter) -> Filter:
    """Return the intersection of two filters.

    `a` and `b` are booleans, names, collections of names, or DenyLists.
    Raises: InvalidFilterError for what is not a filter.
    """
    return _complement(union_filters(_complement(a), _complement(b)))


def subtract_filters(a: Filter, b: Filter) -> Filter:
    """Return the filter of the names that the first filter selects and the second does not.

    `a` and `b` are booleans, names, collections of names, or DenyLists.
    Raises: InvalidFilterError for what is not a filter.
    """
    return intersect_filters(a, _complement(b))


def _complement(wanted: Filter) -> Filter:
    endless, names = _parts(wanted)
    return _of_parts(not endless, names)


def group_collections(
    variables: Mapping[str, Any], filters: Sequence[CollectionFilter]
) -> tuple[dict[str, Any], ...]:
    """Divide collections among filters: each goes to the first that selects it, or is dropped.

    `variables` has collections by name.
    Raises: InvalidFilterError for what is not a filter.
    """
    groups: tuple[dict[str, Any], ...] = tuple({} for _ in filters)
    for name, collection in variables.items():
        for wanted, group in zip(filters, groups, strict=True):
            if in_filter(wanted, name):
                group[name] = collection
                break
    return groups


def filter_key(wanted: Filter) -> tuple[bool, frozenset[str]]:
    """Return a key that is equal for filters that select the same names.

    Raises: InvalidFilterError for what is not a filter.
    """
    return (True, frozenset()) if wanted is True else _parts(wanted)
