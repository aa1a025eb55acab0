"""The content of a function as a key: equal keys, equal programs.

Functions with equal keys record equal programs for equal arguments, up to the arrays they close
over: these accompany the key, in the order in which they are read, and become operands. Keys hold
no reference to a function, closure or instance: code objects, numbers, strings, tokens.

`docs/content.md` lists what can be read, and explains why nothing on it can change unnoticed:
functions with everything they refer to, as `bytecode.py` finds it; partials; bound methods;
immutable values; classes and immutable instances (`class_content.py`); fixed values
(`fixed_values.py`). A function that reaches anything else has no content: it is traced again. The
ambient state while a function is read (`ambient.py`) is part of the key.
"""

from __future__ import annotations

import functools
import struct
import types
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from kiln import _runtime
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import options
from kiln.base.source import is_internal
from kiln.base.tree import Partial
from kiln.content.ambient import Ambient, ambient
from kiln.content.bytecode import Chain, references
from kiln.content.class_content import Unreadable, read_class, read_instance
from kiln.content.evidence import Evidence
from kiln.content.fixed_values import is_fixed, is_kiln_module, is_pure_space
from kiln.core.arrays.array import ConcreteArray, PlacedArray
from kiln.core.trace import Trace, state
from kiln.ir.types import ShapedArray


class Content(NamedTuple):
    """The key of a value, the ambient state, and the arrays that the value reaches.

    `evidence`, if any, decides whether other functions have the same content.
    """

    value: Hashable
    ambient: Ambient
    operands: list[ConcreteArray]
    evidence: Evidence | None = None

    @property
    def key(self) -> Hashable:
        """Everything that a program depends on besides operands and arguments."""
        return (self.value, self.ambient)

    def without_options(self) -> Hashable:
        """Return the key without options, and without bound arguments if it has any."""
        kind = self.value[0] if isinstance(self.value, tuple) else None
        parts: Any = self.value
        return (parts[1][0] if kind is tuple else parts, self.ambient[1])


def content_of(value: Any, *, with_jitted: bool = True) -> Content | None:
    """Return the content of a function, or of a tuple of functions and values.

    Returns None if it has none, or if the option `content` is off. Jitted functions that hold
    traces of an earlier state are unreadable, unless `with_jitted=False`.
    """
    if not options().content:
        return None
    evidence = Evidence(value)
    reading = Reading(with_jitted=with_jitted, evidence=evidence, limit=_limit())
    try:
        key = reading.read(value)
        if reading.meets_numpy:
            return Content(key, ambient(numpy=True), reading.operands)
        return Content(key, ambient(numpy=False), reading.operands, evidence.finish())
    except (Unreadable, RecursionError):
        return None


def _limit() -> int:
    """Return how many values a function may reach: the fewer, the deeper recordings are nested."""
    trace: Trace | None = state.trace
    depth, limit = 0, LIMIT
    while trace is not None and depth < VERY_DEEP:
        trace, depth = trace.parent, depth + 1
        if depth in LIMITS_WITHIN:
            limit = LIMITS_WITHIN[depth]
    return limit


def key_of_value(value: Any) -> Hashable | None:
    """Return the key of a value alone, regardless of ambient state, or None if it has none."""
    try:
        return Reading().read(value)
    except (Unreadable, RecursionError):
        return None


def why_unreadable(value: Any) -> str | None:
    """Return what makes a function unreadable; None if it is readable."""
    try:
        Reading().read(value)
    except Unreadable as error:
        return str(error)
    except RecursionError:
        return "it nests too deeply"
    return None


LIMIT = 20000
"""A function that reaches more values has no content."""
LIMITS_WITHIN = {8: 128, 64: 24}
"""The limits by nesting depth of recordings: each of a thousand nested functions reaches all those
inside it, and is read again for each of those around it."""
VERY_DEEP = max(LIMITS_WITHIN)

Reader = Callable[["Reading", Any], Hashable]
_readers: dict[type, Reader] = {}


def readable(kind: type, reader: Reader) -> None:
    """Register how values of exactly this class are read: by `reader(reading, value)`."""
    _readers[kind] = reader


