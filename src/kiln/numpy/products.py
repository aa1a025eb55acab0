"""Products of vectors, matrices and stacks of them: each is one `dot_general` or one `mul`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.trace import is_typed
from kiln.execution.eager_plans import eager
from kiln.numpy.elements.arithmetic import multiply, refuse_out, subtract
from kiln.numpy.elements.complex_parts import conj
from kiln.numpy.promotion import full_shapes, one, operands, promote_dtypes
from kiln.numpy.shapes import canonical_axes, moveaxis, ravel
from kiln.ops.indexing.static_slicing import concatenate, slice_in_dim
from kiln.ops.linear import contraction
from kiln.ops.out_sharding import sharded
from kiln.ops.shape import canonical_axis, expand_dims, reshape, squeeze, transpose
from kiln.ops.sharding import auto


def _pair(name: str, x: Any, y: Any, preferred: Any) -> tuple[Any, Any, Any]:
    """Return operands of one dtype, and the dtype of their product."""
    if not (is_typed(x) and is_typed(y)):
        x, y = (one(name, v) for v in operands(name, x, y))
    x, y = promote_dtypes(x, y)
    wanted = x.dtype if preferred is None else dtypes.check_user_dtype(preferred, name)
    return x, y, wanted


def _contracted(x: Any, y: Any, numbers: Any, precision: Any, preferred: Any) -> Any:
    return contraction.dot_general(x, y, numbers, precision, preferred)


@eager
def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Sum products over the last axis of `a` and the second-to-last (or only) axis of `b`.

    `preferred_element_type` is the dtype in which products are summed, and of the result.
    `precision` has no effect on CPUs, which compute in full.

    Shapes: (..., n), (..., n, m) -> (..., ..., m).
    Example:
        >>> int(jnp.dot(jnp.arange(3), jnp.arange(3)))
        5
    """
    a, b, preferred = _pair("dot", a, b, preferred_element_type)
    if out_sharding is not None:
        a, b = auto(a), auto(b)
    if not a.shape or not b.shape:
        return sharded(multiply(a, b), out_sharding, "jnp.dot")
    over = max(len(b.shape) - 2, 0)
    numbers = (((len(a.shape) - 1,), (over,)), ((), ()))
    return sharded(_contracted(a, b, numbers, precision, preferred), out_sharding, "jnp.dot")


@eager
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Multiply matrices; leading axes are broadcast.

    `preferred_element_type` is the dtype in which products are summed, and of the result.
    `precision` has no effect on CPUs, which compute in full.

    Shapes: (..., n, k), (..., k, m) -> (..., n, m); a vector is a row on the left and a column on
        the right, and that axis is dropped from the result.
    Raises: TypeError for scalars and for incompatible shapes.
    Source: numpy.matmul.
    Example:
        >>> jnp.matmul(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 1]))
        Array([3, 7], dtype=int32)
    """
    a, b, preferred = _pair("matmul", a, b, preferred_element_type)
    if out_sharding is not None:
        a, b = auto(a), auto(b)
    for i, x in enumerate((a, b)):
        if not x.shape:
            raise ValueError(
                three_lines(
                    f"matmul: operands {a.aval}, {b.aval} at {current_source()}",
                    f"matmul input operand {i} must have ndim at least 1, but it has ndim 0",
                    "use * for products with scalars",
                )
            )
    if len(a.shape) <= 2 and len(b.shape) <= 2:
        over = max(len(b.shape) - 2, 0)
        numbers = (((len(a.shape) - 1,), (over,)), ((), ()))
        found = _contracted(a, b, numbers, precision, preferred)
    else:
        found = _of_stacks(a, b, precision, preferred)
    return sharded(found, out_sharding, "jnp.matmul")


def _of_stacks(a: Any, b: Any, precision: Any, preferred: Any) -> Any:
    """Multiply matrices whose leading axes are broadcast."""
    a_vector, b_vector = len(a.shape) == 1, len(b.shape) == 1
    a_core, b_core = (1 if a_vector else 2), (1 if b_vector else 2)
    a_batch, b_batch = a.shape[: len(a.shape) - a_core], b.shape[: len(b.shape) - b_core]
    rank = max(len(a_batch), len(b_batch))
    a_dims = [1] * (rank - len(a_batch)) + list(a_batch)
    b_dims = [1] * (rank - len(b_batch)) + list(b_batch)
    # Batch axes of size 1 on one side only are dropped there and free on the other side.
    a_squeezed, b_squeezed, out_axes = [], [], []
    batch_a: list[int] = []
    batch_b: list[int] = []
    for i in range(rank):
        at_a, at_b = i - rank + len(a_batch), i - rank + len(b_batch)
        if a_dims[i] == b_dims[i] and at_a >= 0 and at_b >= 0:
            batch_a.append(at_a)
            batch_b.append(at_b)
            out_axes.append(("batch", i))
        elif b_dims[i] == 1 and at_a >= 0:
            if at_b >= 0:
                b_squeezed.append(at_b)
            out_axes.append(("a", i))
        elif a_dims[i] == 1:
            if at_a >= 0:
                a_squeezed.append(at_a)
            out_axes.append(("b", i))
        else:
            raise ValueError(
                three_lines(
                    f"matmul: operands {a.aval}, {b.aval} at {current_source()}",
                    f"matmul got incompatible shapes for broadcasting: {tuple(a_batch)}, "
                    f"{tuple(b_batch)}",
                    "the axes before the last two must be equal, or 1",
                )
            )
    x, y = squeeze(a, a_squeezed), squeeze(b, b_squeezed)
    batch_a = [d - len([s for s in a_squeezed if s < d]) for d in batch_a]
    batch_b = [d - len([s for s in b_squeezed if s < d]) for d in batch_b]
    over_a, over_b = len(x.shape) - 1, len(y.shape) - (1 if b_vector else 2)
    numbers = (((over_a,), (over_b,)), (tuple(batch_a), tuple(batch_b)))
    out = _contracted(x, y, numbers, precision, preferred)
    # The product has the batch axes, then the free ones of a (its rows last), then those of b.
    order = [i for kind, i in out_axes if kind == "batch"]
    order += [i for kind, i in out_axes if kind == "a"] + ([] if a_vector else [rank])
    order += [i for kind, i in out_axes if kind == "b"] + ([] if b_vector else [rank + 1])
    return transpose(out, [order.index(i) for i in sorted(order)])


@eager
def vdot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum the products of all elements of `b` with those of the conjugate of `a`.

    `preferred_element_type` is the dtype in which products are summed, and of the result.
    `precision` has no effect on CPUs, which compute in full.

    Example:
        >>> jnp.vdot(jnp.array([1j, 2.0]), jnp.array([1j, 1.0]))
        Array(3.+0.j, dtype=complex64)
    """
    a, b = (ravel(one("vdot", x)) for x in operands("vdot", a, b))
    return dot(conj(a), b, precision=precision, preferred_element_type=preferred_element_type)


