"""Caching recorded programs by the content of the functions they were recorded from.

The second level of the caches: programs for new function objects with known content. The arrays
that functions close over are not stored, but inserted for each function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.tree import PyTreeDef
from kiln.core.arrays.array import ConcreteArray
from kiln.core.trace import Tracer

_CONTAINERS = (tuple, list, dict, type(None))

Slots = tuple[tuple[int | None, Any], ...]
"""For each constant of a program: which operand it is, or None and the constant itself."""


def slots_of(consts: Sequence[Any], operands: Sequence[ConcreteArray]) -> Slots | None:
    """Return the sources of a program's constants, or None if one of them is traced."""
    numbers = {id(x): i for i, x in enumerate(operands)}
    slots: list[tuple[int | None, Any]] = []
    for x in consts:
        if isinstance(x, Tracer):
            return None
        number = numbers.get(id(x))
        slots.append((None, x) if number is None else (number, None))
    return tuple(slots)


def constants_from(slots: Slots, operands: Sequence[ConcreteArray]) -> list[Any]:
    """Return the constants of a program for the operands of one function."""
    return [x if number is None else operands[number] for number, x in slots]


def is_plain(tree: PyTreeDef, *others: type) -> bool:
    """Tell whether a structure has only tuples, lists and dicts, which equality distinguishes.

    Other nodes have classes, methods and metadata, which may change or be kept alive, except
    `others`.
    """
    return _is_plain(tree.key, (*_CONTAINERS, *others))


def _is_plain(root: Any, kinds: tuple[type, ...]) -> bool:
    left = [root]
    while left:
        key = left.pop()
        if key is None:
            continue
        kind, data, children = key
        if kind not in kinds:
            return False
        # 1, 1.0 and True are equal as dict keys, but are different values.
        if kind is dict and len({type(k) for k in data} - {str}):
            if {type(k) for k in data} != {int}:
                return False
        if children.count(None) < len(children):
            left += children
    return True
