"""The content of classes and immutable instances.

A class is identified by a unique token, and by all attributes of the class and its bases, which may
be replaced while the class remains the same object. Instances of frozen dataclasses, named tuples
and enumerations are read, with all their state. The allowed attributes, bases and metaclasses are
closed lists: a class with anything else has no content.
"""

from __future__ import annotations

import builtins
import enum
import functools
import itertools
import types
import typing
from collections.abc import Hashable
from typing import Any, Protocol

from kiln._runtime import WeakTable
from kiln.content.made_methods import ENUMERATIONS, is_library, is_made, is_recursive_repr


class Unreadable(Exception):
    """Raised for a value whose content can change unnoticed, or is unknown."""


class Reads(Protocol):
    """The part of the enclosing reading that reading a class needs."""

    def read(self, value: Any) -> Hashable:
        """Return the key of a value."""

    def again(self, value: Any) -> tuple[str, int] | None:
        """Return the key of an object seen before, or None the first time, and record it."""

    def read_made(self, function: types.FunctionType) -> Hashable:
        """Return the key of a function whose code may refer to names that user code may not."""


_tokens = WeakTable()
_numbers = itertools.count()


def token_of(value: Any) -> int:
    """Return the token of an object: the same each time, and never that of another object."""
    found = _tokens.get(value)
    if found is None:
        try:
            found = _tokens.put(value, next(_numbers))
        except TypeError:
            raise Unreadable(f"a value of type {type(value).__name__}") from None
    return int(found)


# Class attributes that readable code cannot read, since their names cause objections.
_UNSEEN = frozenset(
    [
        *("__doc__", "__annotations__", "__annotate__", "__annotate_func__", "__slots__"),
        *("__annotations_cache__", "__dataclass_fields__", "__dataclass_params__"),
        *("__orig_bases__", "__parameters__", "__type_params__", "__firstlineno__"),
        "__static_attributes__",
    ]
)
# Collections that the standard library stores in classes; their current contents are read.
_NAMEDTUPLE_TABLES = frozenset(["_field_defaults"])
_ENUM_TABLES = frozenset(
    [
        *("_member_names_", "_member_map_", "_value2member_map_", "_unhashable_values_"),
        *("_unhashable_values_map_", "_hashable_values_"),
    ]
)
_LAYOUT = ("__dict__", "__weakref__")
_ITEM: Any = type(vars(functools._CacheInfo)["hits"])


def _shape(cls: type) -> tuple[Hashable, ...]:
    space = vars(cls)
    return (tuple(space), tuple(map(id, space.values())))


# Bases written in Python that are known unless something in them has been replaced.
_LIBRARY_BASES = {cls: _shape(cls) for cls in (typing.Generic, *ENUMERATIONS)}
# Bases that cannot be changed. The data that int and str hold is read from members of enumerations.
_DATA_BASES = (int, str)
_EXCEPTIONS = tuple(
    c for c in vars(builtins).values() if isinstance(c, type) and issubclass(c, BaseException)
)


def read_class(reading: Reads, cls: type) -> Hashable:
    """Return the key of a class.

    Raises: Unreadable if it has a base, metaclass or attribute that is not known.
    """
    met = reading.again(cls)
    if met is not None:
        return met
    if type(cls) is not type and type(cls) is not enum.EnumType:
        raise Unreadable(f"{cls.__name__}, a class of the class {type(cls).__name__}")
    return ("class", tuple([_read_base(reading, cls, base) for base in cls.__mro__]))


def _read_base(reading: Reads, cls: type, base: type) -> Hashable:
    if base is object or base is tuple or base in _EXCEPTIONS:
        return id(base)
    if base in _DATA_BASES and type(cls) is enum.EnumType:
        return id(base)
    shape = _LIBRARY_BASES.get(base)
    if shape is not None:
        if _shape(base) != shape:
            raise Unreadable(f"{base.__name__}, which has been changed")
        return id(base)
    # Names are part of what a class prints.
    parts: list[Hashable] = [token_of(base), base.__name__, base.__qualname__]
    for name, member in tuple(vars(base).items()):
        if name not in _UNSEEN:
            parts.append((name, _read_attribute(reading, base, name, member)))
    return tuple(parts)


