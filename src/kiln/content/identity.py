"""What must be unchanged for a function object to be considered the same function."""

from __future__ import annotations

import types
from collections.abc import Hashable
from typing import Any

from kiln.content.class_content import Unreadable, token_of
from kiln.content.fingerprint import key_of_value


def identity_of_function(fun: Any) -> Hashable:
    """Return a key of the replaceable parts of a function: code and defaults.

    The key holds no reference to a default that could in turn hold the function. If a default
    cannot be distinguished from others, the key is equal to no other, not even to one recomputed.
    """
    if type(fun) is not types.FunctionType:
        return None
    defaults, named = fun.__defaults__, fun.__kwdefaults__
    if defaults is None and not named:
        return fun.__code__
    try:
        return (fun.__code__, _identity(defaults), _identity(named))
    except Unreadable:
        return object()


# Equality does not distinguish 0.0 from -0.0.
_PLAIN = frozenset([int, str, bool, bytes, types.NoneType])


def _identity(value: Any) -> Hashable:
    kind = type(value)
    if kind in _PLAIN or (kind is float and value != 0.0):
        return (kind, value)
    if kind is tuple or kind is list:
        return (kind, tuple(map(_identity, value)))
    if kind is dict:
        return (kind, tuple([(_identity(k), _identity(x)) for k, x in value.items()]))
    key = key_of_value(value) if kind.__weakrefoffset__ == 0 else None
    return key if key is not None else token_of(value)
