"""From static values to keys: when two values count as the same.

Within one type, a value's own `__eq__` and `__hash__` decide. Builtin containers and dataclasses
with generated equality are compared part by part, and more strictly than by Python: 1, 1.0 and
True differ, as do 0.0 and -0.0, and nan equals itself.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Hashable
from typing import Any

import numpy as np

from kiln import _runtime
from kiln.base.errors import three_lines
from kiln.base.source import current_source

Comparison = tuple[Any, Hashable, bool, tuple[str, ...] | None, tuple[Any, ...]]
"""How the runtime compares a value: see `comparison_of`."""

ITEMS = None
"""In place of names of fields: the items are compared."""


class ByEquality:
    """A static value compared by type, hash and equality, and by `parts` if given."""

    __slots__ = ("hash", "parts", "value")

    def __init__(self, value: Any, parts: Hashable = None) -> None:
        self.value = value
        self.hash = hash(value)
        self.parts = parts

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ByEquality) or type(self.value) is not type(other.value):
            return False
        if self.hash != other.hash or self.parts != other.parts:
            return False
        try:
            return self.value is other.value or bool(self.value == other.value)
        except Exception as error:
            raise ValueError(
                three_lines(
                    f"comparison of two static arguments of type {type(self.value)} at "
                    f"{current_source()}",
                    "static arguments should be comparable using __eq__; their comparison raised "
                    f"{type(error).__name__}: {error}",
                    "let __eq__ return True or False",
                )
            ) from error


_PLAIN = (int, str, bool, bytes)


def static_key(value: Any) -> Hashable:
    """Return a key equal for equal values of one type, inside containers too.

    Raises: TypeError if the value is not hashable.
    """
    kind = type(value)
    if value is None or kind in _PLAIN:
        return (kind, value)
    if kind is float:
        return (kind, "nan" if value != value else value.hex())
    if kind is complex:
        return (kind, static_key(value.real), static_key(value.imag))
    if kind is tuple or (issubclass(kind, tuple) and _compares_items(kind)):
        return (kind, tuple(map(static_key, tuple.__iter__(value))))
    if kind is frozenset:
        return (kind, frozenset(map(static_key, value)))
    if kind is functools.partial:
        return _key_of_partial(value)
    if issubclass(kind, np.generic) and value.dtype.type is kind and kind is not np.void:
        return _key_of_scalar(value)
    names = compared_fields(kind)
    if names is None:
        return ByEquality(value)
    if not _hashes_fields(kind):
        return ByEquality(value, tuple([_part(getattr(value, name)) for name in names]))
    try:
        return (kind, tuple([static_key(getattr(value, name)) for name in names]))
    except TypeError:
        # The class's hash may leave out the unhashable field: then it decides.
        return ByEquality(value, tuple([_part(getattr(value, name)) for name in names]))


_runtime.set_static_key(static_key)


def _compares_items(kind: Any) -> bool:
    """Tell whether tuples of a class are equal when their items are."""
    return bool(kind.__eq__ is tuple.__eq__ and kind.__hash__ is tuple.__hash__)


def _key_of_partial(value: functools.partial[Any]) -> Hashable:
    if not value.__dict__:
        try:
            keywords = tuple(sorted((k, static_key(v)) for k, v in value.keywords.items()))
            parts = tuple(map(static_key, value.args))
            return (functools.partial, static_key(value.func), parts, keywords)
        except Exception:  # noqa: BLE001 - the user's class decides what it raises
            # In Python, partials are hashable and equal only to themselves.
            return ByEquality(value)
    return ByEquality(value)


def _key_of_scalar(value: np.generic) -> Hashable:
    code = value.dtype.char
    if code in "mM":
        # The unit is visible, so it counts: 60 s differs from 1 min.
        return (type(value), value.tobytes(), value.dtype)
    if code in "gG":
        # Some of the bytes are padding.
        return (type(value), repr(value))
    return (type(value), value.tobytes())


def _part(value: Any) -> Hashable:
    try:
        return static_key(value)
    except TypeError:
        return id(type(value))


def compared_fields(kind: type) -> tuple[str, ...] | None:
    """Return the fields that decide whether frozen dataclasses of a class are equal.

    None for other classes, and those whose `__eq__` is not the generated one.
    """
    parameters: Any = getattr(kind, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        return None
    names = tuple([f.name for f in dataclasses.fields(kind) if f.compare])
    return names if _is_like(kind.__eq__, _twin(names).__eq__) else None


def _hashes_fields(kind: type) -> bool:
    """Tell whether the hash of a dataclass is the generated one."""
    fields: tuple[Any, ...] = dataclasses.fields(kind)
    names = tuple([f.name for f in fields if (f.compare if f.hash is None else f.hash)])
    return _is_like(kind.__hash__, _twin(names).__hash__)


@functools.lru_cache(maxsize=1024)
def _twin(names: tuple[str, ...]) -> type:
    """Return a plain frozen dataclass with these fields."""
    return dataclasses.make_dataclass("Twin", names, frozen=True)


def _is_like(function: Any, made: Any) -> bool:
    """Tell whether a method does what the one generated by `dataclasses` does."""
    if function is made:
        return True
    if type(function) is not types.FunctionType or type(made) is not types.FunctionType:
        return False
    mine, theirs = function.__code__, made.__code__
    return (
        mine.co_code == theirs.co_code
        and mine.co_names == theirs.co_names
        and mine.co_consts == theirs.co_consts
        and mine.co_varnames == theirs.co_varnames
        and mine.co_freevars == theirs.co_freevars
        and mine.co_argcount == theirs.co_argcount
    )


def comparison_of(value: Any) -> Comparison:
    """Return how the runtime compares a static value with those of later calls.

    The value, its key (None if type, hash and equality suffice), and whether it is immutable; or
    instead its parts, each compared in the same way: the items of a tuple, or the named fields.
    """
    key, kind = static_key(value), type(value)
    if type(key) is ByEquality:
        return (value, None if key.parts is None else key, False, (), ())
    if is_constant(value):
        return (value, key, True, (), ())
    if issubclass(kind, tuple):
        items = tuple.__iter__(value)
        return (value, None, False, ITEMS, tuple([comparison_of(item) for item in items]))
    names = compared_fields(kind)
    if not names:
        return (value, key, False, (), ())
    parts = tuple([comparison_of(getattr(value, name)) for name in names])
    return (value, None, False, names, parts)


def is_constant(value: Any) -> bool:
    """Tell whether a static value is immutable, including all its parts."""
    kind = type(value)
    if value is None or kind in (*_PLAIN, float, complex):
        return True
    if kind is frozenset or (issubclass(kind, tuple) and _has_no_state(kind)):
        return all(map(is_constant, value))
    return issubclass(kind, np.generic) and value.dtype.type is kind and kind is not np.void


def _has_no_state(kind: type) -> bool:
    return kind is tuple or (
        kind.__base__ is tuple and kind.__dictoffset__ == 0 and _compares_items(kind)
    )
