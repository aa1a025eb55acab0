"""Nested dicts flattened by path: keys are tuples of names, or names joined by a separator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kiln import struct
from kiln.base.errors import three_lines
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.source import current_source

Path = tuple[Any, ...]
IsLeaf = Callable[[Path, Any], bool]

__all__ = [
    "ModelParamTraversal",
    "empty_node",
    "flatten_dict",
    "path_aware_map",
    "unflatten_dict",
]


@struct.dataclass
class _EmptyNode:
    """The placeholder for an empty dict in a flat one."""


empty_node = _EmptyNode()


def flatten_dict(
    xs: Mapping[Any, Any],
    keep_empty_nodes: bool = False,
    is_leaf: IsLeaf | None = None,
    sep: str | None = None,
) -> dict[Any, Any]:
    """Return the leaves of a nested dict by path: tuples of names, or names joined by `sep`.

    `is_leaf(path, dict)` tells which dicts to treat as leaves. Empty dicts are omitted, or kept as
    `empty_node` if `keep_empty_nodes`.

    Raises: TypeError if not a mapping.
    """
    _require_mapping("flatten_dict", xs)
    flat: dict[Any, Any] = {}
    for path, leaf in _leaves(xs, (), is_leaf):
        if leaf is not empty_node or (keep_empty_nodes and path):
            flat[path if sep is None else sep.join(path)] = leaf
    return flat


def _leaves(value: Any, path: Path, is_leaf: IsLeaf | None) -> Iterator[tuple[Path, Any]]:
    if not isinstance(value, Mapping) or (is_leaf is not None and is_leaf(path, value)):
        yield path, value
    elif not value:
        yield path, empty_node
    else:
        for key, child in value.items():
            yield from _leaves(child, (*path, key), is_leaf)


def unflatten_dict(xs: Mapping[Any, Any], sep: str | None = None) -> dict[Any, Any]:
    """Return the nested dict whose leaves `flatten_dict` returned.

    Raises: TypeError if not a mapping, ValueError for a path that goes through a leaf.
    """
    _require_mapping("unflatten_dict", xs)
    nested: dict[Any, Any] = {}
    inner: dict[Path, dict[Any, Any]] = {(): nested}
    for key, value in xs.items():
        path = key if sep is None else tuple(key.split(sep))
        node = nested
        for depth in range(1, len(path)):
            above = path[:depth]
            if above not in inner:
                if above[-1] in node:
                    _refuse_crossing(path)
                inner[above] = node[above[-1]] = {}
            node = inner[above]
        if path in inner:
            _refuse_crossing(path)
        node[path[-1]] = {} if value is empty_node else value
    return nested


def path_aware_map(f: Callable[[Path, Any], Any], nested_dict: Mapping[Any, Any]) -> dict[Any, Any]:
    """Apply `f(path, leaf)` to each leaf of a nested dict; empty dicts are kept.

    A path is a tuple of keys of `nested_dict`.
    """
    flat = flatten_dict(nested_dict, keep_empty_nodes=True)
    return unflatten_dict({p: v if v is empty_node else f(p, v) for p, v in flat.items()})


class ModelParamTraversal:
    """The parameters in a nested dict for which `filter_fn("/name/name", parameter)` holds."""

    def __init__(self, filter_fn: Callable[[str, Any], bool]) -> None:
        self._filter = filter_fn

    def iterate(self, inputs: Mapping[Any, Any]) -> Iterator[Any]:
        """Yield the parameters, ordered by path."""
        for path, value in sorted(flatten_dict(inputs).items()):
            if self._filter("/" + "/".join(path), value):
                yield value

    def update(self, fn: Callable[[Any], Any], inputs: Mapping[Any, Any]) -> Any:
        """Return a dict of the same type, with `fn` applied to these parameters."""
        flat = flatten_dict(inputs, keep_empty_nodes=True)
        updated = {}
        for path, value in sorted(flat.items(), key=lambda item: item[0]):
            chosen = value is not empty_node and self._filter("/" + "/".join(path), value)
            updated[path] = fn(value) if chosen else value
        nested = unflatten_dict(updated)
        return nested if isinstance(inputs, dict) else type(inputs)(nested)  # type: ignore[call-arg]


def _require_mapping(name: str, xs: Any) -> None:
    if not isinstance(xs, Mapping):
        raise TypeError(
            three_lines(
                f"{name}({xs!r:.60}) at {current_source()}",
                f"expected a dict or FrozenDict, got {type(xs)}",
                "give the variables of a module, or another dict",
            )
        )


def _refuse_crossing(path: Path) -> None:
    raise ValueError(
        three_lines(
            f"unflatten_dict with the path {path} at {current_source()}",
            "one path ends in a leaf, and another goes on behind it",
            "rename one of the two",
        )
    )


_suggest_names(globals())
