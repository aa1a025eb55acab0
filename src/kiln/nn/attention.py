"""Scaled dot-product attention, written out as two products around a softmax."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any, Literal, overload

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.nn.normalization import logsumexp, softmax
from kiln.numpy.indexing.selection import where
from kiln.numpy.promotion import operands
from kiln.ops.counting import broadcasted_iota, iota
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import stop_gradient
from kiln.ops.linear.contraction import dot_general
from kiln.ops.shape import expand_dims, reshape, transpose


@overload
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = ...,
    mask: ArrayLike | None = ...,
    *,
    scale: float | None = ...,
    is_causal: bool = ...,
    query_seq_lengths: ArrayLike | None = ...,
    key_value_seq_lengths: ArrayLike | None = ...,
    local_window_size: int | tuple[int, int] | None = ...,
    implementation: str | None = ...,
    return_residual: Literal[False] = ...,
) -> Array: ...


@overload
def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = ...,
    mask: ArrayLike | None = ...,
    *,
    scale: float | None = ...,
    is_causal: bool = ...,
    query_seq_lengths: ArrayLike | None = ...,
    key_value_seq_lengths: ArrayLike | None = ...,
    local_window_size: int | tuple[int, int] | None = ...,
    implementation: str | None = ...,
    return_residual: Literal[True],
) -> tuple[Array, Array]: ...


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    bias: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: ArrayLike | None = None,
    key_value_seq_lengths: ArrayLike | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """Return averages of values, weighted by softmax(query · key * scale + bias).

    There may be fewer key and value heads than query heads; each then serves a group of them. A
    pair of positions takes part if `mask`, `is_causal`, the lengths, and the window (left, right)
    around the query's position allow it. The logits and their softmax are computed in 32 bits. If
    `return_residual`, also return the logarithm of the softmax denominators.

    Shapes: (batch, T, heads, d), (batch, S, groups, d) twice -> (batch, T, heads, d); bias, mask
        (batch | 1, heads | 1, T | 1, S | 1), of which leading axes may be missing; of the others
        the batch axis
    Raises: ValueError for incompatible shapes and dtypes.
    Example:
        >>> x = jnp.ones((1, 5, 2, 8))  # batch, sequence, heads, features
        >>> nn.dot_product_attention(x, x, x, is_causal=True).shape
        (1, 5, 2, 8)
    """
    query, key, value = operands("dot_product_attention", query, key, value)
    given_shape = aval_of(query).shape
    if implementation not in (None, "xla"):
        raise _refused(
            f"implementation={implementation!r}",
            f"Unsupported implementation option: {implementation}",
            "leave implementation out",
        )
    if len(given_shape) == 3:
        query, key, value = (expand_dims(x, (0,)) for x in (query, key, value))
    bias, mask = (None if x is None else _with_four_axes(x) for x in (bias, mask))
    _check(query, key, value, mask)
    batch, length, heads, width = map(int, aval_of(query).shape)
    others, groups = map(int, aval_of(key).shape[1:3])
    size = heads // groups
    query = reshape(query, (batch, length, groups, size, width))
    logits = _logits(query, key, bias, 1 / math.sqrt(width) if scale is None else scale)
    counts = _all(
        None if mask is None else _by_group(mask, groups, size),
        _near(length, others, is_causal, local_window_size),
        _within(length, 1, query_seq_lengths),
        _within(others, 0, key_value_seq_lengths),
    )
    if counts is not None:
        logits = where(counts, logits, -0.7 * float(dtypes.finfo(np.float32).max))
    logits = convert_element_type(logits, np.dtype(np.float32))
    weights = convert_element_type(softmax(logits), aval_of(key).dtype)
    averages = _averages(weights, value)
    known = _within(length, 1, query_seq_lengths)
    if known is not None:
        # (batch, 1, 1, T, 1) -> (batch, T, 1, 1, 1)
        averages = averages * convert_element_type(
            transpose(known, (0, 3, 1, 2, 4)), aval_of(averages).dtype
        )
    out = reshape(averages, given_shape)
    if not return_residual:
        return out
    residual = transpose(stop_gradient(logsumexp(logits, axis=-1)), (0, 3, 1, 2))
    return out, convert_element_type(reshape(residual, given_shape[:-1]), aval_of(key).dtype)


def _with_four_axes(x: Any) -> Any:
    """Add the leading axes that bias or mask leave out."""
    return expand_dims(x, tuple(range(4 - aval_of(x).ndim)))


def _logits(query: Any, key: Any, bias: Any, factor: Any) -> Any:
    """Return query · key * factor + bias.

    Shapes: (batch, T, groups, size, d), (batch, S, groups, d) -> (batch, groups, size, T, S)
    """
    products = dot_general(
        query,
        key,
        (((4,), (3,)), ((0, 2), (0, 2))),
        preferred_element_type=dtypes.common_dtype(aval_of(query).dtype, np.dtype(np.float32)),
    )
    logits = transpose(products, (0, 1, 3, 2, 4)) * factor
    groups, size = map(int, aval_of(query).shape[2:4])
    return logits if bias is None else logits + _by_group(bias, groups, size)


def _averages(weights: Any, value: Any) -> Any:
    """Return averages of values.

    Shapes: (batch, groups, size, T, S), (batch, S, groups, d) -> (batch, T, groups, size, d)
    """
    averages = dot_general(
        weights,
        value,
        (((4,), (1,)), ((0, 1), (0, 2))),
        preferred_element_type=aval_of(value).dtype,
    )
    return transpose(averages, (0, 3, 1, 2, 4))


def _all(*conditions: Any) -> Any:
    """Return the conjunction of the conditions that are not None, or None if all are."""
    given = [condition for condition in conditions if condition is not None]
    return functools.reduce(operator.and_, given) if given else None


def _by_group(x: Any, groups: int, size: int) -> Any:
    """Bring bias or mask from (batch, heads, T, S) to (batch, groups, size, T, S); 1s remain."""
    batch, heads, length, others = map(int, aval_of(x).shape)
    shape = (batch, 1, 1, length, others)
    return reshape(x, shape if heads == 1 else (batch, groups, size, length, others))


def _near(length: int, others: int, causal: bool, window: Any) -> Any:
    """Return for each pair of positions whether the query may attend to the key."""
    if not causal and window is None:
        return None
    here, there = (broadcasted_iota(np.int32, (length, others), axis) for axis in (0, 1))
    near = here >= there if causal else None
    if window is not None:
        left, right = (window, window) if isinstance(window, int) else window
        inside = (here <= there + left) & (here >= there - right)
        near = inside if near is None else near & inside
    return near


def _within(size: int, axis: int, lengths: Any) -> Any:
    """Return which positions come before the lengths: (batch, 1, 1, T, S), T or S being 1."""
    if lengths is None:
        return None
    found = iota(np.int32, size)[None, :] < expand_dims(lengths, (1,))
    return reshape(found, (*found.shape[:1], 1, 1, *((size, 1) if axis else (1, size))))


def _check(query: Any, key: Any, value: Any, mask: Any) -> None:
    q, k, v = map(aval_of, (query, key, value))
    if len({len(x.shape) for x in (q, k, v)} | {4}) > 1:
        raise _refused(f"{q}, {k}, {v}", "the operands must have 3 or 4 axes", "reshape them")
    if v.shape != k.shape or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise _refused(
            f"{q}, {k}, {v}",
            f"query shape should be [{k.shape[0]}, -1, -1, {k.shape[3]}] and value shape "
            f"{k.shape}: but got {q.shape} and {v.shape}",
            "give query, key and value the same batch size and width",
        )
    if len({q.dtype, k.dtype, v.dtype}) > 1:
        raise _refused(
            f"{q}, {k}, {v}",
            f"query, key and value dtype should be equal, but got {q.dtype}, {k.dtype}, {v.dtype}",
            "convert them first",
        )
    if q.shape[2] % k.shape[2]:
        raise _refused(
            f"{q}, {k}, {v}",
            "The number of query heads must be a multiple of key/value heads, but got "
            f"{q.shape[2]} vs {k.shape[2]}",
            "repeat heads of keys and values",
        )
    if mask is not None and aval_of(mask).dtype != np.bool_:
        raise _refused(
            f"mask {aval_of(mask)}",
            f"mask dtype should be bool, but got {aval_of(mask).dtype}",
            "pass numbers to be added as bias",
        )


def _refused(asked: str, wrong: str, remedy: str) -> ValueError:
    return ValueError(
        three_lines(f"dot_product_attention({asked}) at {current_source()}", wrong, remedy)
    )
