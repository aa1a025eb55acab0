"""State dicts as flat dicts from names to arrays, for formats that support nothing else.

The name of an array is its path in the state dict, joined by dots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.serialization.state_dicts import from_state_dict, to_state_dict

SEPARATOR = "."
"""The separator of the names of a path."""


def named_arrays(
    target: Any, convert: Callable[[Any, str], np.ndarray], function: str
) -> dict[str, np.ndarray]:
    """Return the leaves of a tree by name, each as `convert(leaf, name)`; None is omitted.

    Raises: ValueError if two leaves have the same name, and what `convert` raises.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, leaf in _flat(to_state_dict(target), ()):
        if leaf is None:
            continue
        if name in arrays:
            raise ValueError(
                three_lines(
                    f"{function} of a {type(target).__name__} at {current_source()}",
                    f"two arrays have the path {name}",
                    f"use keys without {SEPARATOR!r}",
                )
            )
        arrays[name] = convert(leaf, name)
    return arrays


def restored(target: Any, found: Mapping[str, np.ndarray], strict: bool, function: str) -> Any:
    """Return a tree like `target` from named arrays; without a target, nested dicts.

    Raises: ValueError with the paths, for missing and unexpected names, wrong shapes and dtypes.
    """
    if target is None:
        return _nested(found)
    wanted = dict(_flat(to_state_dict(target), ()))
    missing = [name for name, leaf in wanted.items() if leaf is not None and name not in found]
    unexpected = [name for name in found if name not in wanted]
    if missing or (strict and unexpected):
        wrong = [f"missing: {', '.join(missing)}"] if missing else []
        wrong += [f"unexpected: {', '.join(unexpected)}"] if unexpected else []
        raise ValueError(
            three_lines(
                f"{function} into a {type(target).__name__} of {len(wanted)} names from "
                f"{len(found)} tensors at {current_source()}",
                f"the names of the tensors are not those of the target; {'; '.join(wrong)}",
                "load with None as the target and rename the tensors"
                + ("" if missing else ", or pass strict=False to leave them out"),
            )
        )
    return from_state_dict(target, _filled(to_state_dict(target), found, ()))


def _flat(state: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(state, dict):
        for key, child in state.items():
            yield from _flat(child, (*path, key))
    else:
        yield SEPARATOR.join(path), state


def _filled(state: Any, found: Mapping[str, np.ndarray], path: tuple[str, ...]) -> Any:
    """Return a state dict with the tensors as its leaves; Python numbers remain Python numbers."""
    if isinstance(state, dict):
        return {key: _filled(child, found, (*path, key)) for key, child in state.items()}
    array = found.get(SEPARATOR.join(path))
    if array is None:
        return state
    if array.ndim == 0 and isinstance(state, np.generic):
        return array[()]
    if array.ndim == 0 and isinstance(state, (bool, int, float, complex)):
        return type(state)(array.item())
    return array


def _nested(found: Mapping[str, np.ndarray]) -> Any:
    """Return nested dicts; names that extend an array's stay joined, such as `w.scale` with `w`."""
    if set(found) == {""}:
        return found[""]
    tree: dict[str, Any] = {}
    for name, array in found.items():
        node, path = tree, name.split(SEPARATOR)
        for i in range(1, len(path)):
            if SEPARATOR.join(path[:i]) in found:
                node[SEPARATOR.join(path[i - 1 :])] = array
                break
            node = node.setdefault(path[i - 1], {})
        else:
            node[path[-1]] = array
    return tree
