"""Matrices in the last two axes of arrays: type checks, and the algebra that rules use.

The leading axes are the batch: all operands of an operation have the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray
from kiln.ops.counting import broadcasted_iota
from kiln.ops.elements.conversion import conj, convert_element_type, real
from kiln.ops.elements.elementwise import add, div, eq, ge, mul, select
from kiln.ops.elements.families import constant, full_like
from kiln.ops.linear.contraction import Precision, batch_matmul
from kiln.ops.out_sharding import stacks
from kiln.ops.shape import broadcast_in_dim, mapped_at, reduce_sum, scalar, transpose

_INT = np.dtype(np.int32)
COMPUTED = tuple(np.dtype(t) for t in (np.float32, np.float64, np.complex64, np.complex128))
"""The dtypes that LAPACK computes in."""


class Batched(Primitive):
    """An operation on batches of matrices or vectors; a mapped axis becomes part of the batch."""

    # Programs use a different LAPACK than SciPy's: by its NumPy meaning, an eager call would differ
    # from a jitted one in rounding, and in the choice of vectors that are not unique.
    on_host = False
    ranks: tuple[int, ...] = ()
    """The number of trailing axes of each operand that are not the batch; 2 by default."""

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        found = stacks(self.name, xs, self.ranks or (2,) * len(xs), results)
        return found if self.multiple else found[0]

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
        moved = [mapped_at(x, size, at, 0) for x, at in zip(xs, axes, strict=True)]
        outs = self.bind(*moved, **params)
        return (outs, [0] * len(outs)) if self.multiple else (outs, 0)


def check_matrix(
    name: str, x: ShapedArray, position: int = 0, computed: Sequence[Any] | None = COMPUTED
) -> None:
    """Raise unless an operand has at least two axes and a supported dtype."""
    if not dtypes.issubdtype(x.dtype, np.inexact):
        raise TypeError(
            three_lines(
                f"{name}: operand {x} at {current_source()}",
                f"{name} does not accept dtype {dtypes.long_name(x.dtype)} at position {position}. "
                f"Accepted dtypes at position {position} are subtypes of floating, "
                "complexfloating.",
                "convert the operand first: x.astype('float32')",
            )
        )
    if x.ndim < 2:
        raise TypeError(
            three_lines(
                f"{name}: operand {x} at {current_source()}",
                f"Input {position} to {name} must have rank at least 2, but got "
                f"shape={tuple(x.shape)}",
                "pass a matrix, or a stack of matrices",
            )
        )
    if computed is not None and x.dtype not in computed:
        raise NotImplementedError(
            three_lines(
                f"{name}: operand {x} at {current_source()}",
                f"Unsupported dtype {dtypes.long_name(x.dtype)}.",
                "convert the operand first: x.astype('float32')",
            )
        )


def check_square(name: str, x: ShapedArray, which: str = "The input") -> None:
    """Raise unless the matrices are square."""
    if x.shape[-1] != x.shape[-2]:
        raise ValueError(
            three_lines(
                f"{name}: operand {x} at {current_source()}",
                f"{which} to {name} must be a square matrix. Got shape {tuple(x.shape)}.",
                "pass matrices with as many rows as columns",
            )
        )


def incompatible(name: str, xs: Sequence[ShapedArray], wrong: str, remedy: str) -> ValueError:
    """Build the error for operands with incompatible shapes."""
    asked = f"{name}: operands {', '.join(map(str, xs))} at {current_source()}"
    return ValueError(three_lines(asked, wrong, remedy))


def real_dtype(dtype: Any) -> Any:
    """Return the dtype of absolute values."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def complex_dtype(dtype: Any) -> Any:
    """Return the complex dtype of the same precision."""
    return dtype if dtype.kind == "c" else np.dtype(f"c{2 * dtype.itemsize}")


def is_complex(x: Any) -> bool:
    """Tell whether an operand is complex."""
    return bool(dtypes.issubdtype(aval_of(x).dtype, np.complexfloating))


def conjugated(x: Any) -> Any:
    """Return the complex conjugate; real numbers are unchanged."""
    return conj(x) if is_complex(x) else x


def real_part(x: Any) -> Any:
    """Return the real part; real numbers are unchanged."""
    return real(x) if is_complex(x) else x


def transposed(x: ArrayLike) -> Array:
    """Exchange rows and columns."""
    ndim = aval_of(x).ndim
    return transpose(x, (*range(ndim - 2), ndim - 1, ndim - 2))


