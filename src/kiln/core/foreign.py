"""Foreign functions: those of other languages that programs call by name, and their attributes.

Functions use XLA's typed FFI. They are registered here; an engine that can call them looks them up
when it compiles a program that calls one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.process.forks import new_lock
from kiln.base.source import current_source


class Registration(NamedTuple):
    """A function: a capsule with its address, or several for the stages of a call, by name."""

    fn: Any
    platform: str
    api_version: int
    options: tuple[tuple[str, Any], ...] = ()


class ForeignTarget:
    """A name that programs call; one object per name, so that programs of a process are
    distinguished.

    It means nothing to other processes: programs that call it are not kept on disk.
    """

    __slots__ = ("is_partitionable", "name", "registered")

    def __init__(self, name: str) -> None:
        self.name = name
        self.registered: dict[str, Registration] = {}
        """By platform."""
        self.is_partitionable = False

    def __repr__(self) -> str:
        return self.name


_targets: dict[str, ForeignTarget] = {}
_types: dict[tuple[str, str], Any] = {}
_lock = new_lock()


def target(name: str) -> ForeignTarget:
    """Return the one object of a name."""
    with _lock:
        return _targets.setdefault(name, ForeignTarget(name))


def register(name: str, made: Registration) -> None:
    """Register a function under a name for a platform.

    Raises: ValueError if another function has the name there.
    """
    known = target(name).registered.setdefault(made.platform, made)
    if known is not made and _addresses(known.fn) != _addresses(made.fn):
        raise ValueError(
            three_lines(
                f"register_ffi_target({name!r}, ..., platform={made.platform!r}) at "
                f"{current_source()}",
                f"the name is taken: it was registered with {known.fn!r:.100}",
                "register each function once, by a name of its own",
            )
        )


def _addresses(fn: Any) -> Any:
    """Return the addresses in capsules, so that capsules of one function are equal."""
    if isinstance(fn, Mapping):
        return {stage: _addresses(each) for stage, each in fn.items()}
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        return pointer(fn, name(fn))
    except ValueError:
        return id(fn)


def register_type(name: str, registration: Any, platform: str) -> None:
    """Register a type of the state or the values of foreign functions."""
    with _lock:
        _types.setdefault((name, platform), registration)


def registered_types() -> dict[tuple[str, str], Any]:
    """Return the registered types by name and platform."""
    with _lock:
        return dict(_types)


Attribute = tuple[Any, ...]
"""A comparable form of a value: its kind, then its type and contents."""


def attributes_of(values: Mapping[str, Any], what: str) -> tuple[tuple[str, Attribute], ...]:
    """Return named values as attributes of a call, in alphabetical order.

    Raises: TypeError for a value that is not a number, string, array, or dict or list of them.
    """
    return tuple((name, _attribute(values[name], f"{what}: {name}")) for name in sorted(values))


def _attribute(value: Any, what: str) -> Attribute:
    if isinstance(value, str):
        return ("string", value)
    if isinstance(value, (bool, int, float, np.generic)):
        # A Python int is passed as 64 bits.
        number = np.asarray(value, np.int64 if type(value) is int else None)
        return ("number", number.dtype, number.tobytes())
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return ("array", value.dtype, value.shape, value.tobytes())
    if isinstance(value, Mapping):
        return ("dict", attributes_of(value, what))
    if isinstance(value, (list, tuple)):
        return ("list", tuple(_attribute(each, what) for each in value))
    raise TypeError(
        three_lines(
            f"{what} at {current_source()}",
            f"a value of type {type(value).__name__} is not an attribute of a foreign function",
            "pass numbers, strings, NumPy arrays, or dicts and lists of them; arrays that vary are "
            "positional arguments",
        )
    )


def number_of(attribute: Attribute) -> Any:
    """Return the number, or array, that an attribute holds."""
    kind, dtype, *rest = attribute
    shape = rest[0] if kind == "array" else ()
    return np.frombuffer(rest[-1], dtype).reshape(shape)
