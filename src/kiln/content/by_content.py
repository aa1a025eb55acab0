"""Recorded programs under the content of the functions they were recorded from.

Level (b) of the caches: what a fresh function with known content was traced to before. The arrays
that functions close over are left out of what is kept, and put in anew for each function.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.tree import PyTreeDef
from kiln.core.array import ConcreteArray
from kiln.core.trace import Tracer

_CONTAINERS = (tuple, list, dict, type(None))

Slots = tuple[tuple[int | None, Any], ...]
"""For each constant of a program: which operand it is, or None and the constant itself."""


def slots_of(consts: Sequence[Any], operands: Sequence[ConcreteArray]) -> Slots | None:
    """Say where the constants of a program come from; None if one is traced."""
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
    """Tell whether a structure has tuples, lists and dicts only, that equality tells apart.

    Other nodes have classes, methods and metadata, which may change or be kept alive; `others` do
    not.
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
        # 1, 1.0 and True are equal as keys, and not as numbers.
        if kind is dict and len({type(k) for k in data} - {str}):
            if {type(k) for k in data} != {int}:
                return False
        if children.count(None) < len(children):
            left += children
    return True