class Reading:
    """One reading of a value: the objects seen so far, and the arrays among them.

    `meets_numpy`: NumPy numbers or their types are among them. `with_jitted`: the traces of jitted
    functions are checked. `evidence` records the functions that are read.
    """

    __slots__ = (
        "_arrays",
        "_left",
        "_met",
        "evidence",
        "meets_numpy",
        "operands",
        "with_jitted",
    )

    def __init__(
        self, *, with_jitted: bool = True, evidence: Evidence | None = None, limit: int = LIMIT
    ) -> None:
        self.with_jitted = with_jitted
        self.evidence = evidence
        self.operands: list[ConcreteArray] = []
        self.meets_numpy = False
        self._arrays: dict[int, int] = {}
        self._met: dict[int, tuple[int, Any]] = {}
        self._left = limit

    def read(self, value: Any) -> Hashable:
        """Return the key of a value.

        Raises: Unreadable if it has none.
        """
        reader = _readers.get(type(value))
        if reader is not None:
            self._left -= 1
            if self._left < 0:
                raise Unreadable("it reaches too many values")
            return reader(self, value)
        if is_fixed(value):
            if type(value) is type and issubclass(value, np.generic):
                self.meets_numpy = True
            return ("fixed", id(value))
        if isinstance(value, type):
            return read_class(self, value)
        if isinstance(value, np.generic) and is_fixed(type(value)) and type(value) is not np.void:
            self.meets_numpy = True
            return self.number(value, value.dtype.str, value.tobytes())
        if isinstance(value, np.dtype):
            return _read_dtype(value)
        return read_instance(self, value)

    def read_all(self, values: Sequence[Any]) -> Hashable:
        """Return the keys of several values."""
        return tuple([self.read(x) for x in values])

    def read_made(self, function: types.FunctionType) -> Hashable:
        """Return the key of a function whose code the standard library generated."""
        return _read_function(self, function, is_made=True)

    def read_attributes(self, value: Any, known: frozenset[str]) -> Hashable:
        """Return the key of the contents of an object's dict, except for known names."""
        space = value.__dict__
        return tuple([(k, self.read(x)) for k, x in space.items() if k not in known])

    def number(self, value: Any, *bits: Hashable) -> Hashable:
        """Return the key of a number: its type and bits, and its identity if it is a NaN.

        A container finds a NaN only by identity.
        """
        kind: Any = type(value)
        return (kind, *bits) if value == value else (kind, *bits, self.again(value))

    def again(self, value: Any) -> tuple[str, int] | None:
        """Return the key of an object seen before; None the first time, which is recorded.

        Functions can distinguish equal objects by identity, as dicts do for their keys. Objects are
        kept alive until the end, so that no other gets the same id.
        """
        found = self._met.get(id(value))
        if found is not None:
            return ("again", found[0])
        self._met[id(value)] = (len(self._met), value)
        return None

    def operand(self, x: ConcreteArray) -> Hashable:
        """Return the key of an array: its type, and its index among the arrays seen."""
        number = self._arrays.get(id(x))
        if number is None:
            number = self._arrays[id(x)] = len(self.operands)
            self.operands.append(x)
        return ("array", number, x.aval)


def _read_function(reading: Reading, f: types.FunctionType, *, is_made: bool = False) -> Hashable:
    code = f.__code__
    # Functions of users are never fixed: the check would only take time.
    if is_internal(code.co_filename) and is_fixed(f):
        return ("fixed", id(f))
    met = reading.again(f)
    if met is not None:
        return met
    found = references(code)
    if found.objection is not None and not is_made:
        raise Unreadable(f"the function {f.__name__}, which {found.objection}")
    if found.own and not ("<locals>" in code.co_qualname and is_pure_space(f.__globals__)):
        # A kiln function that depends on more than its arguments: pure ones are fixed values.
        raise Unreadable(f"the function {f.__name__}")
    defaults, named = f.__defaults__, f.__kwdefaults__
    attributes = f.__dict__
    names = () if found.own or not found.names else _resolved(f, found.names)
    if reading.evidence is not None:
        reading.evidence.note(f, names)
    return (
        found.key,
        f.__name__,
        is_made,
        reading.read_all(defaults) if defaults else None,
        tuple([(k, reading.read(x)) for k, x in named.items()]) if named else None,
        _read_closure(reading, f.__closure__, found.free) if f.__closure__ else None,
        _read_globals(reading, names, is_made) if names else None,
        reading.read_attributes(f, _NO_NAMES) if attributes else None,
    )


_NO_NAMES: frozenset[str] = frozenset()


def _read_closure(
    reading: Reading, cells: tuple[types.CellType, ...], free: Sequence[tuple[Chain, ...]]
) -> Hashable:
    parts: list[Hashable] = []
    for cell, chains in zip(cells, free, strict=True):
        try:
            value = cell.cell_contents
        except ValueError:
            raise Unreadable("an enclosing variable without a value") from None
        found = [reading.read(x) for _, x in _reached(value, chains)]
        parts.append(tuple(found) if type(value) is types.ModuleType else found[0])
    return tuple(parts)


