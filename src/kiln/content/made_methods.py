"""Methods that the standard library writes for classes, told from the user's by what they are.

`dataclasses`, `collections.namedtuple` and `enum` add methods whose code names what users' code may
not (`__class__`, `object.__setattr__`, `hash`). Such a method is known by its code: the very code
object that stands in the library, or code equal to what the library writes for a class with the
same fields. Only objections to the code are waived: whoever reads it still reads its globals,
closure, defaults and attributes.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import reprlib
import types
from collections.abc import Iterator
from typing import Any

_WRITTEN = "<string>"
"""The file name of code that dataclasses writes; spares a comparison, and proves nothing."""
_NAMES = frozenset(
    [
        *("__init__", "__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__"),
        *("__setattr__", "__delattr__", "__hash__"),
    ]
)


def _inside(function: Any, depth: int) -> Iterator[types.CodeType]:
    """Yield the code of the functions made `depth` levels inside a function."""
    codes = [function.__code__]
    for _ in range(depth):
        codes = [c for code in codes for c in code.co_consts if isinstance(c, types.CodeType)]
    yield from codes


def _functions_of(*kinds: type) -> Iterator[types.FunctionType]:
    for kind in kinds:
        for member in vars(kind).values():
            inner = getattr(member, "__func__", member)
            if isinstance(inner, types.FunctionType):
                yield inner


ENUMERATIONS = (*(enum.Enum, enum.IntEnum, enum.StrEnum, enum.ReprEnum, enum.Flag, enum.IntFlag),)
"""The enumerations of the library that others derive from."""

_own: dict[int, tuple[types.FunctionType, types.CodeType]] = {
    id(f): (f, f.__code__)
    for f in [
        *_functions_of(*ENUMERATIONS),
        *[
            getattr(dataclasses, name)
            for name in ("_replace", "_dataclass_getstate", "_dataclass_setstate")
            if hasattr(dataclasses, name)
        ],
    ]
}
_namedtuple_codes = {id(c): c for c in _inside(collections.namedtuple, 1)}
_repr_codes = {
    id(c): c
    for c in [
        *(
            _inside(dataclasses._recursive_repr, 1)
            if hasattr(dataclasses, "_recursive_repr")
            else ()
        ),
        *_inside(reprlib.recursive_repr, 2),
    ]
}
_SPACES = (vars(collections), vars(dataclasses), vars(reprlib))


def is_library(function: types.FunctionType) -> bool:
    """Tell whether a function is one of the library's own that it puts into classes as it is."""
    found = _own.get(id(function))
    return found is not None and found[0] is function and function.__code__ is found[1]


def is_recursive_repr(function: types.FunctionType) -> bool:
    """Tell whether a function guards another, its `user_function`, against recursion."""
    return _stands_in(_repr_codes, function)


def _stands_in(codes: dict[int, types.CodeType], function: types.FunctionType) -> bool:
    code = function.__code__
    return codes.get(id(code)) is code and any(function.__globals__ is s for s in _SPACES)


def is_made(cls: type, function: types.FunctionType) -> bool:
    """Tell whether the library wrote the code of a method of a class."""
    if _stands_in(_namedtuple_codes, function):
        return True
    code = function.__code__
    if code.co_filename != _WRITTEN or code.co_name not in _NAMES:
        return False
    if "__dataclass_params__" not in vars(cls):
        return False
    known = _verdicts.get(id(code))
    if known is None or known[0] is not code:
        if len(_verdicts) >= CAPACITY:
            _verdicts.clear()
        known = _verdicts[id(code)] = (code, _plain(code) in _codes_for(cls))
    return known[1]


CAPACITY = 4096
_verdicts: dict[int, tuple[types.CodeType, bool]] = {}


def _plain(code: types.CodeType) -> types.CodeType:
    return code.replace(co_filename="", co_firstlineno=1, co_linetable=b"")


def _codes_for(cls: type) -> list[types.CodeType]:
    """Return the code of the methods that the library writes for a class with these fields."""
    found: list[types.CodeType] = []
    for slots in (False, True):
        try:
            copy = _copied(cls, slots)
        except (TypeError, ValueError, AttributeError, KeyError):
            continue
        for name in _NAMES:
            method = vars(copy).get(name)
            method = getattr(method, "__wrapped__", method)
            if isinstance(method, types.FunctionType):
                found.append(_plain(method.__code__))
    return found


def _copied(cls: Any, slots: bool) -> type:
    space: dict[str, Any] = {"__annotations__": {}}
    for name, f in vars(cls)["__dataclass_fields__"].items():
        kind = f._field_type
        if kind is dataclasses._FIELD_CLASSVAR:  # type: ignore[attr-defined]
            continue
        is_argument = kind is dataclasses._FIELD_INITVAR  # type: ignore[attr-defined]
        space["__annotations__"][name] = dataclasses.InitVar[object] if is_argument else object
        given = {"init": f.init, "repr": f.repr, "hash": f.hash, "compare": f.compare}
        if f.default is not dataclasses.MISSING:
            given["default"] = None
        if f.default_factory is not dataclasses.MISSING:
            given["default_factory"] = tuple
        space[name] = dataclasses.field(**given, kw_only=f.kw_only is True)
    if hasattr(cls, "__post_init__"):
        space["__post_init__"] = lambda self: None
    params = vars(cls)["__dataclass_params__"]
    names = ("init", "repr", "eq", "order", "unsafe_hash", "frozen")
    given = {name: getattr(params, name) for name in names}
    return dataclasses.dataclass(type("Copied", (), space), **given, slots=slots)
