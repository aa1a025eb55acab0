"""Values whose behavior never changes: pure builtins, kiln's own functions.

Each is kept alive forever, so its id identifies it. One that has been given attributes since, or a
class in which anything was replaced, no longer counts as fixed.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import inspect
import itertools
import math
import operator
import sys
import types
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from kiln._runtime import EagerFunction
from kiln.base.dtypes.kinds import SUPPORTED
from kiln.base.source import is_internal
from kiln.ir.operation import Operation

_BUILTINS = (
    *("abs", "all", "any", "bool", "bytes", "chr", "complex", "dict", "divmod", "enumerate"),
    *("filter", "float", "frozenset", "int", "isinstance", "issubclass", "iter", "len"),
    *("list", "map", "max", "min", "next", "ord", "pow", "range", "repr", "reversed"),
    *("round", "set", "slice", "sorted", "str", "sum", "super", "tuple", "type", "zip"),
)
# These read attributes that the code does not name, or compare identities.
_SEEING = ("attrgetter", "methodcaller", "is_", "is_not")

# Layers of kiln whose functions depend only on their arguments and the ambient state, and the
# exceptions among them. Modules depend on interceptors and capture: of linen, only the functions of
# dtypes are listed.
_PURE = tuple(
    f"kiln.{name}"
    for name in (
        *("numpy", "lax", "nn", "random", "scipy", "ops", "control", "transforms"),
        *("api", "base.tree", "base.dtypes", "tree", "dtypes", "linen.dtypes"),
    )
)
_WORLDLY = frozenset(
    [
        *("load", "fromfile", "save", "savez", "clear_caches", "default_backend", "live_arrays"),
        *("devices", "local_devices", "device_count", "local_device_count"),
        *("process_index", "process_count", "get_printoptions", "set_printoptions"),
        *("register_pytree_node", "register_pytree_node_class", "register_pytree_with_keys"),
        *("register_pytree_with_keys_class", "register_dataclass", "register_static"),
        *("_register", "visualize_sharding", "visualize_array_sharding"),
        *("effects_barrier", "clear", "current_source"),
        # They read NumPy's options, and the frames of their callers.
        *("debug_print", "debug_log", "breakpoint"),
    ]
)
# The modules of classes that may be fixed, besides those of the pure layers.
_CLASSES = tuple(
    f"kiln.{name}"
    for name in (
        *("base.errors", "core.array_type", "core.arrays.array", "core.operators", "core.trace"),
        *("ir.types", "ir.shardings.sharding", "jit.signatures.struct", "sharding"),
        "tree_util",
    )
)

# Holds `api_boundary`, which wraps functions of the others.
_WRAPPERS = "kiln.base.source"
# The namespaces in which values that may be fixed have a name.
_HOMES = (*_PURE, *_CLASSES, _WRAPPERS, "kiln.linen")

_fixed: dict[int, tuple[Any, Hashable]] = {}
_noted: dict[int, tuple[Any, Hashable]] = {}
"""Functions that modules of kiln define; they are examined on first use."""
_others: dict[int, Any] = {}
"""Values in modules of kiln that other modules define."""
_spaces: dict[int, dict[str, Any]] = {}
_seen: set[str] = set()
_count = 0


def is_fixed(value: Any) -> bool:
    """Tell whether a value is one of the fixed ones, and unchanged."""
    found = _fixed.get(id(value)) or _judged(value)
    if found is None:
        return False
    return found[0] is value and (found[1] is None or found[1] == _shape(value))


def _shape(value: Any, as_made: bool = False) -> Hashable:
    """Return a key that changes if an attribute is added to a value, or replaced in a class.

    `as_made` ignores attributes that users set on kiln functions before these were first seen.
    """
    if isinstance(value, type):
        return _shape_of_class(value, {})
    space = value.__dict__
    own = _OWN.get(type(value))
    if own is None:
        return (tuple(space), _Same(space.values()))
    if _is_a_ufunc(space):
        if as_made:
            space = {name: space[name] for name in space if name in _OF_UFUNCS}
        return (tuple(space), _Same(space.values()))
    count = len(own & space.keys()) if as_made else len(space)
    if type(value) is not EagerFunction:
        return count
    # Attributes that an eager function lacks are read from its function.
    inner = value.__wrapped__.__dict__
    return count + (len(_OF_FUNCTIONS & inner.keys()) if as_made else len(inner))


def _shape_of_class(cls: type, snapshots: dict[type, Hashable]) -> Hashable:
    """Return the shape of a class; `snapshots` holds the current shapes of its bases."""
    found = []
    for base in cls.__mro__:
        if _is_changeable(base):
            if base not in snapshots:
                space = vars(base)
                snapshots[base] = (tuple(space), _Same(space.values()))
            found.append(snapshots[base])
    return tuple(found)


class _Same:
    """Values that are compared by identity; kept alive, so that no id is reused."""

    __slots__ = ("values",)

    def __init__(self, values: Iterable[Any]) -> None:
        self.values = tuple(values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same) or len(self.values) != len(other.values):
            return False
        return all(map(operator.is_, self.values, other.values))

    __hash__ = None  # type: ignore[assignment]


# The attributes that kiln functions have initially, by kind; ufuncs have methods, too.
_OF_FUNCTIONS = frozenset(["__wrapped__", "__mro_entries__"])
_OF_EAGER = frozenset(["__wrapped__", "__name__", "__qualname__", "__module__", "__doc__"])
_OWN = {
    types.FunctionType: _OF_FUNCTIONS,
    EagerFunction: _OF_EAGER,
    functools._lru_cache_wrapper: _OF_EAGER | {"__annotations__", "cache_parameters"},
}
_OF_UFUNCS = _OF_EAGER | {
    *("reduce", "reduceat", "accumulate", "outer", "at"),
    *("identity", "nin", "nout", "nargs", "_func"),
}
_DEFINED = (*_OWN, type, Operation)


def _is_a_ufunc(space: dict[str, Any]) -> bool:
    return space.keys() >= _OF_UFUNCS


def _is_changeable(cls: type) -> bool:
    return bool(cls.__flags__ & _HEAP_TYPE) and not cls.__flags__ & _IMMUTABLE_TYPE


_HEAP_TYPE, _IMMUTABLE_TYPE = 1 << 9, 1 << 8


def is_pure_space(space: dict[str, Any]) -> bool:
    """Tell whether a dict is the globals of a kiln module whose functions are pure."""
    if _spaces.get(id(space)) is space:
        return True
    name = space.get("__name__")
    if not isinstance(name, str) or name not in sys.modules:
        return False
    if vars(sys.modules[name]) is not space:
        return False
    if not name.startswith(_PURE) and name != _WRAPPERS:
        return False
    _spaces[id(space)] = space
    return True


def is_kiln_module(module: types.ModuleType) -> bool:
    """Tell whether a module belongs to kiln."""
    name = module.__name__
    return name.partition(".")[0] == "kiln" and sys.modules.get(name) is module


def _fix(value: Any, snapshots: dict[type, Hashable] | None = None) -> None:
    if not isinstance(value, type):
        shape = _shape(value, as_made=True) if hasattr(value, "__dict__") else None
    elif not _is_changeable(value):
        shape = None
    else:
        shape = _shape_of_class(value, {} if snapshots is None else snapshots)
    _fixed[id(value)] = (value, shape)


def _judged(value: Any) -> tuple[Any, Hashable] | None:
    """Return the entry of `_fixed` for a value; None if it is not a fixed value."""
    found = _noted.get(id(value))
    if found is None and _may_be_kilns(value):
        found = _at_its_name(value)
        if found is None and _learn():
            found = _noted.get(id(value))
    if found is None or found[0] is not value or not _is_kilns(value):
        return _fixed.get(id(value))
    return _fixed.setdefault(id(value), found)


def _may_be_kilns(value: Any) -> bool:
    """Tell cheaply whether a module of kiln may define a value: `_learn` takes milliseconds."""
    if type(value) is types.FunctionType:
        return is_internal(value.__code__.co_filename)
    if type(value) is functools._lru_cache_wrapper:
        return _may_be_kilns(value.__wrapped__)
    if isinstance(value, type):
        return str(value.__module__).startswith("kiln.")
    kind = type(value)
    # Classes of users must not be stored.
    return str(kind.__module__).startswith("kiln.") and _may_be_fixed(kind)  # type: ignore[arg-type]


def _at_its_name(value: Any) -> tuple[Any, Hashable] | None:
    """Record a class, or a bare function, that its module holds under its own name.

    For functions with attributes only an earlier snapshot shows whether these are the initial ones.
    """
    if not isinstance(value, type) and not _is_bare(value):
        return None
    home, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not isinstance(home, str) or not isinstance(name, str) or not home.startswith(_HOMES):
        return None
    if home not in sys.modules or vars(sys.modules[home]).get(name) is not value:
        return None
    return _noted.setdefault(id(value), (value, _shape(value, as_made=True)))


def _is_bare(value: Any) -> bool:
    if type(value) is types.FunctionType:
        return value.__dict__.keys() <= _OF_FUNCTIONS
    if type(value) is EagerFunction:
        space = value.__dict__
        own = _OF_UFUNCS if _is_a_ufunc(space) else _OF_EAGER
        return space.keys() <= own and not value.__wrapped__.__dict__
    return False


def _learn() -> bool:
    """Record the definitions of newly imported kiln modules; return whether there were any."""
    global _count
    count = len(sys.modules)
    if count == _count:
        return False
    names = [n for n in tuple(sys.modules) if n.partition(".")[0] == "kiln" and n not in _seen]
    snapshots: dict[type, Hashable] = {}
    for name in names:
        space = vars(sys.modules[name])
        if name.startswith(_HOMES):
            _note_all(space, snapshots)
    # Only now: other threads do not wait, and would treat what is not recorded yet as unknown.
    _seen.update(names)
    _count = count
    return bool(names)


def _note_all(space: dict[str, Any], snapshots: dict[type, Hashable]) -> None:
    """Record functions in their current state; decide for anything else whether it is fixed."""
    for value in tuple(space.values()):
        kind = type(value)
        if kind is types.FunctionType and not value.__dict__:
            _noted.setdefault(id(value), (value, 0))
        elif kind in _OWN:
            if id(value) not in _noted:
                _noted[id(value)] = (value, _shape(value, as_made=True))
        elif _may_be_fixed(kind) and id(value) not in _fixed:  # type: ignore[arg-type]
            if _others.get(id(value)) is not value:
                if _is_kilns(value):
                    _fix(value, snapshots)
                elif not str(getattr(value, "__module__", "")).startswith("kiln."):
                    _others[id(value)] = value


@functools.cache
def _may_be_fixed(kind: type) -> bool:
    return issubclass(kind, _DEFINED) or _is_a_function_of_numpy(kind)


def _is_a_function_of_numpy(kind: type) -> bool:
    return kind.__module__.startswith("kiln.numpy.")


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
        home = value.__module__
        found = getattr(sys.modules.get(home), value.__name__, None)
        return found is value and home.startswith((*_PURE, *_CLASSES))
    if isinstance(value, (functools._lru_cache_wrapper, EagerFunction)):
        return _is_kilns(value.__wrapped__)
    return isinstance(value, Operation) or _is_a_function_of_numpy(type(value))


def _is_builtin(value: Any, module: types.ModuleType) -> bool:
    """Tell whether a module written in C defines this, and it has not been replaced."""
    is_c = isinstance(value, types.BuiltinFunctionType) or (
        isinstance(value, type) and not _is_changeable(value)
    )
    return is_c and value.__module__ in (module.__name__, "_" + module.__name__)


def _fill() -> None:
    for name in _BUILTINS:
        if _is_builtin(getattr(builtins, name), builtins):
            _fix(getattr(builtins, name))
    for value in vars(builtins).values():
        if isinstance(value, type) and issubclass(value, BaseException):
            _fix(value)
    for module in (math, operator, itertools):
        for name, value in vars(module).items():
            public = not name.startswith("_") and name not in _SEEING
            if public and _is_builtin(value, module):
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
    # Values that the standard library uses in the methods it generates.
    _fix(dataclasses._HAS_DEFAULT_FACTORY)  # type: ignore[attr-defined]
    for cls in (object, tuple, int, str):
        for name in ("__new__", "__repr__", "__str__", "__format__"):
            _fix(getattr(cls, name))


_fill()