def _read_eager_function(reading: Reading, f: _runtime.EagerFunction) -> Hashable:
    if is_fixed(f):
        return ("fixed", id(f))
    return reading.again(f) or ("at once", reading.read_attributes(f, DESCRIPTION))


DESCRIPTION = frozenset(["__doc__", "__annotations__", "__annotate__", "__type_params__"])
"""Attributes that wrappers copy from their functions, and that readable code cannot read."""


Resolved = list[tuple[str, Chain, Any]]
"""Names, each with a chain of module attributes, and the value at its end."""


def _resolved(f: types.FunctionType, names: Sequence[tuple[str, tuple[Chain, ...]]]) -> Resolved:
    space, builtins = f.__globals__, getattr(f, "__builtins__", None)
    if type(space) is not dict or type(builtins) is not dict:
        raise Unreadable("globals that are not a plain dict")
    found: Resolved = []
    for name, chains in names:
        if name in space:
            value = space[name]
        elif name in builtins:
            value = builtins[name]
        else:
            raise Unreadable(f"the global {name}, which is not defined")
        found += [(name, steps, end) for steps, end in _reached(value, chains)]
    return found


def _read_globals(reading: Reading, names: Resolved, is_made: bool) -> Hashable:
    return tuple(
        ["hash" if is_made and x is hash else (steps, reading.read(x)) for _, steps, x in names]
    )


def _reached(value: Any, chains: tuple[Chain, ...]) -> list[tuple[Chain, Any]]:
    """Return what code uses of a value: itself, or the ends of chains of module attributes."""
    if type(value) is not types.ModuleType:
        return [((), value)]
    return [_end_of(value, chain) for chain in chains]


def _end_of(module: types.ModuleType, chain: Chain) -> tuple[Chain, Any]:
    """Return the value at the end of a chain; a module itself is not enough."""
    value: Any = module
    steps = 0
    for name in chain:
        if type(value) is not types.ModuleType:
            break
        steps += 1
        space = vars(value)
        if name in space:
            value = space[name]
        elif is_kiln_module(value):
            value = getattr(value, name, value)
        else:
            raise Unreadable(f"{value.__name__}.{name}, which is not defined")
    if type(value) is types.ModuleType:
        raise Unreadable(f"the module {value.__name__}")
    return chain[:steps], value


def read_partial(reading: Reading, f: functools.partial[Any]) -> Hashable:
    """Return the key of a partial, or of an instance of a class of partials."""
    if f.__dict__:
        raise Unreadable("a partial with attributes")
    met = reading.again(f)
    if met is not None:
        return met
    named = tuple([(k, reading.read(x)) for k, x in f.keywords.items()])
    return (type(f), reading.read(f.func), reading.read_all(f.args), named)


def _read_method(reading: Reading, f: types.MethodType) -> Hashable:
    return ("method", reading.read(f.__func__), reading.read(f.__self__))


def _read_dtype(dtype: np.dtype[Any]) -> Hashable:
    if dtype.fields is not None or dtype.subdtype is not None or dtype.metadata is not None:
        raise Unreadable("a structured dtype")
    return (np.dtype, dtype.type, dtype.str)


def _by_value(reading: Reading, x: Any) -> Hashable:
    return (type(x), x)


_float_bits = struct.Struct("d").pack
_complex_bits = struct.Struct("dd").pack

for _kind in (int, bool, str, bytes, type(None), type(...), type(NotImplemented), ShapedArray):
    readable(_kind, _by_value)
readable(float, lambda reading, x: reading.number(x, _float_bits(x)))
readable(complex, lambda reading, x: reading.number(x, _complex_bits(x.real, x.imag)))
readable(tuple, lambda reading, x: (tuple, reading.read_all(x)))
readable(frozenset, lambda reading, x: (frozenset, reading.read_all(tuple(x))))
readable(range, lambda reading, x: (range, x.start, x.stop, x.step))
readable(slice, lambda reading, x: (slice, reading.read_all((x.start, x.stop, x.step))))
readable(ConcreteArray, Reading.operand)
readable(PlacedArray, Reading.operand)
readable(types.FunctionType, _read_function)
readable(_runtime.EagerFunction, _read_eager_function)
readable(types.MethodType, _read_method)
readable(functools.partial, read_partial)
readable(Partial, read_partial)
