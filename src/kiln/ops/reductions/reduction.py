"""Reductions over axes: extremes, logic, and the position of an extreme.

`reduce_sum` is in `ops/shape.py`, next to broadcasting; `reduce_prod` is in `product.py`;
reductions by any function are in `generic_reduction.py`, cumulative ones in `cumulative.py`.
Reducing an empty axis gives the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.docstrings import shown
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.absent import Zero
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.ir.sizes.decisions import is_surely
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import div, eq, mul
from kiln.ops.elements.families import ANY, BITS, FLOAT, Elementwise
from kiln.ops.out_sharding import kept
from kiln.ops.out_sums import of_elements
from kiln.ops.shape import broadcast_in_dim, kept_axes, reduce_sum, without

Accepted = tuple[type, ...]


class Reduce(Primitive):
    """Combine the elements along `axes` by an operation with an identity."""

    on_host = True

    def __init__(
        self,
        name: str,
        ufunc: np.ufunc,
        identity: Callable[[Any], Any],
        accepts: Accepted,
    ) -> None:
        super().__init__(name)
        self.ufunc = ufunc
        self.identity = identity
        self.accepts = accepts

    def infer(self, x: Any, *, axes: Any) -> ShapedArray:
        check_dtype(self.name, x, self.accepts)
        check_reduced_axes(self.name, x, axes)
        return ShapedArray(without(x.shape, axes), x.dtype, x.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return kept(xs[0], params["axes"])

    def sums(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        return of_elements(self.name, operands)

    def numpy(self, x: Any, *, axes: Any) -> Any:
        wide = widened(x)
        initial = np.asarray(self.identity(x.dtype)).astype(wide.dtype)
        out = self.ufunc.reduce(wide, axis=axes, dtype=wide.dtype, initial=initial)
        return np.asarray(out).astype(x.dtype)

    def batch(self, size: Any, xs: Any, at: Any, *, axes: Any) -> Any:
        inner, out_axis = past_mapped(axes, at[0])
        return self.bind(xs[0], axes=inner), out_axis


class ReduceExtreme(Reduce):
    """The largest or smallest element."""

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, axes: Any) -> Any:
        (x,), (t,) = primals, tangents
        out = self.bind(x, axes=axes)
        # Elements that tie for the extreme share the derivative equally.
        aval = aval_of(x)
        spread = broadcast_in_dim(out, aval.shape, kept_axes(aval.ndim, axes))
        places = convert_element_type(eq(x, spread), aval.dtype)
        return out, div(reduce_sum(mul(t, places), axes), reduce_sum(places, axes))


class ArgExtreme(Primitive):
    """Return the first index of the extreme along the only axis of `axes`; nan comes first."""

    on_host = True

    def __init__(self, name: str, meaning: Callable[..., Any]) -> None:
        super().__init__(name)
        self.meaning = meaning

    def infer(self, x: Any, *, axes: Any, index_dtype: Any) -> ShapedArray:
        check_dtype(self.name, x, (np.integer, np.floating, np.bool_))
        check_reduced_axes(self.name, x, axes)
        if not dtypes.issubdtype(index_dtype, np.integer):
            raise TypeError(
                three_lines(
                    f"{self.name}: operand {x} at {current_source()}",
                    f"index_dtype must be an integer type, but got {dtypes.long_name(index_dtype)}",
                    "use index_dtype=int32",
                )
            )
        (axis,) = axes
        if is_surely(x.shape[axis], 0):
            raise ValueError(
                three_lines(
                    f"{self.name}: operand {x}, axis {axis} at {current_source()}",
                    "argmin and argmax require non-empty reduced dimension: "
                    f"attempt to get {self.name} of an empty sequence",
                    "choose an axis with elements",
                )
            )
        return ShapedArray(without(x.shape, axes), index_dtype)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return kept(xs[0], params["axes"])

    def numpy(self, x: Any, *, axes: Any, index_dtype: Any) -> Any:
        return self.meaning(widened(x), axis=axes[0]).astype(index_dtype)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = self.bind(*primals, **params)
        return out, Zero(aval_of(out).tangent())

    def batch(self, size: Any, xs: Any, at: Any, *, axes: Any, index_dtype: Any) -> Any:
        inner, out_axis = past_mapped(axes, at[0])
        return self.bind(xs[0], axes=inner, index_dtype=index_dtype), out_axis


class ReducePrecision(Elementwise):
    """Round to `exponent_bits` and `mantissa_bits`, keeping the dtype."""

    def infer(self, x: Any, *, exponent_bits: int, mantissa_bits: int) -> ShapedArray:
        if exponent_bits < 1 or mantissa_bits < 0:
            raise ValueError(
                three_lines(
                    f"reduce_precision: operand {x} at {current_source()}",
                    "exponent_bits must be positive and mantissa_bits non-negative; got "
                    f"{exponent_bits} and {mantissa_bits}",
                    "float16 has 5 and 10, bfloat16 8 and 7",
                )
            )
        return super().infer(x)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        return self.bind(*primals, **params), self.bind(*tangents, **params)

    def transpose(self, ct: Any, x: Any, **params: Any) -> Any:
        return [self.bind(ct, **params)]


def _round_bits(x: np.ndarray, *, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """Round to nearest, ties to even; overflow to inf, flush what would be subnormal to zero."""
    info = dtypes.finfo(x.dtype)
    bits = x.view(f"u{x.dtype.itemsize}")
    one = bits.dtype.type(1)
    dropped = int(info.nmant) - mantissa_bits
    sign_mask = one << bits.dtype.type(8 * x.dtype.itemsize - 1)
    if dropped > 0:
        drop = bits.dtype.type(dropped)
        last_kept = (bits >> drop) & one
        rounded = bits + ((one << (drop - one)) - one) + last_kept
        bits = (rounded >> drop) << drop
    if exponent_bits < int(info.nexp):
        exponent_mask = ((one << bits.dtype.type(info.nexp)) - one) << bits.dtype.type(info.nmant)
        bias = (1 << (int(info.nexp) - 1)) - 1
        reduced_bias = (1 << (exponent_bits - 1)) - 1
        highest = bits.dtype.type((bias + reduced_bias) << int(info.nmant))
        lowest = bits.dtype.type((bias - reduced_bias) << int(info.nmant))
        exponent, sign = bits & exponent_mask, bits & sign_mask
        bits = np.where(exponent > highest, sign | exponent_mask, bits)
        bits = np.where(exponent <= lowest, sign, bits)
    out = np.asarray(bits).astype(f"u{x.dtype.itemsize}").view(x.dtype)
    return np.where(np.isnan(x), x, out)


def past_mapped(axes: Sequence[int], at: int) -> tuple[tuple[int, ...], int]:
    """Return reduced axes, counted with a mapped axis at `at`, and its position in the result."""
    inner = tuple(a + (a >= at) for a in axes)
    return inner, at - sum(a < at for a in inner)


def widened(x: np.ndarray) -> np.ndarray:
    """Convert narrow floats to float32, in which their host reductions are computed.

    Integers narrower than a byte, on which NumPy has no loops, become bytes.
    """
    if x.dtype.kind == "V" and dtypes.issubdtype(x.dtype, np.integer):
        return x.astype(np.int8)
    if dtypes.issubdtype(x.dtype, np.floating) and x.dtype.itemsize < 4:
        return x.astype(np.float32)
    return x


def check_dtype(name: str, x: ShapedArray, accepts: Accepted) -> None:
    """Raise TypeError unless an operation accepts the operand's dtype."""
    if not any(dtypes.issubdtype(x.dtype, kind) for kind in accepts):
        raise TypeError(
            three_lines(
                f"{name}: operand {x} at {current_source()}",
                f"{name} does not accept dtype {dtypes.long_name(x.dtype)}",
                "convert the operand first: x.astype(...)",
            )
        )


