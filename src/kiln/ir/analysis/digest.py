"""A jaxpr as bytes that are the same in every process: the key of its code on disk.

Equal bytes mean programs that compile to the same code. Anything that may have another meaning
elsewhere, such as a user function, has no such bytes: a program without them is recompiled, while
one with wrong bytes would run another program's code.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from kiln.base.dtypes import long_name
from kiln.base.dtypes.kinds import ExtendedDtype
from kiln.base.source import is_internal
from kiln.ir.jaxpr import ClosedJaxpr, Jaxpr, Var
from kiln.ir.operation import Operation
from kiln.ir.sizes.facts import facts_of
from kiln.ir.sizes.size import Size
from kiln.ir.types import ShapedArray

_PACKAGE = "kiln."
_RULES = frozenset(("infer", "expand"))
"""Attributes of primitives that are not defined as classes: those of users."""


class Unnameable(Exception):
    """A part of a program has no name that is valid in other processes."""


def portable_bytes(*parts: Any) -> bytes:
    """Return programs and plain values as bytes that are the same in all processes.

    Weak types of a program's operands and results are left out: its code does not depend on them.

    Raises: Unnameable for user functions, and anything else that has a meaning only in this
    process.
    """
    writer = _Writer()
    for part in parts:
        writer.value(part)
    return b"\0".join(writer.found)


def weight(jaxpr: Jaxpr, enough: int) -> int:
    """Return the number of equations of a program and those inside; counted up to `enough`."""
    count = len(jaxpr.eqns)
    for eqn in jaxpr.eqns:
        if count >= enough:
            break
        if eqn.primitive.region:
            for value in eqn.params.values():
                for part in value if isinstance(value, tuple) else (value,):
                    inner = part.jaxpr if isinstance(part, ClosedJaxpr) else part
                    if isinstance(inner, Jaxpr):
                        count += weight(inner, enough)
    return count


class _Writer:
    def __init__(self) -> None:
        self.found: list[bytes] = []
        self._numbers: dict[int, int] = {}
        self._types: dict[ShapedArray, bytes] = {}
        self._programs: dict[int, int] = {}

    def value(self, x: Any) -> None:
        """Write a value, by its class."""
        write = _WRITERS.get(x.__class__)
        if write is None:
            write = _writer_for(x)
        write(self, x)

    def text(self, kind: str, x: object) -> None:
        self.found.append(f"{kind} {x}".encode())

    def values(self, kind: str, xs: Iterable[Any]) -> None:
        items = list(xs)
        self.text(kind, len(items))
        for x in items:
            self.value(x)

    def mapping(self, x: dict[Any, Any]) -> None:
        self.text("dict", len(x))
        for name in sorted(x, key=repr):
            self.value(name)
            self.value(x[name])

    def unordered(self, x: Iterable[Any]) -> None:
        each: list[bytes] = []
        for member in x:
            inner = _Writer()
            inner.value(member)
            item = b"\0".join(inner.found)
            each.append(b"%d %s" % (len(item), item))
        self.text("set", len(each))
        self.found.extend(sorted(each))

    def array(self, x: np.ndarray) -> None:
        if x.dtype.hasobject:
            raise Unnameable("an array of objects")
        self.found.append(f"array {x.dtype} {x.dtype.str} {x.shape} ".encode() + x.tobytes())

    def fields(self, x: Any) -> None:
        self._own(type(x))
        for field in dataclasses.fields(x):
            if field.compare:
                self.text("field", field.name)
                self.value(getattr(x, field.name))

    def member(self, x: enum.Enum) -> None:
        self._own(type(x))
        self.text("member", x.name)

    def named_tuple(self, x: tuple[Any, ...]) -> None:
        self._own(type(x))
        self.values("named", x)

    def function(self, f: types.FunctionType) -> None:
        """Write a function of kiln's: its place, and what it closes over."""
        if not is_internal(f.__code__.co_filename):
            raise Unnameable(f"the function {f.__qualname__}")
        self.text("function", f"{f.__module__} {f.__qualname__} {f.__code__.co_firstlineno}")
        self.values("closure", [cell.cell_contents for cell in f.__closure__ or ()])
        self.values("defaults", f.__defaults__ or ())
        self.mapping(f.__kwdefaults__ or {})

    def operation(self, x: Operation) -> None:
        """Write an operation of kiln's; rules of other operations are user functions."""
        self._own(type(x))
        if not _RULES.isdisjoint(vars(x)):
            raise Unnameable(f"the primitive {x.name} of a user")
        self.text("name", x.name)

    def cls(self, x: type) -> None:
        if x.__module__ in ("builtins", "numpy", "ml_dtypes"):
            self.text("class", f"{x.__module__} {x.__qualname__}")
        else:
            self._own(x)

    def _own(self, kind: type) -> None:
        if not kind.__module__.startswith(_PACKAGE) or "<locals>" in kind.__qualname__:
            raise Unnameable(f"an object of class {kind.__qualname__}")
        self.text("of", f"{kind.__module__} {kind.__qualname__}")

    def closed(self, x: ClosedJaxpr) -> None:
        self.program(x.jaxpr)
        self.values("consts", x.consts)

    def program(self, jaxpr: Jaxpr) -> None:
        """Write a jaxpr, or the number of one that was written before."""
        # Weak types of the outermost program do not affect its code.
        is_outermost = not self._programs
        number = self._programs.get(id(jaxpr))
        if number is not None:
            self.text("again", number)
            return
        self._programs[id(jaxpr)] = len(self._programs)
        if jaxpr.effects:
            raise Unnameable("effects")
        numbers = self._numbers

        def binders(kind: str, variables: Iterable[Var]) -> None:
            parts = [kind.encode()]
            for v in variables:
                numbers[id(v)] = len(numbers)
                parts.append(self.type_of(v.aval, strong=is_outermost))
            self.found.append(b"; ".join(parts))

        def atoms(kind: str, operands: Iterable[Any]) -> None:
            parts = [kind.encode()]
            for x in operands:
                if not x.is_literal:
                    parts.append(b"%d" % numbers[id(x)])
                elif isinstance(x.aval.dtype, np.dtype):
                    value = np.asarray(x.val, x.aval.dtype).tobytes()
                    parts += (self.type_of(x.aval, strong=is_outermost), value.hex().encode())
                else:
                    raise Unnameable(f"a literal of type {x.aval}")
            self.found.append(b"; ".join(parts))

        binders("lambda", jaxpr.constvars)
        binders(";", jaxpr.invars)
        for eqn in jaxpr.eqns:
            primitive, params = eqn.primitive, eqn.params
            self.operation(primitive)
            for name in sorted(params):
                if name not in primitive.for_transformations:
                    self.text("param", name)
                    self.value(params[name])
            atoms("in", eqn.invars)
            binders("out", eqn.outvars)
        atoms("return", jaxpr.outvars)

    def type_of(self, aval: ShapedArray, *, strong: bool = False) -> bytes:
        if aval.__class__ is not ShapedArray:
            raise Unnameable(f"a value of type {aval}")
        if strong and aval.weak_type:
            aval = aval.with_(weak_type=False)
        found = self._types.get(aval)
        if found is None:
            weak = "weak" if aval.weak_type else ""
            varying = sorted(map(repr, aval.varying))
            shape = ",".join(map(str, aval.shape))
            text = f"{self._dtype(aval.dtype)}[{shape}]{weak}{varying}"
            found = self._types[aval] = text.encode()
        return found

    def _dtype(self, dtype: Any) -> str:
        if isinstance(dtype, ExtendedDtype):
            self._own(type(dtype))
            physical = long_name(dtype.physical_dtype)
            return f"{dtype.name} {physical} {dtype.physical_shape}"
        return f"{long_name(dtype)} {dtype.str}"

    def dtype(self, x: Any) -> None:
        self.text("dtype", self._dtype(x))


