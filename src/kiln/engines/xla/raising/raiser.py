"""Runs the operations of a StableHLO module as kiln's, which the active trace records.

Every result is compared with the type that the module declares for it: an operation that is raised
to something else is an error here, not a wrong number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kiln.control.call import jit_p
from kiln.core.arrays.array import ConcreteArray, from_host
from kiln.core.engines.artifacts import LARGE
from kiln.core.staging import stage_capturing, stage_pure
from kiln.core.trace import aval_of
from kiln.engines.xla.stablehlo.operations import Function, Operation, PartialType, Region, Type
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.sizes.size import Dim, Size
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import convert_element_type_p
from kiln.ops.indexing.static_slicing import concatenate_p
from kiln.ops.shape import broadcast_in_dim_p, reshape_p
from kiln.ops.size_value import size_value_p

Raising = Callable[..., Any]
"""`raise_(r, operation, *operands)`: returns a value, or a list if there are several results."""
Body = Callable[..., list[Any]]
"""A region as a function of its arguments."""


_ARRANGING = ("stablehlo.broadcast_in_dim", "stablehlo.reshape")


Content = tuple[str, tuple[int, ...], bytes]
"""A constant by its dtype, its shape and its bits."""


class NotRaised(Exception):
    """An operation has no counterpart among kiln's primitives; the text is the reason."""


