"""Which C++ kernel computes a primitive, and with which numbers: `_runtime/kernels/README.md`.

A kernel's buffers are the operands, then the results: dense, row-major, without overlap. Its
numbers begin with the first row and the count of rows to compute, so that threads can divide them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.named_tuples import NamedTuple
from kiln.ir.sizes.size import Dim, as_dim
from kiln.ir.types import ShapedArray
from kiln.ops.reductions.window import geometry
from kiln.ops.reductions.window_geometry import Windows

Avals = Sequence[ShapedArray]
Making = Callable[[Avals, Avals, Mapping[str, Any]], "KernelCall | None"]

# `Element` in _runtime/kernels/element_types.h.
ELEMENTS = {
    name: number
    for number, name in enumerate(
        [
            "bool",
            *(f"int{bits}" for bits in (8, 16, 32, 64)),
            *(f"uint{bits}" for bits in (8, 16, 32, 64)),
            *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
        ]
    )
}


class KernelCall(NamedTuple):
    """A kernel by name and its numbers, which begin with the first row and the row count."""

    symbol: str
    numbers: tuple[Dim, ...]

    @property
    def rows(self) -> Dim:
        """The number of rows that can be computed independently of one another."""
        return self.numbers[1]

    def part(self, first: int, count: int) -> tuple[Dim, ...]:
        """Return the numbers that compute `count` rows from `first` on."""
        return (first, count, *self.numbers[2:])


def kernel_call(
    name: str, operands: Avals, results: Avals, params: Mapping[str, Any]
) -> KernelCall | None:
    """Return the kernel that computes a primitive on operands of these types, or None.

    `operands` and `results` have constant sizes, which may be 0.
    """
    of = _CALLS.get(name)
    if of is None or any(element(x) is None for x in (*operands, *results)):
        return None
    return of(operands, results, params)


def element(x: ShapedArray) -> int | None:
    """Return a kernel's number for an array dtype, or None if kernels do not support it."""
    return ELEMENTS.get(dtypes.long_name(x.dtype))


def _types(xs: Avals) -> list[int]:
    found = [element(x) for x in xs]
    return [x for x in found if x is not None]


def _rows(x: ShapedArray, axis: int) -> tuple[Dim, Dim, Dim, Dim]:
    """Return the numbers of an array seen as (outer, size, inner): 0, rows, size, inner."""
    sizes = x.shape
    outer, inner = math.prod(sizes[:axis]), math.prod(sizes[axis + 1 :])
    return 0, outer * inner, sizes[axis], inner


def _sort(operands: Avals, results: Avals, params: Mapping[str, Any]) -> KernelCall | None:
    if len(operands) > 64:
        return None
    rows = _rows(operands[0], params["dimension"])
    return KernelCall("sort", (*rows, len(operands), params["num_keys"], *_types(operands)))


def _top_k(operands: Avals, results: Avals, params: Mapping[str, Any]) -> KernelCall | None:
    (x,) = operands
    return KernelCall("top_k", (*_rows(x, params["axis"]), params["k"], *_types(operands)))


def _cumulative(name: str) -> Making:
    def call(operands: Avals, results: Avals, params: Mapping[str, Any]) -> KernelCall | None:
        (x,) = operands
        if name == "cumlogsumexp" and x.dtype.kind == "c":
            return None
        rows = _rows(x, params["axis"])
        operation = _CUMULATIVE.index(name)
        numbers = (*rows, operation, int(params["reverse"]), *_types(operands))
        return KernelCall("cumulative", numbers)

    return call


def _folded(operation: int) -> Making:
    def call(operands: Avals, results: Avals, params: Mapping[str, Any]) -> KernelCall | None:
        (x,), (axis,) = operands, params["axes"]
        return KernelCall("folded", (*_rows(x, axis), operation, *_types(operands)))

    return call


def _fft(operands: Avals, results: Avals, params: Mapping[str, Any]) -> KernelCall | None:
    (x,), (out,) = operands, results
    lengths = params["fft_lengths"]
    if not lengths or 0 in (*x.shape, *out.shape):
        return None
    rows = math.prod(x.shape[: x.ndim - len(lengths)])
    kind = int(params["fft_type"])
    is_single = dtypes.long_name(x.dtype) in ("float32", "complex64")
    parts = ELEMENTS["complex64" if is_single else "complex128"]
    return KernelCall("fft", (0, rows, kind, parts, len(lengths), *lengths))


def _windows(x: ShapedArray, windows: Windows) -> list[Dim]:
    """Return the number of axes, and seven numbers for each."""
    axes = zip(
        x.shape,
        windows.counts(x.shape),
        windows.dimensions,
        windows.strides,
        [low for low, _ in windows.padding],
        windows.base_dilation,
        windows.dilation,
        strict=True,
    )
    return [windows.rank, *(as_dim(number) for axis in axes for number in axis)]


def _select_windows(name: str) -> Making:
    def call(operands: Avals, results: Avals, params: Mapping[str, Any]) -> KernelCall | None:
        _, x = operands
        if not 1 <= x.ndim <= _MOST_WINDOW_AXES:
            return None
        given = dict(params)
        choice = 1 if given.pop("select_prim").name == "ge" else 2
        windows = geometry(**given)
        # Sums at the winners are one row: windows may share a winner.
        is_sum = name == "select_and_scatter_add"
        rows = 1 if is_sum else math.prod(windows.counts(x.shape)[:-1])
        moved, deciding = _types(operands)
        if is_sum and moved == ELEMENTS["bool"]:
            return None
        return KernelCall(name, (0, rows, deciding, choice, *_windows(x, windows), moved))

    return call


def _special(name: str) -> Making:
    def call(operands: Avals, results: Avals, params: Mapping[str, Any]) -> KernelCall | None:
        x, *others = operands
        if any(y.shape != x.shape or y.dtype != x.dtype for y in others):
            return None
        function = _SPECIAL.index(name)
        return KernelCall("special", (0, math.prod(x.shape), function, *_types([x])))

    return call


_MOST_WINDOW_AXES = 16
_SPECIAL = ("lgamma", "digamma", "bessel_i0e", "bessel_i1e", "polygamma", "zeta")
_SELECT_WINDOWS = ("select_and_gather_add", "select_and_scatter_add")
_CUMULATIVE = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")
_CALLS: dict[str, Making] = {
    "sort": _sort,
    "top_k": _top_k,
    "fft": _fft,
    **{name: _cumulative(name) for name in _CUMULATIVE},
    "reduce_sum": _folded(0),
    "reduce_prod": _folded(1),
    **{name: _special(name) for name in _SPECIAL},
    **{name: _select_windows(name) for name in _SELECT_WINDOWS},
}