@eager
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum the products of conj(x1) and x2 along an axis; the other axes are broadcast.

    `preferred_element_type` is the dtype in which products are summed, and of the result.
    `precision` has no effect on CPUs, which compute in full.

    Example:
        >>> jnp.vecdot(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 10]))
        Array([21, 43], dtype=int32)
    """
    x1, x2 = (one("vecdot", x) for x in operands("vecdot", x1, x2))
    if not x1.shape or not x2.shape or x1.shape[axis] != x2.shape[axis]:
        raise ValueError(
            three_lines(
                f"vecdot: operands {x1.aval}, {x2.aval}, axis {axis} at {current_source()}",
                f"vecdot axes must match; got shapes {x1.shape} and {x2.shape} with {axis=}",
                "use arrays whose axis has one size",
            )
        )
    x1, x2 = (moveaxis(x, axis, -1) for x in (x1, x2))
    row = expand_dims(conj(x1), (len(x1.shape) - 1,))
    column = expand_dims(x2, (len(x2.shape),))
    out = matmul(row, column, precision=precision, preferred_element_type=preferred_element_type)
    return squeeze(out, (-2, -1))


@eager
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Multiply matrices by vectors.

    Shapes: (..., n, k), (..., k) -> (..., n).
    Example:
        >>> jnp.matvec(jnp.array([[1, 2], [3, 4]]), jnp.array([[1, 0], [0, 1]]))
        Array([[1, 3],
               [2, 4]], dtype=int32)
    """
    x1, x2 = (one("matvec", x) for x in operands("matvec", x1, x2))
    return squeeze(matmul(x1, expand_dims(x2, (len(x2.shape),))), (-1,))


@eager
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Multiply conjugated vectors by matrices.

    Shapes: (..., n), (..., n, k) -> (..., k).
    Example:
        >>> jnp.vecmat(jnp.array([1, 10]), jnp.array([[1, 2], [3, 4]]))
        Array([31, 42], dtype=int32)
    """
    x1, x2 = (one("vecmat", x) for x in operands("vecmat", x1, x2))
    return squeeze(matmul(expand_dims(conj(x1), (len(x1.shape) - 1,)), x2), (-2,))


@eager
def inner(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Sum products over the last axes of `a` and `b`.

    `preferred_element_type` is the dtype in which products are summed, and of the result.
    `precision` has no effect on CPUs, which compute in full.

    Shapes: (*A, n), (*B, n) -> (*A, *B).
    Example:
        >>> jnp.inner(jnp.array([[1, 2], [3, 4]]), jnp.array([1, 10]))
        Array([21, 43], dtype=int32)
    """
    a, b = (one("inner", x) for x in operands("inner", a, b))
    if not a.shape or not b.shape:
        return multiply(a, b)
    axes = (len(a.shape) - 1, len(b.shape) - 1)
    return tensordot(a, b, axes, precision=precision, preferred_element_type=preferred_element_type)


