"""The content of modules as keys: equal keys, equal programs.

A module is its class and the content of its fields. Contents are read again on every call, so
lists, dictionaries, NumPy arrays and plain objects may be fields, and may change between calls.
Values that cannot be read are compared by equality or identity if they are hashable; if they are
not, the program of the module is recorded again on every call. Keys hold no reference to modules.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from kiln.base.options.config import options
from kiln.base.weak import reference
from kiln.content.class_content import Unreadable, token_of
from kiln.content.fingerprint import Reading
from kiln.content.fixed_values import is_fixed
from kiln.content.identity import identity_of_function
from kiln.core.arrays.array import ConcreteArray, host_value
from kiln.core.trace import Tracer
from kiln.linen.frozen_dict import FrozenDict
from kiln.linen.module import Module
from kiln.linen.scopes.scope import Variable

_SIMPLE = frozenset([int, str, bool, type(None)])
_MAPPINGS = frozenset([dict, OrderedDict, types.MappingProxyType, FrozenDict])
_FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial)


class ModuleReading(Reading):
    """A reading of modules and the contents of their fields; `place` is a module's position."""

    __slots__ = ("_place",)

    def __init__(self, place: Callable[[Module | Variable[Any]], Hashable]) -> None:
        super().__init__()
        self._place = place

    def read(self, value: Any) -> Hashable:
        """Return the key of a value; unreadable ones are compared by identity.

        Raises: Unreadable for traced values, and values that cannot be distinguished.
        """
        kind = type(value)
        if kind in _SIMPLE:
            return (kind, value)
        if is_fixed(value):
            return ("fixed", id(value))
        if isinstance(value, Module):
            return self.module(value)
        if isinstance(value, Variable):
            place = self._place(value)
            return (Variable, place, value.collection, value.name, value.unbox)
        if kind is list:
            return (list, self.read_all(value))
        if kind in _MAPPINGS:
            return (kind, tuple([(self.read(k), self.read(v)) for k, v in value.items()]))
        if kind is set:
            return (set, self.read_all(tuple(value)))
        if isinstance(value, ConcreteArray):
            return ("values", value.aval, value_digest(value))
        # Subclasses hold more state: a mask, a file.
        if kind is np.ndarray and value.dtype.isbuiltin and not value.dtype.hasobject:
            return ("ndarray", value.shape, value.dtype.str, _hash(value))
        if isinstance(value, Tracer):
            raise Unreadable("a traced value")
        if isinstance(value, _FUNCTIONS) and not options().content:
            return self._otherwise(value)
        try:
            return super().read(value)
        except Unreadable:
            return self._otherwise(value)

    def module(self, module: Module) -> Hashable:
        """Return the key of a module: class, position, fields."""
        met = self.again(module)
        if met is not None:
            return met
        values = module.__dict__
        return (
            token_of(type(module)),
            self._place(module),
            tuple([self.read(values[name]) for name in module._hyperparameters]),
        )

    def _otherwise(self, value: Any) -> Hashable:
        if isinstance(value, types.FunctionType):
            return ("function", token_of(value), identity_of_function(value))
        met = self.again(value)
        if met is not None:
            return met
        kind = type(value)
        if isinstance(value, type) or not _is_transparent(kind):
            return _by_identity_or_equality(value)
        return ("object", token_of(kind), tuple([(k, self.read(v)) for k, v in _state(value)]))


def _by_identity_or_equality(value: Any) -> Hashable:
    kind = type(value)
    if kind.__hash__ is None:
        # It may change while its identity stays the same: a container, an ndarray subclass.
        raise Unreadable(f"a value of type {kind.__name__}")
    if _has_own_hash(kind):
        hash(value)
        return ("equal", kind, value)
    return ("is", token_of(value))


def _has_own_hash(kind: type) -> bool:
    method: Any = kind.__hash__
    return method is not None and method is not object.__hash__


def _is_transparent(kind: type) -> bool:
    """Tell whether instances of a class hold their state only in attributes set by Python code."""
    if _has_own_hash(kind):
        return dataclasses.is_dataclass(kind)
    slots = 0
    for base in kind.__mro__[:-1]:
        own = vars(base).get("__slots__", ())
        slots += 1 if isinstance(own, str) else len([s for s in own if s[:2] != "__"])
    make: Any = kind.__new__
    return make is object.__new__ and kind.__basicsize__ <= _PLAIN_SIZE + slots * 8


class _Plain:
    pass


_PLAIN_SIZE = _Plain.__basicsize__


def _state(value: Any) -> list[tuple[str, Any]]:
    found = []
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name[:2] != "__" and hasattr(value, name):
                found.append((name, getattr(value, name)))
    found.extend(getattr(value, "__dict__", {}).items())
    return found


def _hash(x: np.ndarray) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(x).tobytes(), digest_size=16).digest()


_digests: dict[int, tuple[weakref.ref[Any], bytes]] = {}


def value_digest(x: ConcreteArray) -> bytes:
    """Return bytes that are equal for arrays with equal values."""
    known = _digests.get(id(x))
    if known is not None and known[0]() is x:
        return known[1]
    number = id(x)

    def forget(dead: weakref.ref[Any]) -> None:
        found = _digests.get(number)
        if found is not None and found[0] is dead:
            del _digests[number]

    digest = _hash(host_value(x))
    _digests[number] = (reference(x, forget), digest)
    return digest
