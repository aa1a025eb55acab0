"""Values that a module holds: finding the submodules in them, naming them, replacing them.

Submodules may be in lists, tuples, dictionaries and other pytrees, at any depth: their names are
the attribute's name and the positions or keys of the path, joined by underscores.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

from kiln.base.tree import flatten_one_level, tree_structure, tree_unflatten
from kiln.base.tree.nodes import is_namedtuple
from kiln.linen.frozen_dict import FrozenDict

# The types of most hyper-parameters: they contain nothing, and are immutable.
PLAIN = frozenset({str, int, float, bool, complex, type(None), type, types.FunctionType})


def is_module(value: Any) -> bool:
    """Tell whether a value is a module."""
    return hasattr(type(value), "_run_method")


def map_modules(
    change: Callable[[str, Any], Any],
    value: Any,
    suffix: str = "",
    *,
    wanted: Callable[[Any], bool] = is_module,
) -> Any:
    """Return a value with `change(suffix, module)` in place of every module inside it.

    `wanted` may select other values than modules. Containers without any are returned unchanged.
    """
    if type(value) in PLAIN:
        return value
    if wanted(value):
        return change(suffix, value)
    if isinstance(value, (list, tuple)):
        names: Any = getattr(value, "_fields", range(len(value)))
        mapped = [
            map_modules(change, v, f"{suffix}_{n}", wanted=wanted)
            for n, v in zip(names, value, strict=True)
        ]
        if all(a is b for a, b in zip(mapped, value, strict=True)):
            return value
        return type(value)(*mapped) if is_namedtuple(type(value)) else type(value)(mapped)
    if isinstance(value, Mapping):
        # Sorted as the keys of a pytree: a module that is there twice is named after the first.
        items = dict(value)
        for k in sorted_keys(value):
            items[k] = map_modules(change, value[k], f"{suffix}_{k}", wanted=wanted)
        if all(items[k] is value[k] for k in items):
            return value
        return type(value)(items)  # type: ignore[call-arg]
    if isinstance(value, type) or callable(value):
        return value
    return _map_pytree(change, value, suffix, wanted)


def sorted_keys(value: Mapping[Any, Any]) -> list[Any]:
    """Return the keys of a mapping in order if they have one, otherwise as they are."""
    try:
        return sorted(value)
    except TypeError:
        return list(value)


def _map_pytree(
    change: Callable[[str, Any], Any], value: Any, suffix: str, wanted: Callable[[Any], bool]
) -> Any:
    level = flatten_one_level(value)
    if level is None:
        return value
    children = level[0]
    names = getattr(value, "__dataclass_fields__", None)
    steps: Any = list(names) if names and len(names) == len(children) else range(10**9)
    mapped = [
        map_modules(change, child, f"{suffix}_{step}", wanted=wanted)
        for step, child in zip(steps, children, strict=False)
    ]
    if all(a is b for a, b in zip(mapped, children, strict=True)):
        return value
    inside = iter(mapped)
    top = tree_structure(value, is_leaf=lambda node: node is not value)
    return tree_unflatten(top, inside)


def modules_in(value: Any, wanted: Callable[[Any], bool] = is_module) -> list[Any]:
    """Return the modules, or other wanted values, inside a value."""
    found: list[Any] = []

    def note(suffix: str, module: Any) -> Any:
        found.append(module)
        return module

    map_modules(note, value, wanted=wanted)
    return found


def frozen(value: Any) -> Any:
    """Return a value assigned by `setup` in immutable form: lists as tuples, dicts frozen."""
    if isinstance(value, list):
        return tuple(frozen(v) for v in value)
    if isinstance(value, tuple) and not is_namedtuple(type(value)):
        return tuple(frozen(v) for v in value)
    if isinstance(value, dict):
        return FrozenDict({k: frozen(v) for k, v in value.items()})
    return value
