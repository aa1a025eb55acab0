"""The content of classes, and of instances that do not change.

A class is told by a token that no other object ever gets, and by all its methods, which may be
exchanged while the class stays the same. Of instances, frozen dataclasses, named tuples and members
of enumerations are read.
"""

from __future__ import annotations

import abc
import collections
import contextlib
import dataclasses
import enum
import itertools
import types
import typing
import weakref
from collections.abc import Hashable
from typing import Any, Protocol

from kiln.base.forks import new_rlock
from kiln.core.bytecode import references
from kiln.core.fixed_values import is_fixed


class Unreadable(Exception):
    """Raised on meeting a value whose content can change unseen, or is unknown."""


class Reads(Protocol):
    """What reading a class needs of the reading it is part of."""

    def read(self, value: Any) -> Hashable:
        """Return the key of a value."""

    def again(self, value: Any) -> Hashable | None:
        """Return the key of something met before; None the first time, which is noted."""


_tokens: dict[int, tuple[weakref.ref[Any], int]] = {}
_numbers = itertools.count()
_lock = new_rlock()


def token_of(value: Any) -> int:
    """Return the number of an object: the same each time, never that of another."""
    key = id(value)
    found = _tokens.get(key)
    if found is not None and found[0]() is value:
        return found[1]

    def forget(dead: weakref.ref[Any]) -> None:
        with _lock:
            if key in _tokens and _tokens[key][0] is dead:
                del _tokens[key]

    try:
        made = (weakref.ref(value, forget), next(_numbers))
    except TypeError:
        raise Unreadable(f"a value of type {type(value).__name__}") from None
    with _lock:
        _tokens[key] = made
    return made[1]


_METACLASSES = (type, abc.ABCMeta, enum.EnumMeta)
# Classes that say nothing of their own to instances of the kinds that are read.
_PLAIN_BASES = (object, tuple, abc.ABC, typing.Generic, enum.Enum, enum.IntEnum, enum.ReprEnum)
_SAYS_NOTHING = frozenset(
    [
        *("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__"),
        *("__dataclass_fields__", "__dataclass_params__", "__slots__", "__abstractmethods__"),
        *("_abc_impl", "__orig_bases__", "__parameters__", "__firstlineno__", "__type_params__"),
        *(
            "__static_attributes__",
            "_field_defaults",
            "__annotate__",
            "__annotate_func__",
            "__annotations_cache__",
        ),
    ]
)
_ENUM_STATE = frozenset(["_value_", "_name_", "__objclass__", "_sort_order_"])
_MADE_IN = frozenset([dataclasses.__file__, collections.__file__, enum.__file__, "<string>"])


def read_class(reading: Reads, cls: type) -> Hashable:
    """Return the key of a class."""
    met = reading.again(cls)
    if met is not None:
        return met
    if type(cls) not in _METACLASSES:
        raise Unreadable(f"a class of the class {type(cls).__name__}")
    parts: list[Hashable] = []
    for base in cls.__mro__:
        if base in _PLAIN_BASES or is_fixed(base):
            parts.append(id(base))
            continue
        parts.append(token_of(base))
        for name, member in tuple(vars(base).items()):
            if name in _SAYS_NOTHING or (isinstance(base, enum.EnumMeta) and _of_enum(name)):
                continue
            parts.append((name, _read_member(reading, member)))
    return ("class", tuple(parts))


def _of_enum(name: str) -> bool:
    return name.startswith(("_member", "_value", "_generate", "_new", "_use", "_unhash", "_hash"))


def _read_member(reading: Reads, member: Any) -> Hashable:
    if isinstance(member, types.FunctionType):
        if member.__code__.co_filename in _MADE_IN:
            # Made by the standard library for this class: known by what it is.
            return ("made", token_of(member), references(member.__code__).key)
        return reading.read(member)
    kind = type(member)
    if kind is staticmethod or kind is classmethod:
        return (kind.__name__, _read_member(reading, member.__func__))
    if kind is property:
        parts = (member.fget, member.fset, member.fdel)
        return ("property", tuple(f if f is None else _read_member(reading, f) for f in parts))
    if kind is types.MemberDescriptorType:
        return ("slot", member.__name__)
    if kind.__name__ == "_tuplegetter":
        return ("item", member.__reduce__()[1][0])
    if isinstance(member, enum.Enum):
        return ("member", token_of(member))
    if kind is enum.property:
        return ("enum property",)
    return reading.read(member)


def read_instance(reading: Reads, value: Any) -> Hashable:
    """Return the key of an instance that does not change.

    Raises: Unreadable for any other.
    """
    cls = type(value)
    if isinstance(value, enum.Enum):
        if not _ENUM_STATE.issuperset(vars(value)):
            raise Unreadable("a member of an enumeration with attributes of its own")
        return ("member", token_of(value), _read_kind(reading, cls), reading.read(value._value_))
    if dataclasses.is_dataclass(cls) and "__dataclass_params__" in vars(cls):
        parameters: Any = vars(cls)["__dataclass_params__"]
        if parameters.frozen:
            kind = _read_kind(reading, cls)
            return ("instance", kind, tuple((n, reading.read(x)) for n, x in _state(value)))
    if isinstance(value, tuple) and _is_namedtuple(cls):
        kind = _read_kind(reading, cls)
        return ("instance", kind, tuple([reading.read(x) for x in tuple(value)]))
    raise Unreadable(f"a value of type {cls.__name__}")


def _read_kind(reading: Reads, cls: type) -> Hashable:
    return ("fixed", id(cls)) if is_fixed(cls) else read_class(reading, cls)


def _is_namedtuple(cls: type) -> bool:
    return tuple in cls.__bases__ and isinstance(vars(cls).get("_fields"), tuple)


def _state(value: Any) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name in ("__weakref__", "__dict__"):
                continue
            try:
                found.append((name, object.__getattribute__(value, name)))
            except AttributeError:
                continue
    with contextlib.suppress(AttributeError):
        found.extend(tuple(object.__getattribute__(value, "__dict__").items()))
    return found