def _read_attribute(reading: Reads, base: type, name: str, member: Any) -> Hashable:
    kind = type(member)
    if kind is types.FunctionType:
        return _read_method(reading, base, member)
    if kind is staticmethod or kind is classmethod:
        inner = member.__func__
        if type(inner) is types.FunctionType:
            return (kind, _read_method(reading, base, inner))
        return (kind, reading.read(inner))
    if kind is property:
        parts = [member.fget, member.fset, member.fdel]
        return (kind, tuple([reading.read(f) for f in parts]))
    if kind is types.MemberDescriptorType and member.__objclass__ is base:
        return ("slot", member.__name__)
    if kind is types.GetSetDescriptorType and member.__objclass__ is base and name in _LAYOUT:
        return "layout"
    if kind is _ITEM:
        return ("item", member.__reduce__()[1][0])
    is_table = name in _NAMEDTUPLE_TABLES or (type(base) is enum.EnumType and name in _ENUM_TABLES)
    if is_table and kind is list:
        return (kind, tuple([reading.read(x) for x in member]))
    if is_table and kind is dict:
        return (
            kind,
            tuple([(reading.read(k), _read_table(reading, x)) for k, x in member.items()]),
        )
    return reading.read(member)


def _read_table(reading: Reads, value: Any) -> Hashable:
    # `_unhashable_values_map_` holds lists.
    if type(value) is list:
        return (list, tuple([reading.read(x) for x in value]))
    return reading.read(value)


def _read_method(reading: Reads, base: type, function: types.FunctionType) -> Hashable:
    if is_library(function):
        return ("library", id(function))
    if is_recursive_repr(function):
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        return ("repr", _read_attribute(reading, base, "", cells["user_function"].cell_contents))
    return reading.read_made(function) if is_made(base, function) else reading.read(function)


def read_instance(reading: Reads, value: Any) -> Hashable:
    """Return the key of an immutable instance.

    Raises: Unreadable for any other.
    """
    cls = type(value)
    if type(cls) is enum.EnumType:
        return reading.again(value) or _read_enumerated(reading, value)
    params = vars(cls).get("__dataclass_params__")
    is_frozen = params is not None and params.frozen is True
    is_namedtuple = issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)
    if type(cls) is not type or not (is_namedtuple or is_frozen):
        raise Unreadable(f"a value of type {cls.__name__}")
    if issubclass(cls, BaseException):
        raise Unreadable("an exception")
    met = reading.again(value)
    if met is not None:
        return met
    # The class guarantees that `_state` returns its whole state.
    kind = reading.read(cls)
    items = tuple.__iter__(value) if issubclass(cls, tuple) else ()
    parts = tuple([reading.read(x) for x in items])
    return ("instance", kind, parts, tuple([(n, reading.read(x)) for n, x in _state(value)]))


def _read_enumerated(reading: Reads, value: Any) -> Hashable:
    kind = reading.read(type(value))
    state = object.__getattribute__(value, "__dict__")
    if state.get("__objclass__") is not type(value):
        raise Unreadable("a member of another enumeration")
    data: Hashable = None
    if isinstance(value, int):
        data = int.__index__(value)
    elif isinstance(value, str):
        data = str.__str__(value)
    parts = tuple([(n, reading.read(x)) for n, x in state.items() if n != "__objclass__"])
    return ("member", token_of(value), data, kind, parts)


def _state(value: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    bases = type(value).__mro__
    for base in bases:
        for name, member in vars(base).items():
            if type(member) is types.MemberDescriptorType:
                try:
                    found.append((name, member.__get__(value)))
                except AttributeError:
                    continue
    if any("__dict__" in vars(base) for base in bases):
        found.extend(tuple(object.__getattribute__(value, "__dict__").items()))
    return found
