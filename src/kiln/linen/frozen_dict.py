"""FrozenDict: an immutable nested dict, and functions that accept either kind of dict."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, NoReturn, TypeVar, cast

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import DictKey, register_pytree_with_keys_class
from kiln.serialization.state_dicts import (
    register_serialization_state,
    restored_items,
    to_state_dict,
)

K = TypeVar("K")
V = TypeVar("V")


@register_pytree_with_keys_class
class FrozenDict(Mapping[K, V]):
    """A deeply immutable mapping; a pytree node.

    Nested dicts are stored as dicts and returned as FrozenDicts. Hashable if the leaves are.

    Example:
        >>> variables = linen.FrozenDict({"params": {"w": 1.0}})
        >>> variables.copy({"extra": 2.0})
        FrozenDict({
            params: {
                w: 1.0,
            },
            extra: 2.0,
        })
    """

    __slots__ = ("_dict", "_hash")
    _dict: dict[K, V]
    _hash: int | None

    def __init__(self, *args: Any, __unsafe_skip_copy__: bool = False, **kwargs: Any) -> None:
        items = dict(*args, **kwargs)
        self._dict = items if __unsafe_skip_copy__ else cast("dict[K, V]", _thawed(items))
        self._hash = None

    def __getitem__(self, key: K) -> Any:
        value = self._dict[key]
        return _sharing(value) if isinstance(value, dict) else value

    def __setitem__(self, key: K, value: Any) -> NoReturn:
        raise ValueError(
            three_lines(
                f"FrozenDict[{key!r}] = ... at {current_source()}",
                "FrozenDict is immutable.",
                f"write .copy({{{key!r}: ...}}), or unfreeze it first",
            )
        )

    def __contains__(self, key: object) -> bool:
        return key in self._dict

    def __iter__(self) -> Iterator[K]:
        return iter(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, FrozenDict):
            return self._dict == other._dict
        return isinstance(other, Mapping) and self._dict == _thawed(other)

    def __hash__(self) -> int:
        if self._hash is None:
            # Items may come in any order, as in ==.
            self._hash = hash(frozenset((key, cast("Hashable", v)) for key, v in self.items()))
        return self._hash

    def __repr__(self) -> str:
        return self.pretty_repr()

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (self.unfreeze(),)

    def pretty_repr(self, num_spaces: int = 4) -> str:
        """Return the text of the tree, indented by depth."""
        return f"FrozenDict({_braced(self._dict, num_spaces)})"

    def copy(self, add_or_replace: Mapping[K, V] | None = None) -> FrozenDict[K, V]:
        """Return a FrozenDict with items added or replaced."""
        return type(self)({**self._dict, **_thawed(add_or_replace or {})})

    def keys(self) -> KeysView[K]:
        """Return a view of the keys."""
        return _Keys(self)

    def values(self) -> ValuesView[V]:
        """Return a view of the values."""
        return _Values(self)

    def items(self) -> ItemsView[K, V]:
        """Return a view of the items."""
        return ItemsView(self)

    def pop(self, key: K) -> tuple[FrozenDict[K, V], V]:
        """Return the FrozenDict without an item, and the item's value.

        Raises: KeyError if there is no such key.
        """
        value = self[key]
        return type(self)({k: v for k, v in self._dict.items() if k != key}), value

    def unfreeze(self) -> dict[K, V]:
        """Return a mutable copy as plain dicts."""
        plain: dict[K, V] = _thawed(self)
        return plain

    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[DictKey, Any], ...], tuple[K, ...]]:
        """Return the items sorted by key, and the keys."""
        keys = tuple(sorted(self._dict))  # type: ignore[type-var]
        return tuple((DictKey(key), self._dict[key]) for key in keys), keys

    @classmethod
    def tree_unflatten(cls, keys: tuple[K, ...], values: Any) -> FrozenDict[K, V]:
        """Return a FrozenDict made from keys and values."""
        return cls(zip(keys, values, strict=True), __unsafe_skip_copy__=True)


class _Keys(KeysView[K]):
    def __repr__(self) -> str:
        return f"frozen_dict_keys({list(self)})"


class _Values(ValuesView[V]):
    def __repr__(self) -> str:
        return f"frozen_dict_values({list(self)})"


def _thawed(value: Any) -> Any:
    """Return a copy of nested mappings of this module's types as dicts; other values unchanged."""
    if isinstance(value, FrozenDict):
        value = value._dict
    if not isinstance(value, dict):
        return value
    return {key: _thawed(child) for key, child in value.items()}


def _sharing(items: dict[Any, Any]) -> FrozenDict[Any, Any]:
    return FrozenDict(items, __unsafe_skip_copy__=True)


def _braced(value: Any, num_spaces: int) -> str:
    if not isinstance(value, dict):
        return repr(value)
    if not value:
        return "{}"
    indent = " " * num_spaces
    lines = "".join(f"{key}: {_braced(child, num_spaces)},\n" for key, child in value.items())
    return f"{{\n{textwrap.indent(lines, indent)}}}"


def freeze(xs: Mapping[Any, Any]) -> FrozenDict[Any, Any]:
    """Convert a nested mapping to a FrozenDict.

    Example:
        >>> linen.freeze({"a": {"b": 1}})["a"]
        FrozenDict({
            b: 1,
        })
    """
    return FrozenDict(xs)


def unfreeze(x: Any) -> Any:
    """Convert a FrozenDict or dict, and those inside, to plain dicts, as a copy.

    Example:
        >>> linen.unfreeze(linen.freeze({"a": {"b": 1}}))
        {'a': {'b': 1}}
    """
    return _thawed(x)


def copy(x: Any, add_or_replace: Mapping[Any, Any] | None = None) -> Any:
    """Return a FrozenDict or dict of the same kind, with items added or replaced.

    Raises: TypeError for anything else.
    """
    if isinstance(x, FrozenDict):
        return x.copy(add_or_replace)
    _require_dict("copy", x)
    return {**unfreeze(x), **(add_or_replace or {})}


def pop(x: Any, key: Any) -> tuple[Any, Any]:
    """Return a FrozenDict or dict of the same kind without an item, and the item's value.

    Raises: TypeError for anything else, KeyError if there is no such key.
    """
    if isinstance(x, FrozenDict):
        return x.pop(key)
    _require_dict("pop", x)
    rest = unfreeze(x)
    value = rest.pop(key)
    return rest, value


def pretty_repr(x: Any, num_spaces: int = 4) -> str:
    """Return the text of a nested dict, indented by depth.

    A level is indented by `num_spaces`.
    """
    if isinstance(x, FrozenDict):
        return x.pretty_repr(num_spaces)
    return _braced(x, num_spaces)


def _require_dict(name: str, x: Any) -> None:
    if not isinstance(x, dict):
        raise TypeError(
            three_lines(
                f"{name}({x!r:.60}) at {current_source()}",
                f"Expected FrozenDict or dict, got {type(x)}",
                "give the variables of a module, or another dict",
            )
        )


register_serialization_state(
    FrozenDict,
    lambda xs: {str(key): to_state_dict(value) for key, value in xs.items()},
    lambda target, state: FrozenDict(restored_items(target, state)),
)
