"""Which kernel on matrices computes a primitive, and with which numbers.

`_runtime/linear/README.md` lists the kernels. Buffers are the operands, then the results: dense,
row-major, without overlap. A kernel distributes its work over the call's threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.named_tuples import NamedTuple
from kiln.core.engines.engine import BATCH_INVARIANT
from kiln.ir.sizes.size import Dim, as_dim
from kiln.ir.types import ShapedArray
from kiln.ops.linear.spectral_algorithms import SvdAlgorithm

Avals = Sequence[ShapedArray]
Params = Mapping[str, Any]

_SUFFIXES = {
    "bool": "bool",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}
_IN_LAPACK = ("f32", "f64", "c64", "c128")


class MatrixCall(NamedTuple):
    """A kernel by name and its numbers; if it needs OpenBLAS, `openblas.load()` must come first."""

    symbol: str
    numbers: tuple[Dim, ...]
    needs_openblas: bool


def matrix_call(name: str, operands: Avals, results: Avals, params: Params) -> MatrixCall | None:
    """Return the kernel that computes a primitive on operands of these types, or None.

    `params` are those of the equation, and `batch_invariant`. Sizes must be numbers.
    """
    of = _CALLS.get(name)
    return None if of is None else of(operands, results, params)


def _suffix(x: ShapedArray) -> str | None:
    return _SUFFIXES.get(dtypes.long_name(x.dtype))


def _call(kernel: str, suffix: str, *numbers: Any) -> MatrixCall:
    return MatrixCall(
        f"kiln_{kernel}_{suffix}", tuple(map(as_dim, numbers)), suffix in _HAVE_OPENBLAS
    )


_HAVE_OPENBLAS = (*_IN_LAPACK, "f16", "bf16")


def _stacked(x: ShapedArray, rank: int = 2) -> tuple[Dim, ...]:
    """Return the number of matrices (vectors for rank 1) of a batch, and the sizes of one."""
    sizes = x.shape
    return math.prod(sizes[: x.ndim - rank]), *sizes[x.ndim - rank :]


def _convolution(operands: Avals, results: Avals, params: Params) -> MatrixCall | None:
    (x, w), (out,) = operands, results
    suffix = _suffix(x)
    if suffix is None or {suffix} != {_suffix(w), _suffix(out)} or x.ndim - 2 > 6:
        return None
    lows = [low for low, _ in params["padding"]]
    spaces = zip(
        params["window_strides"], lows, params["lhs_dilation"], params["rhs_dilation"], strict=True
    )
    return _call(
        "conv",
        suffix,
        x.ndim - 2,
        params["feature_group_count"],
        params["batch_group_count"],
        *(n for array in (x, w, out) for n in array.shape),
        *(axis for spec in params["dimension_numbers"] for axis in spec),
        *(number for space in spaces for number in space),
    )


def _transpose(operands: Avals, results: Avals, params: Params) -> MatrixCall | None:
    (x,) = operands
    log_size = x.dtype.itemsize.bit_length() - 1
    if x.dtype.itemsize not in (1, 2, 4, 8, 16) or x.ndim > 32:
        return None
    numbers = (log_size, x.ndim, *x.shape, *params["permutation"])
    return MatrixCall("kiln_transpose", tuple(map(as_dim, numbers)), False)


def _pivots(operands: Avals, results: Avals, params: Params) -> MatrixCall | None:
    numbers = (*_stacked(operands[0], 1), params["permutation_size"])
    return MatrixCall("kiln_lu_pivots_to_permutation", tuple(map(as_dim, numbers)), False)


def _factor(
    kernel: str, numbers: Callable[[Avals, Params], tuple[Any, ...]]
) -> Callable[[Avals, Avals, Params], MatrixCall | None]:
    def call(operands: Avals, results: Avals, params: Params) -> MatrixCall | None:
        suffix = _suffix(operands[0])
        if suffix not in _IN_LAPACK:
            return None
        return _call(kernel, suffix, *numbers(operands, params))

    return call


def _is_batch_invariant(params: Params) -> bool:
    return bool(params.get(BATCH_INVARIANT, False))


def _matrix(operands: Avals, params: Params) -> tuple[Any, ...]:
    return _stacked(operands[0])


_SOLVE = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
_EIG = ("compute_left_eigenvectors", "compute_right_eigenvectors")
_CALLS: dict[str, Callable[[Avals, Avals, Params], MatrixCall | None]] = {
    "conv_general_dilated": _convolution,
    "transpose": _transpose,
    "cholesky": _factor("cholesky", lambda xs, _: _stacked(xs[0])[:2]),
    "triangular_solve": _factor(
        "triangular_solve",
        lambda xs, p: (*_stacked(xs[1]), *(p[name] for name in _SOLVE), _is_batch_invariant(p)),
    ),
    "lu": _factor("lu", lambda xs, p: (*_stacked(xs[0]), _is_batch_invariant(p))),
    "lu_pivots_to_permutation": _pivots,
    "geqrf": _factor("geqrf", _matrix),
    "geqp3": _factor("geqp3", _matrix),
    "householder_product": _factor(
        "householder_product", lambda xs, _: (*_stacked(xs[0]), xs[1].shape[-1])
    ),
    "eigh": _factor("eigh", lambda xs, p: (*_stacked(xs[0])[:2], p["lower"])),
    "svd": _factor(
        "svd",
        lambda xs, p: (
            *_stacked(xs[0]),
            p["full_matrices"],
            p["compute_uv"],
            p["algorithm"] is SvdAlgorithm.QR,
        ),
    ),
    "eig": _factor("eig", lambda xs, p: (*_stacked(xs[0])[:2], *(p[name] for name in _EIG))),
}
