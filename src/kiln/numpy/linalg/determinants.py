"""Determinants of batches of matrices, and their logarithms.

The derivative of a determinant is the adjugate, which exists where no inverse does; it is computed
from the LU factors, even for rank-deficient matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.control.custom_rules.jvp import custom_jvp
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.promotion import inexact, one
from kiln.ops.counting import broadcasted_iota
from kiln.ops.elements.conversion import complex as join_complex
from kiln.ops.elements.conversion import convert_element_type, imag
from kiln.ops.elements.elementwise import abs, div, eq, exp, log, lt, mul, ne, rem, select, sub
from kiln.ops.elements.families import add, constant, full_like
from kiln.ops.indexing.splitting import split
from kiln.ops.linear import linalg
from kiln.ops.linear.matrices import (
    diagonal,
    is_complex,
    real_part,
    scale_rows,
    upper,
    with_diagonal,
)
from kiln.ops.reductions.product import reduce_prod
from kiln.ops.reductions.reduction import reduce_or
from kiln.ops.shape import broadcast_in_dim, full, reduce_sum, squeeze

_INT = np.dtype(np.int32)


class SlogdetResult(NamedTuple):
    """The sign (for complex matrices the phase) of a determinant, and the log of its magnitude.

    Example:
        >>> jnp.linalg.slogdet(jnp.array([[2.0, 0.0], [0.0, -1.0]])).sign
        Array(-1., dtype=float32)
    """

    sign: Array
    logabsdet: Array


def _square(name: str, a: Any) -> Any:
    a = inexact(name, one(name, a))
    shape = a.shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(
            three_lines(
                f"{name} of {a.aval} at {current_source()}",
                f"Argument to {name}() must have shape [..., n, n], got {tuple(shape)}",
                "pass a square matrix, or a stack of them",
            )
        )
    return a


def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """Return the signs and the logarithms of the absolute values of determinants.

    The determinant itself overflows for matrices of moderate size; the gradient of `logabsdet` is
    the transposed inverse.
    Raises: ValueError for matrices that are not square.
    Example:
        >>> sign, logabsdet = jnp.linalg.slogdet(1e30 * jnp.eye(3))
        >>> sign, logabsdet.round(2)
        (Array(1., dtype=float32), Array(207.23, dtype=float32))
    """
    a = _square("slogdet", a)
    if method not in (None, "lu", "qr"):
        raise ValueError(
            three_lines(
                f"slogdet of {a.aval} with method={method!r} at {current_source()}",
                f"Unknown slogdet method '{method}'. Supported methods are 'lu' (`None`), and "
                "'qr'.",
                "leave method out",
            )
        )
    sign, size = _slogdet(a)
    return SlogdetResult(sign, size)


@custom_jvp
def _slogdet(a: Any) -> tuple[Any, Any]:
    factors, pivots, _ = linalg.lu(a)
    on_diagonal = diagonal(factors)
    sizes = abs(on_diagonal)
    last = sizes.ndim - 1
    steps = broadcasted_iota(_INT, pivots.shape, last)
    turned = ne(pivots, steps)
    if is_complex(a):
        phase = reduce_prod(div(on_diagonal, convert_element_type(sizes, a.dtype)), (last,))
        odd = _is_odd(turned, last)
    else:
        phase = full(sizes.shape[:-1], 1, a.dtype)
        negative = lt(on_diagonal, constant(0, on_diagonal))
        odd = ne(_is_odd(turned, last), _is_odd(negative, last))
    singular = reduce_or(eq(sizes, constant(0, sizes)), (last,))
    sign = select(odd, full_like(phase, -1), full_like(phase, 1))
    sign = select(singular, full_like(phase, 0), mul(phase, sign))
    size = reduce_sum(log(sizes), (last,))
    return sign, select(singular, full_like(size, -np.inf), size)


def _is_odd(flags: Any, axis: int) -> Any:
    count = reduce_sum(convert_element_type(flags, _INT), (axis,))
    return ne(rem(count, constant(2, count)), constant(0, count))


@_slogdet.defjvp
def _slogdet_jvp(primals: tuple[Any], tangents: tuple[Any]) -> Any:
    (a,), (t,) = primals, tangents
    sign, size = _slogdet(a)
    growth = _trace(linalg.linear_solve(a, t))
    if not is_complex(a):
        return (sign, size), (full_like(sign, 0), growth)
    turn = imag(growth)
    turning = mul(sign, join_complex(full_like(turn, 0), turn))
    return (sign, size), (turning, real_part(growth))


def _trace(x: Any) -> Any:
    d = diagonal(x)
    return reduce_sum(d, (d.ndim - 1,))


def det(a: ArrayLike) -> Array:
    """Return determinants.

    Shapes: (..., n, n) -> (...).

    Raises: ValueError for matrices that are not square.
    Example:
        >>> jnp.linalg.det(jnp.array([[2.0, 1.0], [0.0, 3.0]]))
        Array(6., dtype=float32)
    """
    a = _square("det", a)
    n = a.shape[-1]
    if type(n) is int and 1 <= n <= 3:
        return _by_minors(a, n)
    return _det(a)


def _by_minors(a: Any, n: int) -> Any:
    last = a.ndim - 1
    if n == 1:
        return squeeze(a, (last - 1, last))
    entries = [split(row, (1,) * n, last) for row in split(a, (1,) * n, last - 1)]

    def minor(rows: tuple[int, int], i: int, j: int) -> Any:
        above, below = (entries[row] for row in rows)
        return sub(mul(above[i], below[j]), mul(above[j], below[i]))

    if n == 2:
        return squeeze(minor((0, 1), 0, 1), (last - 1, last))
    first, second, third = (
        mul(x, minor((1, 2), i, j))
        for x, i, j in zip(entries[0], (1, 0, 0), (2, 2, 1), strict=True)
    )
    return squeeze(add(sub(first, second), third), (last - 1, last))


@custom_jvp
def _det(a: Any) -> Any:
    sign, size = _slogdet(a)
    return mul(sign, convert_element_type(exp(size), sign.dtype))


@_det.defjvp
def _det_jvp(primals: tuple[Any], tangents: tuple[Any]) -> Any:
    (a,), (t,) = primals, tangents
    return _det(a), _trace(_adjugate_times(a, t))


def _adjugate_times(a: Any, b: Any) -> Any:
    """Multiply by adjugates: by det(a) a^-1, in the limit where the one is 0 and the other not.

    The adjugate of a triangular U with one zero on its diagonal, where V has a one instead, is
    det(V) V^-1 Z V^-1, with Z the matrix that has its only one there. With two zeros it is zero.
    """
    factors, pivots, permutation = linalg.lu(a)
    on_diagonal = diagonal(factors)
    last = on_diagonal.ndim - 1
    zero = eq(on_diagonal, constant(0, on_diagonal))
    place = convert_element_type(zero, a.dtype)
    filled = add(upper(factors), with_diagonal(place))
    odd = _is_odd(ne(pivots, broadcasted_iota(_INT, pivots.shape, last)), last)
    size = reduce_prod(diagonal(filled), (last,))
    size = select(odd, mul(size, constant(-1, size)), size)
    x = linalg.permuted_rows(b, permutation)
    options = {"left_side": True, "lower": True, "unit_diagonal": True}
    x = linalg.triangular_solve(factors, x, **options)
    x = linalg.triangular_solve(filled, x, left_side=True)
    again = linalg.triangular_solve(filled, scale_rows(x, place), left_side=True)
    count = _over(reduce_sum(convert_element_type(zero, _INT), (last,)), x)
    limit = select(eq(count, constant(1, count)), again, full_like(x, 0))
    return mul(select(eq(count, constant(0, count)), x, limit), _over(size, x))


def _over(number: Any, x: Any) -> Any:
    """Broadcast one number per matrix over the matrices."""
    return broadcast_in_dim(number, x.shape, range(len(x.shape) - 2))
