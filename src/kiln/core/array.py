"""Array: what users hold.

`Array` is abstract: concrete arrays and tracers are instances of it without sharing a layout.
Operators and methods arrive by one call, `set_operators(table)`. Only this file knows how a
concrete array keeps its data: an engine's buffer, a host view of it, or both; other modules ask
through the functions at the end.
"""

from __future__ import annotations

import abc
import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.engine import Buffer, Engine
from kiln.ir.types import ShapedArray

_table: dict[str, Callable[..., Any]] = {}


def set_operators(table: dict[str, Callable[..., Any]]) -> None:
    """Install the functions behind the operators and methods of arrays."""
    _table.update(table)


def _unary(name: str) -> Callable[[Any], Any]:
    def method(self: Any) -> Any:
        return _table[name](self)

    method.__name__ = name
    return method


def _binary(name: str) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return _table[name](self, other)

    method.__name__ = name
    return method


def _method(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _table[name](self, *args, **kwargs)

    method.__name__ = name
    return method


class ArrayOperators:
    """What concrete arrays and tracers answer alike. Holds no data."""

    __slots__ = ()
    __array_priority__ = 100
    aval: ShapedArray

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.aval.shape  # type: ignore[return-value]

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.aval.size  # type: ignore[return-value]

    @property
    def weak_type(self) -> bool:
        """Whether the dtype gives way to that of a strongly typed operand."""
        return self.aval.weak_type

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return int(self.aval.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def T(self) -> Any:
        """The array with its axes reversed."""
        return _table["T"](self)

    @property
    def mT(self) -> Any:
        """The array with its last two axes exchanged."""
        return _table["mT"](self)

    @property
    def real(self) -> Any:
        """The real part."""
        return _table["real"](self)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return _table["imag"](self)

    @property
    def at(self) -> Any:
        """Functional updates: `x.at[index].set(y)`."""
        return _table["at"](self)

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError("len() of unsized object")
        return int(self.aval.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return iter(_table["__iter__"](self))

    __add__, __radd__ = _binary("__add__"), _binary("__radd__")
    __sub__, __rsub__ = _binary("__sub__"), _binary("__rsub__")
    __mul__, __rmul__ = _binary("__mul__"), _binary("__rmul__")
    __truediv__, __rtruediv__ = _binary("__truediv__"), _binary("__rtruediv__")
    __floordiv__, __rfloordiv__ = _binary("__floordiv__"), _binary("__rfloordiv__")
    __mod__, __rmod__ = _binary("__mod__"), _binary("__rmod__")
    __divmod__, __rdivmod__ = _binary("__divmod__"), _binary("__rdivmod__")
    __pow__, __rpow__ = _binary("__pow__"), _binary("__rpow__")
    __matmul__, __rmatmul__ = _binary("__matmul__"), _binary("__rmatmul__")
    __and__, __rand__ = _binary("__and__"), _binary("__rand__")
    __or__, __ror__ = _binary("__or__"), _binary("__ror__")
    __xor__, __rxor__ = _binary("__xor__"), _binary("__rxor__")
    __lshift__, __rlshift__ = _binary("__lshift__"), _binary("__rlshift__")
    __rshift__, __rrshift__ = _binary("__rshift__"), _binary("__rrshift__")
    __lt__, __le__ = _binary("__lt__"), _binary("__le__")
    __gt__, __ge__ = _binary("__gt__"), _binary("__ge__")
    __eq__, __ne__ = _binary("__eq__"), _binary("__ne__")
    __neg__, __pos__ = _unary("__neg__"), _unary("__pos__")
    __abs__, __invert__ = _unary("__abs__"), _unary("__invert__")
    __getitem__ = _binary("__getitem__")
    __round__ = _method("__round__")

    all, any, argmax, argmin = _method("all"), _method("any"), _method("argmax"), _method("argmin")
    argpartition, argsort = _method("argpartition"), _method("argsort")
    astype, choose, clip = _method("astype"), _method("choose"), _method("clip")
    compress, conj = _method("compress"), _method("conj")
    conjugate, copy = _method("conj"), _method("copy")
    cumprod, cumsum = _method("cumprod"), _method("cumsum")
    diagonal, dot, flatten = _method("diagonal"), _method("dot"), _method("flatten")
    max, mean, min = _method("max"), _method("mean"), _method("min")
    nonzero, prod, ptp = _method("nonzero"), _method("prod"), _method("ptp")
    ravel, repeat, reshape = _method("ravel"), _method("repeat"), _method("reshape")
    round, searchsorted, sort = _method("round"), _method("searchsorted"), _method("sort")
    squeeze, std, sum = _method("squeeze"), _method("std"), _method("sum")
    swapaxes, take = _method("swapaxes"), _method("take")
    transpose, var, view = _method("transpose"), _method("var"), _method("view")

    @property
    def flat(self) -> Any:
        """The elements in row-major order."""
        return _table["flatten"](self)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return _table["__array_namespace__"](self)


class Array(ArrayOperators, metaclass=abc.ABCMeta):
    """An array of kiln: concrete, or traced. Make one with `kiln.numpy.array`."""

    def __init__(self) -> None:
        raise TypeError("Array is abstract: make arrays with kiln.numpy.array")


_DELETED = "Array has been deleted"


class ConcreteArray(ArrayOperators):
    """An array with a value."""

    __slots__ = ("__weakref__", "_buffer", "_engine", "_host", "aval")
    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        aval: ShapedArray,
        host: np.ndarray | None,
        buffer: Buffer = None,
        engine: Engine | None = None,
    ) -> None:
        self.aval = aval
        self._host = host
        self._buffer = buffer
        self._engine = engine

    trace = _method("trace")

    def is_deleted(self) -> bool:
        """Tell whether the array's memory was given away or freed."""
        return self._host is None and self._buffer is None

    def delete(self) -> None:
        """Free the memory; any later use of the values raises RuntimeError."""
        if self._buffer is not None and self._engine is not None:
            self._engine.delete(self._buffer)
        self._host = self._buffer = None

    def is_ready(self) -> bool:
        """Tell whether the values have been computed."""
        self._check()
        if self._buffer is None or self._engine is None:
            return True
        return self._engine.is_ready(self._buffer)

    def block_until_ready(self) -> ConcreteArray:
        """Wait until the values have been computed, and return the array."""
        self._check()
        if self._buffer is not None and self._engine is not None:
            self._engine.wait(self._buffer)
        return self

    def copy_to_host_async(self) -> None:
        """Start copying to the host; on the CPU the values are there already."""
        self._check()

    def _check(self) -> None:
        if self._host is None and self._buffer is None:
            raise RuntimeError(
                three_lines(
                    f"use of an array {self.aval} at {current_source()}",
                    f"{_DELETED}: its memory was donated or freed",
                    "keep a copy with x.copy() before donating or deleting x",
                )
            )

    def _scalar(self, conversion: str) -> Any:
        value = host_value(self)
        if value.ndim:
            raise TypeError(
                three_lines(
                    f"{conversion}() of an array {self.aval} at {current_source()}",
                    "Only scalar arrays can be converted to Python scalars; "
                    f"got arr.ndim={value.ndim}",
                    "index one element first",
                )
            )
        return value

    def __bool__(self) -> bool:
        value = host_value(self)
        if value.size != 1:
            raise ValueError(
                three_lines(
                    f"bool() of an array {self.aval} at {current_source()}",
                    "The truth value of an array with "
                    + ("no" if value.size == 0 else "more than one")
                    + " element is ambiguous",
                    "use .any() or .all()",
                )
            )
        return bool(value.reshape(()))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        value = host_value(self)
        if value.ndim or value.dtype.kind not in "iu":
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = host_value(self)
        if dtype is not None and np.dtype(dtype) != value.dtype:
            return value.astype(dtype)
        return value.copy() if copy else value

    def item(self, *args: int) -> Any:
        """Return one element as a Python scalar."""
        return host_value(self).item(*args)

    def tolist(self) -> Any:
        """Return the elements as nested lists."""
        return host_value(self).tolist()

    def tobytes(self, order: str = "C") -> bytes:
        """Return the raw bytes."""
        return host_value(self).tobytes(order)  # type: ignore[arg-type]

    def unsafe_buffer_pointer(self) -> int:
        """Return the address of the first element."""
        return int(host_value(self).ctypes.data)

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise TypeError(
            three_lines(
                f"assignment to an item of an array {self.aval} at {current_source()}",
                "kiln arrays are immutable and do not support item assignment",
                "write x = x.at[idx].set(y) instead of x[idx] = y",
            )
        )

    def __repr__(self) -> str:
        return _representation(self)

    def __str__(self) -> str:
        return str(_printable(self))

    def __format__(self, spec: str) -> str:
        return format(_printable(self)[()] if not self.aval.shape else _printable(self), spec)

    def __copy__(self) -> ConcreteArray:
        return self

    def __deepcopy__(self, memo: Any) -> ConcreteArray:
        self._check()
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (host_value(self), self.aval)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return host_value(self).__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


Array.register(ConcreteArray)


def _unpickle(value: np.ndarray, aval: ShapedArray) -> ConcreteArray:
    return from_host(value, aval)


def _printable(x: ConcreteArray) -> np.ndarray:
    value = host_value(x)
    if dtypes.is_extended(x.aval.dtype):
        # A key shows its two words, the low half of the element first.
        return np.stack([value.astype(np.uint32), (value >> 32).astype(np.uint32)], axis=-1)
    return value


def _representation(x: ConcreteArray) -> str:
    value = _printable(x)
    dtype = dtypes.long_name(x.aval.dtype)
    name = "Array"
    if dtypes.is_extended(x.aval.dtype):
        shape = ", ".join(map(str, x.aval.shape)) + ("," if len(x.aval.shape) == 1 else "")
        return f"{name}(({shape}), dtype={dtype}) overlaying:\n{value}"
    weak = ", weak_type=True" if x.aval.weak_type else ""
    if value.size == 0:
        shape = f", shape={value.shape}"
        return f"{name}([]{shape}, dtype={dtype}{weak})"
    body = np.array2string(
        value,
        separator=", ",
        prefix=f"{name}(",
        suffix=f", dtype={dtype}{weak})",
        threshold=np.get_printoptions()["threshold"],
    )
    return f"{name}({body}, dtype={dtype}{weak})"


def physical(aval: ShapedArray) -> ShapedArray:
    """Return the type of the data behind an array: one plain element per extended one."""
    if not dtypes.is_extended(aval.dtype):
        return aval
    return ShapedArray(aval.shape, aval.dtype.physical_dtype)


def from_host(value: np.ndarray, aval: ShapedArray | None = None) -> ConcreteArray:
    """Make an array of host data that nobody will write to again.

    The caller gives the memory up; copy first what a user may still change.
    """
    if value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return ConcreteArray(aval or ShapedArray(value.shape, value.dtype), value)


def from_buffers(
    avals: Sequence[ShapedArray], buffers: Sequence[Buffer], engine: Engine
) -> list[ConcreteArray]:
    """Make arrays of an engine's buffers."""
    if engine.host_memory:
        return [ConcreteArray(a, b) for a, b in zip(avals, buffers, strict=True)]
    return [ConcreteArray(a, None, b, engine) for a, b in zip(avals, buffers, strict=True)]


class Watch:
    """Arrays whose values a recorded program is not to depend on; `seen` tells that it does."""

    __slots__ = ("_arrays", "_thread", "seen")

    def __init__(self, arrays: Sequence[ConcreteArray]) -> None:
        self._arrays = {id(x) for x in arrays}
        self._thread = threading.get_ident()
        self.seen = False

    def note(self, x: ConcreteArray) -> None:
        """Note that the value of an array was looked at."""
        if id(x) in self._arrays:
            self.seen = True

    def is_here(self) -> bool:
        """Tell whether this thread is recording under the watch."""
        return self._thread == threading.get_ident()


_watches: list[Watch] = []


@contextlib.contextmanager
def watched(arrays: Sequence[ConcreteArray]) -> Iterator[Watch]:
    """Note, until the context ends, whether values of the arrays are looked at."""
    watch = Watch(arrays)
    _watches.append(watch)
    try:
        yield watch
    finally:
        _watches.remove(watch)


def watches_here() -> list[Watch]:
    """Return the watches under which this thread is recording."""
    return [watch for watch in _watches if watch.is_here()] if _watches else _watches


def host_value(x: ConcreteArray) -> np.ndarray:
    """Return a read-only NumPy view of the values (physical ones for extended dtypes); may wait."""
    if _watches:
        for watch in tuple(_watches):
            watch.note(x)
    value = x._host
    if value is None:
        x._check()
        assert x._engine is not None
        value = x._host = x._engine.get(x._buffer)
    return value


def buffer_for(x: ConcreteArray, engine: Engine) -> Buffer:
    """Return the array's buffer of the given engine, moving the data there once if needed."""
    if x._engine is engine and x._buffer is not None:
        return x._buffer
    if engine.host_memory:
        return host_value(x)
    buffer = engine.adopt(host_value(x))
    x._buffer, x._engine = buffer, engine
    return buffer


def with_type(x: ConcreteArray, aval: ShapedArray) -> ConcreteArray:
    """Return an array with the same memory and another type (weakness, or a view as key)."""
    x._check()
    for watch in tuple(_watches):
        # What becomes of the new array is not followed.
        watch.note(x)
    return ConcreteArray(aval, x._host, x._buffer, x._engine)