def check_reduced_axes(name: str, x: ShapedArray, axes: Sequence[int]) -> None:
    """Raise ValueError unless `axes` are distinct non-negative axes of the operand."""
    if not all(0 <= a < x.ndim for a in axes):
        wrong = f"reduction axes {tuple(axes)} contains out-of-bounds indices for {x}"
    elif len(set(axes)) != len(axes):
        wrong = f"duplicate value in 'axes' of reduction: {tuple(axes)}"
    else:
        return
    asked = f"{name}: operand {x}, axes {tuple(axes)} at {current_source()}"
    raise ValueError(three_lines(asked, wrong, "name each axis once, counting from 0"))


def lowest(dtype: Any) -> Any:
    """Return the smallest value of a dtype, the identity of max."""
    if dtypes.issubdtype(dtype, np.complexfloating):
        return complex(-np.inf, -np.inf)
    if dtype == np.bool_:
        return False
    return dtypes.iinfo(dtype).min if dtypes.issubdtype(dtype, np.integer) else -np.inf


def highest(dtype: Any) -> Any:
    """Return the largest value of a dtype, the identity of min."""
    if dtypes.issubdtype(dtype, np.complexfloating):
        return complex(np.inf, np.inf)
    if dtype == np.bool_:
        return True
    return dtypes.iinfo(dtype).max if dtypes.issubdtype(dtype, np.integer) else np.inf


