"""Products summed over shared axes of two arrays: dot_general, and dot and batch_matmul on top.

The axes of each operand are of three kinds: batch (paired, kept, first in the result), contracting
(paired, summed), free (kept; the left operand's before the right one's). 16-bit floats accumulate
in 32 bits; integers wrap.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import dot_algorithms
from kiln.base.options.config import options
from kiln.base.source import current_source
from kiln.core.absent import Zero, is_linear
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.ir.shardings.sums import NO_SUMS, NOWHERE
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.edge_semantics import convert
from kiln.ops.elements.families import add
from kiln.ops.out_sharding import contracted, sharded
from kiln.ops.out_sums import check_contraction, names_of
from kiln.ops.shape import kept_axes, transpose
from kiln.ops.sharding import auto

Axes = tuple[int, ...]
DotDimensionNumbers = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]


class Precision(enum.Enum):
    """The precision of products of 32-bit floats; CPUs always use the full 32 bits.

    Example:
        >>> lax.dot(jnp.ones(2), jnp.ones(2), precision=lax.Precision.HIGHEST)
        Array(2., dtype=float32)
    """

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Precision.{self.name}"


_PRECISIONS: dict[str, Precision] = {
    "default": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
}
PrecisionPair = tuple[Precision, Precision]


def canonical_precision(precision: Any) -> PrecisionPair | None:
    """Return a precision for each operand, or None; the default is the current option.

    Raises: ValueError if it does not name a precision.
    """
    if precision is None:
        precision = options().default_matmul_precision
        if precision is None:
            return None
    pair = precision if isinstance(precision, (tuple, list)) else (precision, precision)
    found = [_precision(p) for p in pair]
    if None in found and dot_algorithms.names_algorithm(precision):
        return Precision.HIGHEST, Precision.HIGHEST
    if len(found) != 2 or None in found:
        raise ValueError(
            three_lines(
                f"precision={precision!r} at {current_source()}",
                "Precision argument must be None, a lax.Precision, its name, or a pair of these",
                f"use one of: {', '.join(repr(name) for name in _PRECISIONS)}",
            )
        )
    return tuple(found)  # type: ignore[return-value]


def _precision(one: Any) -> Precision | None:
    if isinstance(one, Precision):
        return one
    if one is None:
        return Precision.DEFAULT
    return _PRECISIONS.get(one) if isinstance(one, str) else None


def wider_operand(x: Any, y: Any) -> Any:
    """Return the one of two operands' dtypes that their product has.

    Products do not promote: complex takes precedence over real, floats over integers, then the
    larger range, more digits, more bits, signed over unsigned.

    Raises: TypePromotionError if that decides nothing.
    """
    if x is y or x == y:
        return x
    if dtypes.is_extended(x) or dtypes.is_extended(y):
        return dtypes.promote_types(x, y)
    first, second = _range_of(x), _range_of(y)
    if first == second:
        return dtypes.promote_types(x, y)
    return x if first > second else y


@cache
def _range_of(dtype: Any) -> tuple[bool, int, int, int, bool]:
    bits = 1 if dtype == np.bool_ else dtypes.bit_width(dtype)
    if not dtypes.issubdtype(dtype, np.inexact):
        return False, -1, -1, bits, not dtypes.issubdtype(dtype, np.unsignedinteger)
    complexes = dtypes.issubdtype(dtype, np.complexfloating)
    about = dtypes.finfo(dtype)
    return complexes, about.maxexp, about.nmant, bits // (1 + complexes), True


def product_dtype(name: str, x: ShapedArray, y: ShapedArray, preferred: Any) -> Any:
    """Return the dtype of a sum of products.

    Raises: TypeError if an integer result would be narrower than the operands.
    """
    common = wider_operand(x.dtype, y.dtype)
    if dtypes.is_extended(common):
        raise TypeError(
            three_lines(
                f"{name}: operands {x}, {y} at {current_source()}",
                f"{name} does not accept dtype {dtypes.long_name(common)}",
                "use random.key_data for the numbers behind keys",
            )
        )
    if preferred is None:
        return common
    integers = dtypes.issubdtype(common, np.integer) and dtypes.issubdtype(preferred, np.integer)
    if integers and dtypes.bit_width(preferred) < dtypes.bit_width(common):
        raise TypeError(
            three_lines(
                f"{name}: operands {x}, {y} at {current_source()}",
                "`preferred_element_type` must not be narrower than the original type, got "
                f"{dtypes.long_name(preferred)} for {dtypes.long_name(common)}",
                "leave preferred_element_type out and convert the result",
            )
        )
    return preferred


def accumulator_dtype(x: Any, y: Any, out: Any) -> Any:
    """Return the dtype in which a sum of products of dtypes `x` and `y` is computed."""
    common = wider_operand(x, y)
    if dtypes.issubdtype(common, np.inexact):
        if common.kind != "c" and dtypes.bit_width(common) < 32:
            common = np.dtype(np.float32)
        wider = dtypes.issubdtype(out, np.inexact) and out.itemsize > common.itemsize
        return out if wider and (out.kind == "c") == (common.kind == "c") else common
    if dtypes.issubdtype(out, np.inexact):
        return accumulator_dtype(out, out, out)
    return out if dtypes.bit_width(out) > dtypes.bit_width(common) else common


class DotGeneral(Primitive):
    """Multiply two arrays and sum over their contracting axes."""

    name = "dot_general"
    on_host = True

    def infer(
        self, x: Any, y: Any, *, dimension_numbers: Any, precision: Any, preferred_element_type: Any
    ) -> ShapedArray:
        (lc, rc), (lb, rb) = dimension_numbers
        _check_axes(x, y, dimension_numbers)
        _check_sizes(x, y, "batch", lb, rb)
        _check_sizes(x, y, "contracting", lc, rc)
        dtype = product_dtype(self.name, x, y, preferred_element_type)
        shape = (
            *(x.shape[a] for a in lb),
            *(x.shape[a] for a in kept_axes(x.ndim, (*lb, *lc))),
            *(y.shape[a] for a in kept_axes(y.ndim, (*rb, *rc))),
        )
        return ShapedArray(shape, dtype, x.weak_type and y.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return contracted(self.name, xs[0], xs[1], params["dimension_numbers"])

    def sums_over(self, splits: Sequence[Any], params: dict[str, Any]) -> Any:
        (left, right), _ = params["dimension_numbers"]
        x, y = splits
        if [x[i] for i in left] != [y[i] for i in right]:
            return NOWHERE
        return names_of(x, left)

    def sums(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        x, y = operands
        check_contraction(x, y, params["dimension_numbers"], None)
        return NO_SUMS

    def numpy(
        self, x: Any, y: Any, *, dimension_numbers: Any, precision: Any, preferred_element_type: Any
    ) -> Any:
        common = wider_operand(x.dtype, y.dtype)
        out = common if preferred_element_type is None else preferred_element_type
        dtype = accumulator_dtype(x.dtype, y.dtype, out)
        return convert(contract(convert(x, dtype), convert(y, dtype), dimension_numbers), out)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        return bilinear_jvp(self, primals, tangents, params)

    def transpose(
        self,
        ct: Any,
        x: Any,
        y: Any,
        *,
        dimension_numbers: Any,
        precision: Any,
        preferred_element_type: Any,
    ) -> Any:
        (lc, rc), (lb, rb) = dimension_numbers
        x_aval, y_aval = aval_of(x), aval_of(y)
        batch = tuple(range(len(lb)))
        x_free = kept_axes(x_aval.ndim, (*lb, *lc))
        y_free = kept_axes(y_aval.ndim, (*rb, *rc))
        ct_x = tuple(range(len(batch), len(batch) + len(x_free)))
        ct_y = tuple(range(len(batch) + len(x_free), len(batch) + len(x_free) + len(y_free)))
        if is_linear(x):
            # The axes of the product: batch, free axes of x, contracting axes as y orders them.
            dims = ((ct_y, y_free), (batch, rb))
            placed = (*lb, *x_free, *(lc[i] for i in argsort(rc)))
            out = self._pulled(ct, y, dims, precision, x_aval)
            return [transpose(out, argsort(placed)), None]
        dims = ((x_free, ct_x), (lb, batch))
        placed = (*rb, *(rc[i] for i in argsort(lc)), *y_free)
        out = self._pulled(x, ct, dims, precision, y_aval)
        return [None, transpose(out, argsort(placed))]

    def _pulled(self, x: Any, y: Any, dims: Any, precision: Any, target: ShapedArray) -> Any:
        params = {"precision": precision, "preferred_element_type": None}
        product = self.bind(x, y, dimension_numbers=dims, **params)
        return convert_element_type(product, target.dtype)

    def batch(
        self,
        size: Any,
        operands: Any,
        axes: Any,
        *,
        dimension_numbers: Any,
        precision: Any,
        preferred_element_type: Any,
    ) -> Any:
        (x, y), (at_x, at_y) = operands, axes
        (lc, rc), (lb, rb) = dimension_numbers
        free_before = len(lb)
        if at_x is not None:
            lc, lb = _past(lc, at_x), _past(lb, at_x)
        if at_y is not None:
            rc, rb = _past(rc, at_y), _past(rb, at_y)
        if at_x is not None and at_y is not None:
            lb, rb = (at_x, *lb), (at_y, *rb)
            out_axis = 0
        elif at_x is not None:
            out_axis = free_before + kept_axes(aval_of(x).ndim, (*lb, *lc)).index(at_x)
        else:
            x_free = aval_of(x).ndim - len(lb) - len(lc)
            y_free = kept_axes(aval_of(y).ndim, (*rb, *rc))
            out_axis = free_before + x_free + y_free.index(at_y)
        out = self.bind(
            x,
            y,
            dimension_numbers=((lc, rc), (lb, rb)),
            precision=precision,
            preferred_element_type=preferred_element_type,
        )
        return out, out_axis


def argsort(axes: Sequence[int]) -> list[int]:
    """Return the positions that sort the axes; for a permutation, its inverse."""
    return sorted(range(len(axes)), key=axes.__getitem__)


def _past(axes: Axes, inserted: int) -> Axes:
    return tuple(a + (a >= inserted) for a in axes)


def bilinear_jvp(
    primitive: Primitive, primals: Sequence[Any], tangents: Sequence[Any], params: dict[str, Any]
) -> Any:
    """Push tangents through an operation linear in each of its two operands."""
    (x, y), (tx, ty) = primals, tangents
    out = primitive.bind(x, y, **params)
    aval = aval_of(out).tangent()
    if aval.dtype == dtypes.float0:
        return out, Zero(aval)
    terms = []
    if type(tx) is not Zero:
        terms.append(primitive.bind(tx, y, **params))
    if type(ty) is not Zero:
        terms.append(primitive.bind(x, ty, **params))
    return out, terms[0] if len(terms) == 1 else add(*terms)


def contract(x: np.ndarray, y: np.ndarray, dimension_numbers: DotDimensionNumbers) -> np.ndarray:
    """Contract two host arrays of one dtype."""
    (lc, rc), (lb, rb) = dimension_numbers
    x_free = kept_axes(x.ndim, (*lb, *lc))
    y_free = kept_axes(y.ndim, (*rb, *rc))
    batch = [x.shape[a] for a in lb]
    kept = [x.shape[a] for a in x_free], [y.shape[a] for a in y_free]
    rows, columns = (int(np.prod(sizes)) for sizes in kept)
    depth = int(np.prod([x.shape[a] for a in lc]))
    left = x.transpose((*lb, *x_free, *lc)).reshape((*batch, rows, depth))
    right = y.transpose((*rb, *rc, *y_free)).reshape((*batch, depth, columns))
    return np.matmul(left, right).reshape((*batch, *kept[0], *kept[1]))


def _check_axes(x: ShapedArray, y: ShapedArray, dimension_numbers: DotDimensionNumbers) -> None:
    (lc, rc), (lb, rb) = dimension_numbers
    for side, aval, contracting, batch in (("lhs", x, lc, lb), ("rhs", y, rc, rb)):
        axes = (*batch, *contracting)
        if not all(0 <= a < aval.ndim for a in axes):
            wrong = (
                f"dot_general requires {side} dimension numbers to be nonnegative and less than "
                f"the number of axes, got {side}_batch {batch} and {side}_contracting "
                f"{contracting} for {side} of rank {aval.ndim}"
            )
        elif len(set(axes)) != len(axes):
            wrong = (
                f"dot_general requires {side} batch and contracting dimensions to be distinct, "
                f"got {side}_batch {batch} and {side}_contracting {contracting}"
            )
        else:
            continue
        raise _refused(x, y, wrong, "name each axis at most once, counting from 0")


def _check_sizes(x: ShapedArray, y: ShapedArray, kind: str, lhs: Axes, rhs: Axes) -> None:
    left = tuple(x.shape[a] for a in lhs)
    right = tuple(y.shape[a] for a in rhs)
    if left != right:
        wrong = (
            f"dot_general requires {kind} dimensions to have the same shape, got {left} and {right}"
        )
        raise _refused(x, y, wrong, "transpose an operand, or name other axes")


def _refused(x: ShapedArray, y: ShapedArray, wrong: str, remedy: str) -> TypeError:
    asked = (
        f"dot_general: operands {x}, {y} of shapes {tuple(x.shape)} and {tuple(y.shape)} "
        f"at {current_source()}"
    )
    return TypeError(three_lines(asked, wrong, remedy))


dot_general_p = DotGeneral()


def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Multiply two arrays and sum over contracting axes.

    `dimension_numbers` is `((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch))`.

    Shapes: batch axes first, then the other axes of lhs, then those of rhs.
    Raises: TypeError if the axes do not pair up.
    Example:
        >>> x, y = jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4))
        >>> lax.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))).shape
        (5, 2, 4)
    """
    (lc, rc), (lb, rb) = dimension_numbers
    if out_sharding is not None:
        check_contraction(aval_of(lhs), aval_of(rhs), dimension_numbers, out_sharding)
        lhs, rhs = auto(lhs), auto(rhs)
    preferred = None
    if preferred_element_type is not None:
        preferred = dtypes.check_user_dtype(preferred_element_type, "dot_general")
    found = dot_general_p.bind(
        lhs,
        rhs,
        dimension_numbers=((_axes(lc), _axes(rc)), (_axes(lb), _axes(rb))),
        precision=canonical_precision(precision),
        preferred_element_type=preferred,
    )
    return found if out_sharding is None else sharded(found, out_sharding, "dot_general")