def _literally(x: Any) -> Callable[[_Writer, Any], None]:
    kind = x.__name__
    return lambda writer, value: writer.text(kind, repr(value))


_WRITERS: dict[type, Callable[[_Writer, Any], None]] = {
    **{kind: _literally(kind) for kind in (type(None), bool, int, str, bytes, complex)},
    float: lambda writer, x: writer.text("float", x.hex()),
    type(Ellipsis): _literally(type(Ellipsis)),
    tuple: lambda writer, x: writer.values("tuple", x),
    list: lambda writer, x: writer.values("list", x),
    dict: _Writer.mapping,
    set: _Writer.unordered,
    frozenset: _Writer.unordered,
    np.ndarray: _Writer.array,
    Jaxpr: _Writer.program,
    ClosedJaxpr: _Writer.closed,
    ShapedArray: lambda writer, x: writer.found.append(writer.type_of(x)),
    types.FunctionType: _Writer.function,
}


def _writer_for(x: Any) -> Callable[[_Writer, Any], None]:
    """Return the writer of values of a class that is not in the table."""
    if isinstance(x, (np.dtype, ExtendedDtype)):
        return _Writer.dtype
    if isinstance(x, np.generic):
        return lambda writer, value: writer.array(np.asarray(value))
    if isinstance(x, Size):
        return lambda writer, value: writer.text("size", f"{value} {facts_of(value)}")
    if isinstance(x, enum.Enum):
        return _Writer.member
    if isinstance(x, type):
        return _Writer.cls
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return _Writer.named_tuple
    if dataclasses.is_dataclass(x):
        return _Writer.fields
    raise Unnameable(f"an object of class {type(x).__qualname__}")
