"""The common interface of arrays and tracers: attributes of their type, operators, methods.

`set_operators(table)` installs the functions behind the operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kiln import _runtime
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.ir.sizes.assumptions import names_in_scope
from kiln.ir.types import ShapedArray

operators: dict[str, Callable[..., Any]] = {}
"""The functions behind the operators and methods, by name."""


def set_operators(table: dict[str, Callable[..., Any]]) -> None:
    """Install the functions behind the operators and methods of arrays."""
    operators.update(table)
    _runtime.set_operator_table(operators)


def _unary(name: str) -> Callable[[Any], Any]:
    def call(self: Any) -> Any:
        return operators[name](self)

    call.__name__ = name
    return call


def _binary(name: str) -> Callable[[Any, Any], Any]:
    def call(self: Any, other: Any) -> Any:
        return operators[name](self, other)

    call.__name__ = name
    return call


def method(name: str) -> Callable[..., Any]:
    """Return a method that calls the function of that name in the table."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return operators[name](self, *args, **kwargs)

    call.__name__ = name
    return call


class ArrayOperators:
    """The common base of concrete arrays and tracers. Holds no data."""

    __slots__ = ()
    __array_priority__ = 100
    aval: ShapedArray

    def __treescope_repr__(self, path: str | None, subtree_renderer: Callable[..., Any]) -> Any:
        """Show values in treescope like NumPy's; show arrays without a value by their repr."""
        try:
            values = np.asarray(self)
        except (TypeError, RuntimeError):
            return NotImplemented
        return subtree_renderer(values, path=path)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        shape = self.aval.shape
        if names_in_scope():
            # Since Python 3.14 a tuple keeps its hash: that of a type's, which kiln has asked for,
            # would answer a user who looks up a size.
            shape = (*shape,)
        return shape  # type: ignore[return-value]

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
        """Whether the dtype yields to that of a strongly typed operand."""
        return self.aval.weak_type

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        return int(self.aval.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.itemsize

    def on_device_size_in_bytes(self) -> int:
        """Return the bytes of all elements, over all shards."""
        return self.nbytes

    @property
    def T(self) -> Any:
        """The array with its axes reversed."""
        return operators["T"](self)

    @property
    def mT(self) -> Any:
        """The array with its last two axes exchanged."""
        return operators["mT"](self)

    @property
    def real(self) -> Any:
        """The real part."""
        return operators["real"](self)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return operators["imag"](self)

    @property
    def at(self) -> Any:
        """Functional updates: `x.at[index].set(y)`."""
        return operators["at"](self)

    def __len__(self) -> int:
        if not self.aval.shape:
            raise TypeError(
                three_lines(
                    f"len() of {self.aval} at {current_source()}",
                    "len() of unsized object: the array has no axes",
                    "use x.size, which is 1, or x.item() for its value",
                )
            )
        return int(self.aval.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return iter(operators["__iter__"](self))

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
    __round__ = method("__round__")

    all, any, argmax, argmin = (
        method("all"),
        method("any"),
        method("argmax"),
        method("argmin"),
    )
    argpartition, argsort = method("argpartition"), method("argsort")
    astype, byteswap = method("astype"), method("byteswap")
    choose, clip = method("choose"), method("clip")
    compress, conj = method("compress"), method("conj")
    conjugate, copy = method("conj"), method("copy")
    cumprod, cumsum = method("cumprod"), method("cumsum")
    diagonal, dot, flatten = method("diagonal"), method("dot"), method("flatten")
    max, mean, min = method("max"), method("mean"), method("min")
    nonzero, prod, ptp = method("nonzero"), method("prod"), method("ptp")
    ravel, repeat, reshape = method("ravel"), method("repeat"), method("reshape")
    round, searchsorted, sort = (
        method("round"),
        method("searchsorted"),
        method("sort"),
    )
    squeeze, std, sum = method("squeeze"), method("std"), method("sum")
    swapaxes, take = method("swapaxes"), method("take")
    trace, transpose = method("trace"), method("transpose")
    var, view = method("var"), method("view")

    @property
    def flat(self) -> Any:
        """The elements in row-major order."""
        return operators["flatten"](self)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """Return the array on another device."""
        return operators["to_device"](self, device, stream=stream)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return operators["__array_namespace__"](self)