@eager
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """Return the outer product of two flattened arrays.

    Example:
        >>> jnp.outer(jnp.array([1, 2]), jnp.array([3, 4]))
        Array([[3, 4],
               [6, 8]], dtype=int32)
        >>> jnp.outer(jnp.ones((2, 2)), jnp.arange(3.0)).shape
        (4, 3)
    """
    refuse_out("outer", out)
    a, b = (ravel(one("outer", x)) for x in operands("outer", a, b))
    return multiply(expand_dims(a, (1,)), expand_dims(b, (0,)))


@eager
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Sum products over the last `axes` axes of `a` and the first of `b`, or over pairs of axes.

    `preferred_element_type` is the dtype in which products are summed, and of the result.
    `precision` has no effect on CPUs, which compute in full.

    Example:
        >>> jnp.tensordot(jnp.ones((2, 3)), jnp.ones((3, 4)), axes=1).shape
        (2, 4)
    """
    a, b, preferred = _pair("tensordot", a, b, preferred_element_type)
    if out_sharding is not None:
        a, b = auto(a), auto(b)
    ranks = len(a.shape), len(b.shape)
    if isinstance(axes, (int, np.integer)):
        count = operator.index(axes)
        if count > min(ranks):
            raise TypeError(
                three_lines(
                    f"tensordot: operands {a.aval}, {b.aval}, axes {axes} at {current_source()}",
                    f"Number of tensordot axes (axes {count}) exceeds input ranks {ranks}",
                    "name fewer axes",
                )
            )
        over_a, over_b = tuple(range(ranks[0] - count, ranks[0])), tuple(range(count))
    else:
        first, second = axes
        over_a = canonical_axes("tensordot", first, ranks[0])
        over_b = canonical_axes("tensordot", second, ranks[1])
        if len(over_a) != len(over_b):
            raise TypeError(
                three_lines(
                    f"tensordot: operands {a.aval}, {b.aval}, axes {axes} at {current_source()}",
                    "tensordot axes lists to have equal length",
                    "name as many axes of a as of b",
                )
            )
    return sharded(
        _contracted(a, b, ((over_a, over_b), ((), ())), precision, preferred),
        out_sharding,
        "jnp.tensordot",
    )


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the Kronecker product.

    Example:
        >>> jnp.kron(jnp.array([1, 10]), jnp.array([[1, 2]]))
        Array([[ 1,  2, 10, 20]], dtype=int32)
    """
    a, b = (one("kron", x) for x in operands("kron", a, b))
    rank = max(len(a.shape), len(b.shape))
    a, b = (expand_dims(x, range(rank - len(x.shape))) for x in (a, b))
    spread_a = expand_dims(a, range(1, 2 * rank, 2))
    spread_b = expand_dims(b, range(0, 2 * rank, 2))
    shape = [m * n for m, n in zip(a.shape, b.shape, strict=True)]
    return reshape(multiply(spread_a, spread_b), shape)


def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """Return the cross product of vectors with two or three components.

    `axisa`, `axisb` and `axisc` are the axes of the components in `a`, `b` and the result; `axis`
    is all three.

    Example:
        >>> jnp.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
        Array([0, 0, 1], dtype=int32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = (one("cross", x) for x in operands("cross", a, b))
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise ValueError(
            three_lines(
                f"cross: operands {a.aval}, {b.aval} at {current_source()}",
                "Dimension must be either 2 or 3 for cross product",
                "name the axes that hold the components",
            )
        )
    a, b = promote_dtypes(a, b)
    if a.shape[-1] == 2 and b.shape[-1] == 2:
        (a0, a1), (b0, b1) = _components(a), _components(b)
        return subtract(multiply(a0, b1), multiply(a1, b0))
    a0, a1, a2 = _three(a)
    b0, b1, b2 = _three(b)
    parts = [
        _minor(a1, b2, a2, b1),
        _minor(a2, b0, a0, b2),
        _minor(a0, b1, a1, b0),
    ]
    parts = list(full_shapes("cross", *parts))
    rank = len(parts[0].shape)
    out = concatenate([expand_dims(x, (rank,)) for x in parts], rank)
    return moveaxis(out, -1, canonical_axis("cross", axisc, rank + 1))


def _components(x: Any) -> list[Any]:
    last = len(x.shape) - 1
    return [squeeze(slice_in_dim(x, i, i + 1, 1, last), (last,)) for i in range(x.shape[-1])]


def _three(x: Any) -> Sequence[Any]:
    found = _components(x)
    return found if len(found) == 3 else [*found, None]


def _minor(p: Any, q: Any, r: Any, s: Any) -> Any:
    """Return p q - r s, where None stands for zero."""
    first = None if p is None or q is None else multiply(p, q)
    second = None if r is None or s is None else multiply(r, s)
    if first is None:
        return multiply(second, -1)  # type: ignore[arg-type]
    return first if second is None else subtract(first, second)