def _axes(axes: Any) -> Axes:
    return tuple(int(a) for a in axes)


def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Multiply vectors and matrices; other ranks need `dimension_numbers`.

    Raises: TypeError if the shapes are incompatible.
    Example:
        >>> lax.dot(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 10]))
        Array([21, 43], dtype=int32)
    """
    if dimension_numbers is None:
        x, y = aval_of(lhs), aval_of(rhs)
        if not (1 <= x.ndim <= 2 and 1 <= y.ndim <= 2 and x.shape[-1] == y.shape[0]):
            raise TypeError(
                three_lines(
                    f"dot: operands {x}, {y} at {current_source()}",
                    f"Incompatible shapes for dot: got {tuple(x.shape)} and {tuple(y.shape)}",
                    "the last axis of lhs must have the size of the first of rhs, both with one "
                    "or two axes; otherwise give dimension_numbers",
                )
            )
        dimension_numbers = (((x.ndim - 1,), (0,)), ((), ()))
    return dot_general(
        lhs,
        rhs,
        dimension_numbers,
        precision,
        preferred_element_type,
        out_sharding=out_sharding,
    )


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Array:
    """Multiply the matrices in the last two axes; leading axes are paired.

    Raises: TypeError if the shapes are incompatible.
    Example:
        >>> lax.batch_matmul(jnp.ones((5, 2, 3)), jnp.ones((5, 3, 4))).shape
        (5, 2, 4)
    """
    x, y = aval_of(lhs), aval_of(rhs)
    if x.ndim < 2 or x.ndim != y.ndim:
        raise TypeError(
            three_lines(
                f"batch_matmul: operands {x}, {y} at {current_source()}",
                "Arguments to batch_matmul must be at least 2D and of the same rank, got "
                f"{tuple(x.shape)} and {tuple(y.shape)}",
                "broadcast or reshape one operand",
            )
        )
    batch = tuple(range(x.ndim - 2))
    return dot_general(lhs, rhs, (((x.ndim - 1,), (x.ndim - 2,)), (batch, batch)), precision)
