"""The rules of primitives for sparse operands, by the primitive's name.

A rule is called with the primitive, the operands, at least one of which is sparse, and the
parameters of the equation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln import lax
from kiln import numpy as jnp
from kiln.experimental.sparse.api import DENSE
from kiln.experimental.sparse.bcoo import (
    BCOO,
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_conv_general_dilated,
    bcoo_dot_general,
    bcoo_dynamic_slice,
    bcoo_gather,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
    bcoo_transpose,
)
from kiln.experimental.sparse.bcoo_array import not_done
from kiln.experimental.sparse.bcsr import (
    bcsr_broadcast_in_dim,
    bcsr_concatenate,
    bcsr_dot_general,
)

Rule = Callable[..., Any]

_LINEAR = ("conj", "copy", "imag", "neg", "real", "name")
_ZERO_AT_ZERO = (
    *("abs", "asin", "asinh", "atan", "atanh", "bessel_i1e", "cbrt", "ceil", "erf", "erf_inv"),
    *("expm1", "floor", "log1p", "round", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh"),
    "convert_element_type",
)


def _with_values(mat: Any, data: Any) -> Any:
    """Return the array with other values at the same indices."""
    _, stated = mat.tree_flatten()
    return mat.tree_unflatten(stated, (data, *mat._bufs[1:]))


def _unique(mat: Any) -> Any:
    return mat if mat.unique_indices else mat.sum_duplicates(nse=mat.nse, remove_zeros=False)


def _linear(primitive: Any, values: Sequence[Any], **params: Any) -> Any:
    (mat,) = values
    if primitive.name == "name" and params["name"] == DENSE:
        return mat.todense()
    return _with_values(mat, primitive.bind(mat.data, **params))


def _zero_at_zero(primitive: Any, values: Sequence[Any], **params: Any) -> Any:
    # f(a) + f(b) is not f(a + b).
    mat = _unique(values[0])
    return _with_values(mat, primitive.bind(mat.data, **params))


def _integer_pow(primitive: Any, values: Sequence[Any], *, y: int) -> Any:
    if y <= 0:
        raise not_done(
            f"power {y} of {values[0]!r}",
            f"sparse rule for integer_pow with non-positive exponent {y} is not implemented "
            "because it would result in dense output",
            "use sparse.todense() to convert your argument to a dense array",
        )
    return _zero_at_zero(primitive, values, y=y)


def _add(primitive: Any, values: Sequence[Any]) -> Any:
    x, y = values
    if not isinstance(y, BCOO):
        x, y = y, x
    if not isinstance(x, BCOO):
        x = jnp.asarray(x)
        if jnp.broadcast_shapes(x.shape, y.shape) != x.shape:
            raise not_done(
                f"sum of {y!r} and an array of shape {x.shape}",
                "Addition between a sparse array X and a dense array Y is not implemented when "
                "the output shape is larger than Y.shape, to prevent silent densification",
                "use sparse.todense() to convert the sparse array to a dense one",
            )
        return primitive.bind(x, y.todense())
    if x.shape != y.shape:
        raise not_done(
            f"sum of {x!r} and {y!r}", "Addition between sparse matrices of different shapes"
        )
    x, y = values
    if x.indices is y.indices:
        return _with_values(x, lax.add(x.data, y.data))
    if (x.n_batch, x.n_dense) != (y.n_batch, y.n_dense):
        raise not_done(
            f"sum of {x!r} and {y!r}",
            "Addition between sparse matrices with different batch/dense dimensions",
            "call update_layout first",
        )
    return _beside(x, y)


def _beside(x: BCOO, y: BCOO) -> BCOO:
    """Return an array that stores the elements of both: duplicates are summed."""
    at = x.n_batch

    def joined(a: Any, b: Any) -> Any:
        # Batch axes along which only one of them is broadcast.
        batch = jnp.broadcast_shapes(a.shape[:at], b.shape[:at])
        parts = [jnp.broadcast_to(z, (*batch, *z.shape[at:])) for z in (a, b)]
        return lax.concatenate(parts, at)

    return BCOO((joined(x.data, y.data), joined(x.indices, y.indices)), shape=x.shape)


def _sub(primitive: Any, values: Sequence[Any]) -> Any:
    x, y = values
    if not (isinstance(x, BCOO) and isinstance(y, BCOO)):
        raise not_done(
            f"{primitive.name} of {x!r} and {y!r}", "Subtraction between sparse and dense array"
        )
    return _add(lax.add_p, (x, _with_values(y, lax.neg(y.data))))


def _mul(primitive: Any, values: Sequence[Any]) -> Any:
    x, y = values
    if isinstance(x, BCOO) and isinstance(y, BCOO):
        if x.indices is y.indices and x.unique_indices:
            return _with_values(x, primitive.bind(x.data, y.data))
        return bcoo_multiply_sparse(x, y)
    if isinstance(y, BCOO):
        x, y = y, x
    return _with_values(x, bcoo_multiply_dense(x, y))


def _div(primitive: Any, values: Sequence[Any]) -> Any:
    x, y = values
    if isinstance(y, BCOO):
        raise not_done(
            f"{primitive.name} by {y!r}",
            "Division by a sparse array is not implemented because it would result in dense output",
            "use sparse.todense() to convert your arguments to a dense array",
        )
    return _with_values(x, bcoo_multiply_dense(x, 1.0 / jnp.asarray(y)))


def _reduce_sum(primitive: Any, values: Sequence[Any], *, axes: Sequence[int]) -> Any:
    out = bcoo_reduce_sum(values[0], axes=axes)
    return out if out.shape else out.data.sum(dtype=out.dtype)


def _dynamic_slice(primitive: Any, values: Sequence[Any], *, slice_sizes: Sequence[int]) -> Any:
    mat, *starts = values
    return bcoo_dynamic_slice(mat, starts, slice_sizes)


def _convolution(primitive: Any, values: Sequence[Any], **params: Any) -> Any:
    return bcoo_conv_general_dilated(*values, **params)


def _of_operands(function: Callable[..., Any]) -> Rule:
    def rule(primitive: Any, values: Sequence[Any], **params: Any) -> Any:
        return function(*values, **params)

    return rule


def _of_list(function: Callable[..., Any]) -> Rule:
    def rule(primitive: Any, values: Sequence[Any], **params: Any) -> Any:
        return function(list(values), **params)

    return rule


_VALUES: dict[str, Rule] = {
    **dict.fromkeys(_LINEAR, _linear),
    **dict.fromkeys(_ZERO_AT_ZERO, _zero_at_zero),
    "integer_pow": _integer_pow,
}

BCOO_RULES: dict[str, Rule] = {
    **_VALUES,
    "add": _add,
    "add_any": _add,
    "broadcast_in_dim": _of_operands(bcoo_broadcast_in_dim),
    "concatenate": _of_list(bcoo_concatenate),
    "conv_general_dilated": _convolution,
    "div": _div,
    "dot_general": _of_operands(bcoo_dot_general),
    "dynamic_slice": _dynamic_slice,
    "gather": _of_operands(bcoo_gather),
    "mul": _mul,
    "reduce_sum": _reduce_sum,
    "reshape": _of_operands(bcoo_reshape),
    "rev": _of_operands(bcoo_rev),
    "slice": _of_operands(bcoo_slice),
    "squeeze": _of_operands(bcoo_squeeze),
    "sub": _sub,
    "transpose": _of_operands(bcoo_transpose),
}

BCSR_RULES: dict[str, Rule] = {
    **_VALUES,
    "broadcast_in_dim": _of_operands(bcsr_broadcast_in_dim),
    "concatenate": _of_list(bcsr_concatenate),
    "dot_general": _of_operands(bcsr_dot_general),
}