class Missing:
    """A result that an operation of kiln does not have; using it is an error."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class _Scope:
    """Values by number: those of a region, then those of the regions around it."""

    def __init__(self, around: _Scope | None = None) -> None:
        self._values: dict[int, Any] = {}
        self._around = around

    def __getitem__(self, number: int) -> Any:
        scope: _Scope | None = self
        while scope is not None:
            if number in scope._values:
                return scope._values[number]
            scope = scope._around
        raise KeyError(number)

    def define(self, numbers: Sequence[int], values: Sequence[Any]) -> None:
        self._values.update(zip(numbers, values, strict=True))


class Raiser:
    """Raises the functions of one module, each once, however often it is called."""

    def __init__(
        self,
        functions: Mapping[str, Function],
        table: Mapping[str, Raising],
        of_sizes: Mapping[str, Raising] | None = None,
    ) -> None:
        self.functions = functions
        self.is_sized = any(
            isinstance(kind, PartialType) for f in functions.values() for kind in f.types
        )
        """Whether sizes of the module's arrays are not written, but computed."""
        self._of_sizes = (of_sizes or {}) if self.is_sized else {}
        self.used = frozenset([x for f in functions.values() for x in _reads(f.body)])
        """The values that some operation or function of the module reads."""
        self._table = table
        self._functions: dict[str, tuple[Jaxpr, list[Any]]] = {}
        self._given: dict[Content, Any] = {}
        self._scope = _Scope()
        self._definitions: dict[int, Operation] = {}

    def operation_of(self, number: int) -> Operation | None:
        """Return the operation that computes a value; None for arguments."""
        return self._definitions.get(number)

    def value(self, number: int) -> Any:
        """Return the value that has a number, here or in the regions around."""
        return self._scope[number]

    def repeated(self, number: int) -> Any:
        """Return the number that all elements of a constant are; None for other values."""
        operation = self.operation_of(number)
        if operation is not None and operation.name == "stablehlo.constant":
            value = operation.attributes["value"]
            flat = value.reshape(-1)
            return flat[0] if flat.size and (flat == flat[0]).all() else None
        if operation is not None and operation.name in _ARRANGING:
            return self.repeated(operation.operands[0])
        return None

    def raised(self, operation: Operation, operands: Sequence[Any]) -> Any:
        """Return what an operation is raised to: a value, or a list if it has several results.

        Raises: NotRaised if it has no counterpart among kiln's primitives.
        """
        of_sizes = self._of_sizes.get(operation.name)
        if of_sizes is not None:
            found = of_sizes(self, operation, *operands)
            if found is not NotImplemented:
                return found
        operands = [array_of(x) for x in operands]
        raising = self._table.get(operation.name)
        if raising is None:
            raise NotRaised(f"{operation.name} has no counterpart in kiln")
        return raising(self, operation, *operands)

    def has(self, name: str) -> bool:
        """Tell whether the table has an operation."""
        return name in self._table

    def program(
        self,
        name: str,
        constants: Sequence[np.ndarray] = (),
        *,
        types: Sequence[ShapedArray] = (),
        first: Sequence[Any] = (),
    ) -> Jaxpr:
        """Return a function as a jaxpr without constants; some constants are further inputs.

        If the module `is_sized`, `types` are those of its operands; `first` are operands before
        them that are known.

        Raises: NotRaised, naming the operation that has no counterpart.
        """
        function = self.functions[name]
        declared = function.types[len(first) :]
        if not self.is_sized:
            types = [typed(name, kind) for kind in declared]
        elif [kind.dtype for kind in types] != [getattr(kind, "dtype", None) for kind in declared]:
            raise NotRaised(f"{name} takes {', '.join(map(str, declared))}")
        count, contents = len(types), [content_of(value) for value in constants]

        def run(*operands: Any) -> list[Any]:
            self._given = dict(zip(contents, operands[count:], strict=True))
            found = self._run(function.body, [*first, *operands[:count]], _Scope())
            return [array_of(x) for x in found]

        further = [ShapedArray(value.shape, value.dtype) for value in constants]
        return stage_pure(run, [*types, *further], name=name)

    def constant(self, value: np.ndarray) -> Any:
        """Return a constant, or the input of the program that it is."""
        known = self._given.get(content_of(value)) if value.nbytes >= LARGE else None
        return constant(value) if known is None else known

    def call(self, name: str, operands: Sequence[Any]) -> list[Any]:
        """Call a function of the module."""
        known = self._functions.get(name)
        if self.is_sized:
            # What depends on sizes is known here, and not by the types of its arguments.
            return self._run(self.functions[name].body, operands, _Scope())
        if known is None:
            function = self.functions[name]
            types = [typed(name, kind) for kind in function.types]

            def run(*operands: Any) -> list[Any]:
                return self._run(function.body, operands, _Scope())

            # What it captures are inputs of the program, which are the same at every call.
            known = self._functions[name] = stage_capturing(run, types, name=name)
        jaxpr, captured = known
        found: list[Any] = jit_p.bind(*captured, *operands, jaxpr=jaxpr, name=name)
        return found

    def body(self, region: Region) -> Body:
        """Return a region as a function, which also reads the values around it."""
        around = self._scope
        return lambda *operands: [array_of(x) for x in self._run(region, operands, _Scope(around))]

    def _run(self, region: Region, operands: Sequence[Any], scope: _Scope) -> list[Any]:
        scope.define(region.arguments, operands)
        outer, self._scope = self._scope, scope
        try:
            for operation in region.operations:
                self._definitions.update(dict.fromkeys(operation.results, operation))
                given = [present(scope[number]) for number in operation.operands]
                scope.define(operation.results, self._results(operation, given))
            return [present(scope[number]) for number in region.returned]
        finally:
            self._scope = outer

    def _results(self, operation: Operation, operands: Sequence[Any]) -> list[Any]:
        name = operation.name
        try:
            found = self.raised(operation, operands)
        except (NotRaised, KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001, primitives refuse operands by many classes
            lines = str(error).splitlines() or [type(error).__name__]
            raise NotRaised(f"{name}: {lines[min(1, len(lines) - 1)]}") from None
        results = list(found) if isinstance(found, (list, tuple)) else [found]
        if len(results) != len(operation.types):
            raise NotRaised(f"{name} with {len(operation.types)} results has no counterpart")
        return [_checked(name, x, kind) for x, kind in zip(results, operation.types, strict=True)]


def _reads(region: Region) -> Iterator[int]:
    yield from region.returned
    for operation in region.operations:
        yield from operation.operands
        for inner in operation.regions:
            yield from _reads(inner)


class Sizes:
    """An array of integers that the sizes of a call determine: an array of dimensions."""

    def __init__(self, dims: Any, dtype: Any) -> None:
        self.dims: np.ndarray = np.empty(np.shape(dims), object)
        self.dims[...] = dims
        self.dtype = np.dtype(dtype)

    def numbers(self) -> np.ndarray | None:
        """Return the integers, if they are known."""
        if any(isinstance(dim, Size) for dim in self.dims.flat):
            return None
        return self.dims.astype(self.dtype)


def array_of(x: Any) -> Any:
    """Return a value as an array: sizes as numbers that a program reads."""
    if not isinstance(x, Sizes):
        return x
    numbers = x.numbers()
    if numbers is not None:
        return constant(numbers)
    parts = [size_value_p.bind(size=d, dtype=x.dtype, weak_type=False) for d in x.dims.flat]
    if x.dims.ndim == 0:
        return parts[0]
    rows = [broadcast_in_dim_p.bind(part, shape=(1,), broadcast_dimensions=()) for part in parts]
    return reshape_p.bind(
        concatenate_p.bind(*rows, dimension=0), new_sizes=x.dims.shape, dimensions=None
    )


def typed(name: str, kind: Type) -> ShapedArray:
    """Return the type of an array.

    Raises: NotRaised for other types.
    """
    if isinstance(kind, PartialType):
        raise NotRaised(f"{name} of type {kind}, whose sizes are not written, has no counterpart")
    if isinstance(kind, str):
        raise NotRaised(f"{name} has a value of type {kind}, which kiln lacks")
    return kind


def present(x: Any) -> Any:
    """Return a value.

    Raises: NotRaised if kiln's counterpart of the operation that computes it does not return it.
    """
    if isinstance(x, Missing):
        raise NotRaised(x.reason)
    return x


def _checked(name: str, x: Any, kind: Type) -> Any:
    if isinstance(x, Missing):
        return x
    wanted = kind if isinstance(kind, PartialType) else typed(name, kind)
    found = ShapedArray(x.dims.shape, x.dtype) if isinstance(x, Sizes) else aval_of(x)
    if not _are_of(found.shape, wanted.shape) or found.dtype != wanted.dtype:
        raise NotRaised(f"{name} of type {wanted} would be raised to one of type {found}")
    if isinstance(x, Sizes):
        return x
    if found.weak_type:
        return convert_element_type_p.bind(x, new_dtype=found.dtype, weak_type=False)
    return x


def _are_of(shape: Sequence[Dim], wanted: Sequence[Dim | None]) -> bool:
    """Tell whether sizes are those that a type has, where they are written."""
    return len(shape) == len(wanted) and all(
        known is None or size == known for size, known in zip(shape, wanted, strict=True)
    )


def constant(value: np.ndarray) -> Any:
    """Return a constant: a scalar as a number, which primitives recognize, others as an array."""
    if value.ndim == 0:
        return number(value, value.dtype)
    if is_repeated(value):
        return repeated(value[(0,) * value.ndim], value.dtype, value.shape)
    return from_host(np.array(value))


def is_repeated(value: np.ndarray) -> bool:
    """Tell whether all elements of an array have the same bits."""
    if value.size == 0:
        return False
    raw = np.ascontiguousarray(value).reshape(-1).view(np.uint8).reshape(value.size, -1)
    return bool((raw == raw[0]).all())


def content_of(value: np.ndarray) -> Content:
    """Return what distinguishes a constant from others."""
    return str(value.dtype), value.shape, value.tobytes()


def number(value: Any, dtype: Any) -> Any:
    """Return a scalar of exactly this dtype, which primitives recognize as a constant."""
    found = np.asarray(value, dtype)
    # As NumPy scalars, numbers of 64 bits have types of 32, unless the option x64 is set.
    return from_host(found) if dtype.kind in "iufc" and dtype.itemsize >= 8 else found[()]


def repeated(value: Any, dtype: Any, shape: Sequence[Dim]) -> Any:
    """Return an array of which all elements are one number."""
    return broadcast_in_dim_p.bind(
        number(value, dtype), shape=tuple(shape), broadcast_dimensions=()
    )


def known(x: Any) -> Any:
    """Return the number that a scalar is, or None if it is computed."""
    return np.asarray(x)[()] if isinstance(x, (np.generic, ConcreteArray)) else None