def all_bits(dtype: Any) -> Any:
    """Return the identity of and."""
    return np.bitwise_not(np.zeros((), dtype))[()]


reduce_max_p = ReduceExtreme("reduce_max", np.maximum, lowest, ANY)
reduce_min_p = ReduceExtreme("reduce_min", np.minimum, highest, ANY)
reduce_and_p = Reduce("reduce_and", np.bitwise_and, all_bits, BITS)
reduce_or_p = Reduce("reduce_or", np.bitwise_or, lambda dtype: 0, BITS)
reduce_xor_p = Reduce("reduce_xor", np.bitwise_xor, lambda dtype: 0, BITS)
argmax_p = ArgExtreme("argmax", np.argmax)
argmin_p = ArgExtreme("argmin", np.argmin)
reduce_precision_p = ReducePrecision("reduce_precision", _round_bits, FLOAT)


def reduction(primitive: Reduce, *example: str) -> Callable[[ArrayLike, Sequence[int]], Array]:
    """Return the function that applies a primitive along axes, with an example of it."""

    def fun(operand: ArrayLike, axes: Sequence[int]) -> Array:
        return primitive.bind(operand, axes=tuple(int(a) for a in axes))

    fun.__name__ = fun.__qualname__ = primitive.name
    fun.__doc__ = shown(f"Reduce non-negative `axes` by `{primitive.name}`.", example)
    return fun


reduce_max = reduction(
    reduce_max_p,
    ">>> lax.reduce_max(jnp.array([[1, 9], [7, 3]]), (1,))",
    "Array([9, 7], dtype=int32)",
)
reduce_min = reduction(
    reduce_min_p,
    ">>> lax.reduce_min(jnp.array([[1, 9], [7, 3]]), (1,))",
    "Array([1, 3], dtype=int32)",
)
reduce_and = reduction(
    reduce_and_p,
    ">>> lax.reduce_and(jnp.array([[True, False], [True, True]]), (1,))",
    "Array([False,  True], dtype=bool)",
)
reduce_or = reduction(
    reduce_or_p,
    ">>> lax.reduce_or(jnp.array([[True, False], [False, False]]), (1,))",
    "Array([ True, False], dtype=bool)",
)
reduce_xor = reduction(
    reduce_xor_p,
    ">>> lax.reduce_xor(jnp.array([[1, 9], [7, 3]]), (1,))",
    "Array([8, 4], dtype=int32)",
)


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """Return the first index of the largest element along an axis; nan counts as largest.

    Shapes: the operand's without `axis`. `index_dtype` is the dtype of the result.
    Example:
        >>> lax.argmax(jnp.array([[1, 9], [7, 3]]), 1, jnp.int32)
        Array([1, 0], dtype=int32)
    """
    return _position(argmax_p, operand, axis, index_dtype)


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """Return the first index of the smallest element along an axis; nan counts as smallest.

    Shapes: the operand's without `axis`. `index_dtype` is the dtype of the result.
    Example:
        >>> lax.argmin(jnp.array([[1, 9], [7, 3]]), 1, jnp.int32)
        Array([0, 1], dtype=int32)
    """
    return _position(argmin_p, operand, axis, index_dtype)


def _position(primitive: ArgExtreme, operand: Any, axis: int, index_dtype: Any) -> Any:
    dtype = dtypes.check_user_dtype(index_dtype, primitive.name)
    return primitive.bind(operand, axes=(int(axis),), index_dtype=dtype)


def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round floats to fewer bits of exponent and mantissa, keeping the dtype.

    Values out of the range of `exponent_bits` become infinite; numbers are rounded to nearest even
    at `mantissa_bits`.

    Example:
        >>> lax.reduce_precision(jnp.array([1.2345]), exponent_bits=8, mantissa_bits=7)
        Array([1.234375], dtype=float32)
    """
    return reduce_precision_p.bind(
        operand, exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits)
    )
