"""The operators and methods of arrays: name -> function. Importing this module installs them.

Arrays and tracers look their operators up in one table (`core/arrays/array.py`), because the
functions are in a higher layer than arrays. A binary operator on something that is not an array
returns NotImplemented, so that Python asks the other operand.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.arrays.transfers import explicit
from kiln.core.operators import set_operators
from kiln.core.trace import is_typed
from kiln.execution.eager_plans import eager
from kiln.ir.sizes.size import Size
from kiln.numpy import products, search, sorting
from kiln.numpy import shapes as manipulation
from kiln.numpy.creation import arrays as creation
from kiln.numpy.creation import conversion, matrices
from kiln.numpy.elements import arithmetic, bitwise, complex_parts, logic, rounding
from kiln.numpy.indexing import iteration
from kiln.numpy.indexing import taking as indexing
from kiln.numpy.manipulation import repetition
from kiln.numpy.promotion import SCALARS
from kiln.numpy.reductions import cumulative, reductions, statistics

Unary = Callable[[Any], Any]
Binary = Callable[[Any, Any], Any]


def _accepts(other: Any) -> bool:
    return (
        type(other) in SCALARS
        or is_typed(other)
        or isinstance(other, (np.ndarray, np.generic, bool, int, float, complex))
        or type(other) is Size
        or hasattr(other, "__jax_array__")
    )


def _unary(fun: Unary, loop: str) -> Unary:
    def apply(self: Any) -> Any:
        return fun(self)

    return eager(apply, loop)


def _deferring(fun: Binary, loop: str | None = None) -> Binary:
    def apply(self: Any, other: Any) -> Any:
        return fun(self, other) if _accepts(other) else NotImplemented

    return eager(apply, loop)


def _reflected(fun: Binary, loop: str | None = None) -> Binary:
    def apply(self: Any, other: Any) -> Any:
        return fun(other, self) if _accepts(other) else NotImplemented

    return eager(apply, loop, swapped=True)


_BINARY: dict[str, Binary] = {
    "add": arithmetic.add,
    "sub": arithmetic.subtract,
    "mul": arithmetic.multiply,
    "truediv": arithmetic.divide,
    "floordiv": arithmetic.floor_divide,
    "mod": arithmetic.remainder,
    "divmod": arithmetic.divmod,
    "pow": arithmetic.power,
    "matmul": products.matmul,
    "and": bitwise.bitwise_and,
    "or": bitwise.bitwise_or,
    "xor": bitwise.bitwise_xor,
    "lshift": bitwise.left_shift,
    "rshift": bitwise.right_shift,
}

_COMPARISONS: dict[str, Binary] = {
    "eq": logic.equal,
    "ne": logic.not_equal,
    "lt": logic.less,
    "le": logic.less_equal,
    "gt": logic.greater,
    "ge": logic.greater_equal,
}

_LOOPS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
"""Operators that are one loop on arrays of one type."""


@eager
def _reshape(
    self: Any, *args: Any, order: str = "C", copy: bool | None = None, out_sharding: Any = None
) -> Any:
    shape = args[0] if len(args) == 1 else args
    return manipulation.reshape(self, shape, order, copy=copy, out_sharding=out_sharding)


@eager
def _transpose(self: Any, *args: Any) -> Any:
    if not args or args == (None,):
        return manipulation.transpose(self)
    return manipulation.transpose(self, args[0] if len(args) == 1 else args)


@eager
def _flatten(self: Any, order: str = "C") -> Any:
    return manipulation.ravel(self, order)


@eager
def _astype(self: Any, dtype: Any, copy: bool = False, device: Any = None) -> Any:
    return conversion.astype(self, dtype, copy=copy, device=device)


@eager
def _clip(self: Any, min: Any = None, max: Any = None) -> Any:
    return arithmetic.clip(self, min, max)


def _namespace(self: Any) -> Any:
    return sys.modules["kiln.numpy"]


@eager
def _rounded(self: Any, ndigits: int | None = None) -> Any:
    if ndigits is not None:
        return rounding.round(self, ndigits)
    return conversion.astype(rounding.round(self), int)


def _copy(self: Any, order: str | None = None) -> Any:
    return creation.copy(self)


@explicit
def _to_device(self: Any, device: Any, /, *, stream: Any = None) -> Any:
    if stream is not None:
        raise ValueError(
            three_lines(
                f"to_device({device}, stream={stream!r}) at {current_source()}",
                "these devices have no streams",
                "leave the stream out",
            )
        )
    return creation.asarray(self, device=device)


def _compress(self: Any, condition: Any, axis: int | None = None, **options: Any) -> Any:
    return indexing.compress(condition, self, axis, **options)


def table() -> dict[str, Callable[..., Any]]:
    """Return the functions behind the operators and methods, by name."""
    found: dict[str, Callable[..., Any]] = {}
    for name, fun in _BINARY.items():
        found[f"__{name}__"] = _deferring(fun, _LOOPS.get(name))
        found[f"__r{name}__"] = _reflected(fun, _LOOPS.get(name))
    for name, fun in _COMPARISONS.items():
        found[f"__{name}__"] = _deferring(fun, _LOOPS[name])
    found |= {
        "__neg__": _unary(arithmetic.negative, "negative"),
        "__pos__": arithmetic.positive,
        "__abs__": _unary(arithmetic.absolute, "absolute"),
        "__invert__": bitwise.bitwise_not,
        "__iter__": iteration.unpacked,
        "__round__": _rounded,
        "__array_namespace__": _namespace,
        "T": manipulation.transpose,
        "mT": matrices.matrix_transpose,
        "real": complex_parts.real,
        "imag": complex_parts.imag,
        "at": indexing.at,
        "__getitem__": indexing.getitem,
        "all": reductions.all,
        "any": reductions.any,
        "argmax": reductions.argmax,
        "argmin": reductions.argmin,
        "argpartition": sorting.argpartition,
        "argsort": sorting.argsort,
        "astype": _astype,
        "byteswap": conversion.byteswap,
        "choose": indexing.choose,
        "clip": _clip,
        "compress": _compress,
        "conj": complex_parts.conj,
        "copy": _copy,
        "cumprod": cumulative.cumprod,
        "cumsum": cumulative.cumsum,
        "diagonal": matrices.diagonal,
        "dot": products.dot,
        "flatten": _flatten,
        "max": reductions.max,
        "mean": statistics.mean,
        "min": reductions.min,
        "nonzero": indexing.nonzero,
        "prod": reductions.prod,
        "ptp": reductions.ptp,
        "ravel": manipulation.ravel,
        "repeat": repetition.repeat,
        "reshape": _reshape,
        "round": rounding.round,
        "searchsorted": search.searchsorted,
        "sort": sorting.sort,
        "squeeze": manipulation.squeeze,
        "std": statistics.std,
        "sum": reductions.sum,
        "swapaxes": manipulation.swapaxes,
        "take": indexing.take,
        "to_device": _to_device,
        "trace": matrices.trace,
        "transpose": _transpose,
        "var": statistics.var,
        "view": conversion.view,
    }
    return found


set_operators(table())
