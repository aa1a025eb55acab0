"""Cumulative reductions along an axis: cumsum, cumprod, cummax, cummin, cumlogsumexp.

Derivatives of all but cumsum use `prefixes`, which combines arrays pairwise with about 2n
applications in log2(n) rounds: it runs the operation on values and tangents together, so that no
step divides by a value that may be zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from kiln.base import dtypes
from kiln.base.docstrings import shown
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import complex, imag, real
from kiln.ops.elements.elementwise import (
    bitwise_and,
    ceil,
    div,
    eq,
    exp,
    gt,
    is_finite,
    log1p,
    max_p,
    min_p,
    mul,
    mul_p,
    select,
    sub,
    zeros_like,
)
from kiln.ops.elements.families import INEXACT, NUMBER, add, constant
from kiln.ops.indexing.slicing import concatenate, pad, slice_in_dim
from kiln.ops.out_sharding import whole_along
from kiln.ops.reductions.reduction import Accepted, check_dtype, widened
from kiln.ops.shape import canonical_axis, expand_dims, reshape, rev

Pair = tuple[Any, Any]


class Cumulative(Primitive):
    """Replace each element by the reduction of all up to it, or from it on if `reverse`."""

    on_host = True

    def __init__(
        self,
        name: str,
        ufunc: Callable[..., Any],
        accepts: Accepted,
        combine: Callable[[Pair, Pair], Pair] | None,
    ) -> None:
        super().__init__(name)
        self.ufunc = ufunc
        self.accepts = accepts
        self.combine = combine

    def infer(self, x: Any, *, axis: int, reverse: bool) -> ShapedArray:
        check_dtype(self.name, x, self.accepts)
        if not 0 <= axis < x.ndim:
            raise ValueError(
                three_lines(
                    f"{self.name}: operand {x}, axis {axis} at {current_source()}",
                    f"axis {axis} is out of bounds for array of shape {tuple(x.shape)}",
                    "name an axis of the operand",
                )
            )
        return ShapedArray(x.shape, x.dtype, x.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        wrong = "Input should be unsharded over the axis being reduced"
        return whole_along(self.name, xs[0], [params["axis"]], wrong)

    def numpy(self, x: Any, *, axis: int, reverse: bool) -> Any:
        wide = widened(x)
        if reverse:
            wide = np.flip(wide, axis)
        out = self.ufunc(wide, axis)
        return (np.flip(out, axis) if reverse else out).astype(x.dtype)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, axis: int, reverse: bool
    ) -> Any:
        out = self.bind(*primals, axis=axis, reverse=reverse)
        if self.combine is None:
            return out, self.bind(*tangents, axis=axis, reverse=reverse)
        x, t = (rev(v, (axis,)) if reverse else v for v in (*primals, *tangents))
        _, moved = prefixes(self.combine, (x, t), axis)
        return out, rev(moved, (axis,)) if reverse else moved

    def batch(self, size: Any, xs: Any, at: Any, *, axis: int, reverse: bool) -> Any:
        return self.bind(xs[0], axis=axis + (axis >= at[0]), reverse=reverse), at[0]


class CumulativeSum(Cumulative):
    """The cumulative sum, which is linear."""

    def transpose(self, ct: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        return [self.bind(ct, axis=axis, reverse=not reverse)]


class CumulativeLogSumExp(Cumulative):
    """The logarithm of the cumulative sum of exponentials."""

    def expand(self, x: Any, *, axis: int, reverse: bool) -> Any:
        x = rev(x, (axis,)) if reverse else x
        (out,) = prefixes(lambda a, b: [log_add_exp(a[0], b[0])], (x,), axis)
        return rev(out, (axis,)) if reverse else out


def prefixes(
    combine: Callable[[Any, Any], Sequence[Any]], xs: Sequence[Any], axis: int
) -> Sequence[Any]:
    """Combine each element of arrays with all elements before it along an axis.

    `combine(earlier, later)` is associative and applies to whole arrays, element by element.
    """
    size = int(aval_of(xs[0]).shape[axis])
    if size < 2:
        return xs
    pairs = combine(
        [slice_in_dim(x, 0, size - 1, 2, axis) for x in xs],
        [slice_in_dim(x, 1, size, 2, axis) for x in xs],
    )
    odd = prefixes(combine, pairs, axis)
    before = [slice_in_dim(o, 0, (size - 1) // 2, 1, axis) for o in odd] if size % 2 == 0 else odd
    first = [slice_in_dim(x, 0, 1, 1, axis) for x in xs]
    if size == 2:
        return [concatenate([f, o], axis) for f, o in zip(first, odd, strict=True)]
    later = combine(before, [slice_in_dim(x, 2, size, 2, axis) for x in xs])
    even = [concatenate([f, e], axis) for f, e in zip(first, later, strict=True)]
    return [_interleave(e, o, size, axis) for e, o in zip(even, odd, strict=True)]


def _interleave(even: Any, odd: Any, size: int, axis: int) -> Any:
    shape = list(aval_of(even).shape)
    if size % 2:
        config = [(0, 0, 0)] * len(shape)
        config[axis] = (0, 1, 0)
        odd = pad(odd, constant(0, odd), config)
    both = concatenate([expand_dims(even, (axis + 1,)), expand_dims(odd, (axis + 1,))], axis + 1)
    shape[axis] *= 2
    return slice_in_dim(reshape(both, shape), 0, size, 1, axis)


def log_add_exp(x: Any, y: Any) -> Any:
    """Return log(exp(x) + exp(y)) without overflow; complex numbers are ordered by real part."""
    high, low = _by_size(x, y)
    # Equal infinities would give inf - inf.
    apart = select(eq(high, low), zeros_like(high), sub(low, high))
    out = add(high, log1p(exp(apart)))
    is_complex = dtypes.issubdtype(aval_of(out).dtype, np.complexfloating)
    return principal(out, math.pi) if is_complex else out


def principal(x: Any, half: float) -> Any:
    """Reduce the imaginary part of complex numbers modulo twice `half`, to (-half, half]."""
    angle = imag(x)
    whole = constant(2 * half, angle)
    turns = ceil(div(sub(angle, constant(half, angle)), whole))
    return complex(real(x), sub(angle, mul(turns, whole)))


def _by_size(x: Any, y: Any) -> Pair:
    if dtypes.issubdtype(aval_of(x).dtype, np.complexfloating):
        larger = gt(real(x), real(y))
        return select(larger, x, y), select(larger, y, x)
    return max_p.bind(x, y), min_p.bind(x, y)


def _log_add_exp_with_tangent(a: Pair, b: Pair) -> Pair:
    (x, dx), (y, dy) = a, b
    out = log_add_exp(x, y)
    finite = is_finite(out)
    if dtypes.issubdtype(aval_of(out).dtype, np.complexfloating):
        finite = bitwise_and(is_finite(real(out)), is_finite(imag(out)))
    safe = select(finite, out, zeros_like(out))
    return out, add(mul(dx, exp(sub(x, safe))), mul(dy, exp(sub(y, safe))))


def _with_tangent(primitive: Primitive) -> Callable[[Pair, Pair], Pair]:
    def combine(a: Pair, b: Pair) -> Pair:
        return primitive.jvp((a[0], b[0]), (a[1], b[1]))

    return combine


def _running_sum(x: np.ndarray, axis: int) -> Any:
    return np.cumsum(x, axis, dtype=x.dtype)


def _running_product(x: np.ndarray, axis: int) -> Any:
    return np.cumprod(x, axis, dtype=x.dtype)


def _running_log_sum_exp(x: np.ndarray, axis: int) -> Any:
    if x.dtype.kind != "c":
        return np.logaddexp.accumulate(x, axis)
    out = np.moveaxis(x.copy(), axis, 0)
    for i in range(1, len(out)):
        x, y = out[i - 1], out[i]
        larger = x.real > y.real
        high, low = np.where(larger, x, y), np.where(larger, y, x)
        found = high + np.log1p(np.exp(np.where(high == low, 0, low - high)))
        turn = x.real.dtype.type(2 * math.pi)
        found.imag -= turn * np.ceil((found.imag - turn / 2) / turn)
        out[i] = found
    return np.moveaxis(out, 0, axis)


cumsum_p = CumulativeSum("cumsum", _running_sum, NUMBER, None)
cumprod_p = Cumulative("cumprod", _running_product, NUMBER, _with_tangent(mul_p))
cummax_p = Cumulative("cummax", np.maximum.accumulate, NUMBER, _with_tangent(max_p))
cummin_p = Cumulative("cummin", np.minimum.accumulate, NUMBER, _with_tangent(min_p))
cumlogsumexp_p = CumulativeLogSumExp(
    "cumlogsumexp", _running_log_sum_exp, INEXACT, _log_add_exp_with_tangent
)


class _Along(Protocol):
    def __call__(self, operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array: ...


def _cumulative(primitive: Cumulative, what: str, *example: str) -> _Along:
    def cumulative(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
        axis = canonical_axis(primitive.name, axis, aval_of(operand).ndim)
        return primitive.bind(operand, axis=axis, reverse=bool(reverse))

    cumulative.__name__ = cumulative.__qualname__ = primitive.name
    summary = f"Return the cumulative {what} along an axis, from its end if `reverse`."
    cumulative.__doc__ = shown(summary, example)
    return cumulative


cumsum = _cumulative(
    cumsum_p,
    "sum",
    ">>> lax.cumsum(jnp.array([1, 2, 3])), lax.cumsum(jnp.array([1, 2, 3]), reverse=True)",
    "(Array([1, 3, 6], dtype=int32), Array([6, 5, 3], dtype=int32))",
)
cumprod = _cumulative(
    cumprod_p, "product", ">>> lax.cumprod(jnp.array([1, 2, 3]))", "Array([1, 2, 6], dtype=int32)"
)
cummax = _cumulative(
    cummax_p,
    "maximum",
    ">>> lax.cummax(jnp.array([1, 5, 2])), lax.cummax(jnp.array([1, 5, 2]), reverse=True)",
    "(Array([1, 5, 5], dtype=int32), Array([5, 5, 2], dtype=int32))",
)
cummin = _cumulative(
    cummin_p, "minimum", ">>> lax.cummin(jnp.array([4, 5, 2]))", "Array([4, 4, 2], dtype=int32)"
)
cumlogsumexp = _cumulative(
    cumlogsumexp_p,
    "logarithm of the sum of exponentials",
    ">>> lax.cumlogsumexp(jnp.array([0.0, 0.0, 0.0]))",
    "Array([0.       , 0.6931472, 1.0986123], dtype=float32)",
)