def adjoint(x: ArrayLike) -> Array:
    """Return the conjugate transpose."""
    return conjugated(transposed(x))


def matmul(x: Any, y: Any) -> Any:
    """Multiply batches of matrices."""
    return batch_matmul(x, y, Precision.HIGHEST)


def symmetrized(name: str, x: Any) -> Any:
    """Return the mean of the matrices and their conjugate transposes; integers become floats."""
    aval = aval_of(x)
    if not dtypes.issubdtype(aval.dtype, np.inexact):
        x = convert_element_type(x, dtypes.to_inexact_dtype(aval.dtype))
    check_matrix(name, aval_of(x))
    check_square(name, aval)
    return div(add(x, adjoint(x)), scalar(2, aval_of(x)))


def completed(x: Any, from_lower: bool = True) -> Any:
    """Return the Hermitian matrices that share a triangle, and the real diagonal, with x."""
    if not is_complex(x):
        below = lower_mask(x, 0 if from_lower else -1)
        this, other = (x, transposed(x)) if from_lower else (transposed(x), x)
        return select(below, this, other)
    half = lower(x, -1) if from_lower else upper(x, 1)
    real_diagonal = convert_element_type(real_part(diagonal(x)), aval_of(x).dtype)
    return add(add(half, adjoint(half)), with_diagonal(real_diagonal))


def lower_mask(x: Any, k: int = 0) -> Any:
    """Return bools of the shape of x: on and below the k-th diagonal."""
    shape = aval_of(x).shape
    rows = add(broadcasted_iota(_INT, shape[-2:], 0), _INT.type(k))
    return _over_stack(ge(rows, broadcasted_iota(_INT, shape[-2:], 1)), shape)


def diagonal_mask(shape: Sequence[Dim]) -> Any:
    """Return bools of a shape: on the diagonal."""
    rows, columns = (broadcasted_iota(_INT, shape[-2:], axis) for axis in (0, 1))
    return _over_stack(eq(rows, columns), shape)


def _over_stack(matrix: Any, shape: Sequence[Dim]) -> Any:
    return broadcast_in_dim(matrix, shape, (len(shape) - 2, len(shape) - 1))


def lower(x: Any, k: int = 0) -> Any:
    """Set the elements above the k-th diagonal to zero."""
    return select(lower_mask(x, k), x, full_like(x, 0))


def upper(x: Any, k: int = 0) -> Any:
    """Set the elements below the k-th diagonal to zero."""
    return select(lower_mask(x, k - 1), full_like(x, 0), x)


def identity(x: ArrayLike) -> Array:
    """Return identity matrices of the type of x."""
    aval = aval_of(x)
    return convert_element_type(diagonal_mask(aval.shape), aval.dtype)


def diagonal(x: Any) -> Any:
    """Return the diagonals of square matrices.

    Shapes: (..., n, n) -> (..., n)."""
    aval = aval_of(x)
    kept = select(diagonal_mask(aval.shape), x, full_like(x, 0))
    return reduce_sum(kept, (aval.ndim - 1,))


def with_diagonal(v: Any) -> Any:
    """Return diagonal matrices.

    Shapes: (..., n) -> (..., n, n)."""
    shape = aval_of(v).shape
    full = along_columns(v, (*shape, shape[-1]))
    return select(diagonal_mask((*shape, shape[-1])), full, full_like(full, 0))


def along_columns(v: Any, shape: Sequence[Dim]) -> Any:
    """Broadcast element j of vectors along column j."""
    last = len(shape) - 1
    return broadcast_in_dim(v, shape, (*range(last - 1), last))


def along_rows(v: Any, shape: Sequence[Dim]) -> Any:
    """Broadcast element i of vectors along row i."""
    return broadcast_in_dim(v, shape, range(len(shape) - 1))


def scale_columns(x: Any, v: Any) -> Any:
    """Multiply column j by element j."""
    return mul(x, along_columns(v, aval_of(x).shape))


def scale_rows(x: Any, v: Any) -> Any:
    """Multiply row i by element i."""
    return mul(x, along_rows(v, aval_of(x).shape))


def safe_reciprocal(x: Any) -> Any:
    """Return 1/x, and 0 for 0."""
    zero = eq(x, constant(0, x))
    inverse = div(constant(1, x), select(zero, full_like(x, 1), x))
    return select(zero, full_like(x, 0), inverse)
