"""Values that mean the same whenever they are named: pure builtins, kiln's own functions.

Each is kept for good, so its id is its name.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import itertools
import math
import operator
import sys
import types
from typing import Any

import numpy as np

from kiln._runtime import EagerFunction
from kiln.base.kinds import SUPPORTED
from kiln.base.source import is_internal
from kiln.ir.operation import Operation

_BUILTINS = (
    *("abs", "all", "any", "bool", "bytes", "chr", "complex", "dict", "divmod", "enumerate"),
    *("filter", "float", "format", "frozenset", "int", "isinstance", "issubclass", "iter", "len"),
    *("list", "map", "max", "min", "next", "ord", "pow", "range", "repr", "reversed", "round"),
    *("set", "slice", "sorted", "str", "sum", "super", "tuple", "type", "zip"),
)
# These read attributes that the code does not name.
_BY_NAME = ("attrgetter", "methodcaller")

# Layers of kiln whose functions depend on their arguments and the options in the key alone, and
# the exceptions among them.
_PURE = tuple(
    f"kiln.{name}"
    for name in (
        *("numpy", "lax", "nn", "random", "scipy", "linen", "ops", "control", "transforms"),
        *("api", "base.tree", "base.dtypes", "base.promotion", "base.kinds", "tree", "dtypes"),
    )
)
_WORLDLY = frozenset(
    [
        *("load", "fromfile", "save", "savez", "clear_caches", "default_backend", "live_arrays"),
        *("devices", "local_devices", "device_count", "local_device_count"),
        *("process_index", "process_count", "get_printoptions", "set_printoptions"),
    ]
)

_fixed: dict[int, Any] = {}
_seen: set[str] = set()
_count = 0


def is_fixed(value: Any) -> bool:
    """Tell whether a value is one of the fixed ones."""
    return _fixed.get(id(value)) is value or (_learn() and _fixed.get(id(value)) is value)


def is_kiln_module(module: types.ModuleType) -> bool:
    """Tell whether a module belongs to kiln."""
    name = module.__name__
    return name.partition(".")[0] == "kiln" and sys.modules.get(name) is module


def _fix(value: Any) -> None:
    _fixed[id(value)] = value


def _learn() -> bool:
    """Add what the modules of kiln imported since the last time define; tell whether any were."""
    global _count
    if len(sys.modules) == _count:
        return False
    _count = len(sys.modules)
    names = [n for n in tuple(sys.modules) if n.partition(".")[0] == "kiln" and n not in _seen]
    for name in names:
        _seen.add(name)
        for value in tuple(vars(sys.modules[name]).values()):
            if _is_kilns(value):
                _fix(value)
    return bool(names)


def _is_kilns(value: Any) -> bool:
    if isinstance(value, types.FunctionType):
        inner = inspect.unwrap(value)
        return (
            isinstance(inner, types.FunctionType)
            and is_internal(value.__code__.co_filename)
            and is_internal(inner.__code__.co_filename)
            and str(inner.__globals__.get("__name__")).startswith(_PURE)
            and inner.__name__ not in _WORLDLY
        )
    if isinstance(value, type):
        return value.__module__.partition(".")[0] == "kiln"
    if isinstance(value, (functools._lru_cache_wrapper, EagerFunction)):
        return _is_kilns(value.__wrapped__)
    return isinstance(value, Operation) or type(value).__module__.startswith("kiln.numpy.")


def _fill() -> None:
    for name in _BUILTINS:
        _fix(getattr(builtins, name))
    for value in vars(builtins).values():
        if isinstance(value, type) and issubclass(value, BaseException):
            _fix(value)
    for module in (math, operator, itertools):
        for name, value in vars(module).items():
            if not name.startswith("_") and callable(value) and name not in _BY_NAME:
                _fix(value)
    for value in (functools.partial, functools.reduce, types.NoneType, np.dtype):
        _fix(value)
    for kind in np.sctypeDict.values():
        _fix(kind)
        for base in kind.__mro__:
            if issubclass(base, np.generic):
                _fix(base)
    for dtype in SUPPORTED.values():
        _fix(dtype.type)


_fill()
