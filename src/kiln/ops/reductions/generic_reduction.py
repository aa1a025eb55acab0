"""Reductions by a user function: `reduce` recognizes sums, products, extremes and logic.

The function becomes a jaxpr of scalars. If it is a single known operation, that operation's own
reduction is used; otherwise it becomes `reduce`, which is differentiable if the function consists
of elementwise operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import tree_flatten, tree_unflatten
from kiln.core.absent import Zero
from kiln.core.arrays.array import ConcreteArray
from kiln.core.meaning import meaning
from kiln.core.primitive import Primitive
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of, is_typed
from kiln.ir.effects import Effects
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.operation import Operation
from kiln.ir.sizes.size import product
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import and_p, max_p, min_p, mul_p, or_p, xor_p
from kiln.ops.elements.families import Elementwise, add_p
from kiln.ops.indexing.slicing import concatenate, slice_in_dim
from kiln.ops.out_sharding import kept, sharded
from kiln.ops.reductions.product import reduce_prod_p
from kiln.ops.reductions.reduction import (
    check_reduced_axes,
    past_mapped,
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_xor_p,
)
from kiln.ops.shape import (
    broadcast_scalar,
    filled,
    kept_axes,
    mapped_at,
    reduce_sum_p,
    reshape,
    scalar,
    transpose,
    without,
)

BY_OPERATION: dict[Operation, Primitive] = {
    add_p: reduce_sum_p,
    mul_p: reduce_prod_p,
    max_p: reduce_max_p,
    min_p: reduce_min_p,
    and_p: reduce_and_p,
    or_p: reduce_or_p,
    xor_p: reduce_xor_p,
}


class GenericReduce(Primitive):
    """Combine elements along `dimensions` by `jaxpr`: accumulators, elements -> accumulators.

    Operands are arrays of one shape, then as many initial scalars.
    """

    name = "reduce"
    multiple = True
    region = True

    def effects(self, params: dict[str, Any]) -> Effects:
        return params["jaxpr"].effects

    def infer(self, *xs: Any, jaxpr: Jaxpr, dimensions: Any) -> list[ShapedArray]:
        n = len(xs) // 2
        arrays, initial = xs[:n], xs[n:]
        for x, start in zip(arrays, initial, strict=True):
            if x.shape != arrays[0].shape or start.shape != () or x.dtype != start.dtype:
                raise TypeError(
                    three_lines(
                        f"reduce: operands {', '.join(map(str, arrays))} from initial values "
                        f"{', '.join(map(str, initial))} at {current_source()}",
                        "operands must have one shape, each with a scalar initial value of its "
                        "dtype",
                        "broadcast the operands, convert the initial values",
                    )
                )
        check_reduced_axes(self.name, arrays[0], dimensions)
        return [ShapedArray(without(x.shape, dimensions), x.dtype) for x in arrays]

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return [kept(xs[0], params["dimensions"])] * len(results)

    def numpy(self, *xs: Any, jaxpr: Jaxpr, dimensions: Any) -> Any:
        n = len(xs) // 2
        kept = kept_axes(xs[0].ndim, dimensions)
        shape = [xs[0].shape[a] for a in kept]
        rows = [x.transpose((*dimensions, *kept)).reshape((-1, *shape)) for x in xs[:n]]
        return fold(jaxpr, [np.broadcast_to(start, shape) for start in xs[n:]], rows)

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, dimensions: Any
    ) -> Any:
        outs = self.bind(*primals, jaxpr=jaxpr, dimensions=dimensions)
        n = len(outs)
        if not all(isinstance(eqn.primitive, Elementwise) for eqn in jaxpr.eqns):
            raise self._missing("jvp", "its function is not made of element-wise operations")
        moving = [i for i, aval in enumerate(jaxpr.out_avals) if aval.tangent() == aval]
        kept = kept_axes(aval_of(primals[0]).ndim, dimensions)
        shape = tuple(aval_of(primals[0]).shape[a] for a in kept)
        count = product([aval_of(primals[0]).shape[a] for a in dimensions])

        def rows(x: Any) -> Any:
            return reshape(transpose(x, (*dimensions, *kept)), (count, *shape))

        def combine(a: Sequence[Any], b: Sequence[Any]) -> list[Any]:
            return apply_with_tangents(jaxpr, moving, a, b)

        arrays = [rows(x) for x in primals[:n]] + [rows(filled(tangents[i])) for i in moving]
        starts = list(primals[n:]) + [filled(tangents[n + i]) for i in moving]
        if count:
            joined = [reshape(x, shape) for x in halved(combine, arrays)]
            starts = combine(starts, joined)
        out_tangents: list[Any] = [Zero(aval_of(out).tangent()) for out in outs]
        for i, t in zip(moving, starts[n:], strict=True):
            out_tangents[i] = t
        return outs, out_tangents

    def batch(self, size: Any, xs: Any, axes: Any, *, jaxpr: Jaxpr, dimensions: Any) -> Any:
        n = len(xs) // 2
        if any(at is not None for at in axes[n:]):
            raise NotImplementedError(
                three_lines(
                    f"reduce: mapped initial values at {current_source()}",
                    "vmap of reduce needs initial values that are not mapped",
                    "reduce from the identity of the operation, then combine with the value",
                )
            )
        arrays = [mapped_at(x, size, at, 0) for x, at in zip(xs[:n], axes[:n], strict=True)]
        inner, _ = past_mapped(dimensions, 0)
        outs = self.bind(*arrays, *xs[n:], jaxpr=jaxpr, dimensions=inner)
        return outs, [0] * n


def halved(combine: Callable[..., Sequence[Any]], xs: Sequence[Any]) -> Sequence[Any]:
    """Reduce arrays together along axis 0, combining halves, down to size 1."""
    size = int(aval_of(xs[0]).shape[0])
    while size > 1:
        half = size // 2
        first = [slice_in_dim(x, 0, half) for x in xs]
        second = [slice_in_dim(x, half, 2 * half) for x in xs]
        joined = combine(first, second)
        if size % 2:
            rest = [slice_in_dim(x, 2 * half, size) for x in xs]
            joined = [concatenate([j, r], 0) for j, r in zip(joined, rest, strict=True)]
        xs, size = joined, half + size % 2
    return xs


def fold(
    jaxpr: Jaxpr, starts: Sequence[np.ndarray], rows: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Combine host arrays along axis 0, one element after another, by a jaxpr of scalars."""
    shape = starts[0].shape
    if all(isinstance(eqn.primitive, Elementwise) for eqn in jaxpr.eqns):
        values = list(starts)
        for i in range(len(rows[0])):
            values = meaning(jaxpr, [*values, *(row[i] for row in rows)])
        return [np.broadcast_to(v, shape) for v in values]
    outs = [np.array(start) for start in starts]
    for place in np.ndindex(shape):
        values = [start[place] for start in starts]
        for i in range(len(rows[0])):
            values = meaning(jaxpr, [*values, *(row[(i, *place)] for row in rows)])
        for out, value in zip(outs, values, strict=True):
            out[place] = value
    return outs


def apply_with_tangents(
    jaxpr: Jaxpr, moving: Sequence[int], a: Sequence[Any], b: Sequence[Any]
) -> list[Any]:
    """Run a jaxpr of elementwise operations on arrays followed by their tangents."""
    n = len(jaxpr.outvars)
    primals = dict(zip(jaxpr.invars, [*a[:n], *b[:n]], strict=True))
    inputs = [*jaxpr.invars[:n], *jaxpr.invars[n:]]
    tangents: dict[Any, Any] = {}
    for values, variables in ((a[n:], inputs[:n]), (b[n:], inputs[n:])):
        tangents.update((variables[i], t) for i, t in zip(moving, values, strict=True))
    like = aval_of(b[0]).shape

    def primal(atom: Any) -> Any:
        return atom.val if atom.is_literal else primals[atom]

    def tangent(atom: Any, value: Any) -> Any:
        return tangents.get(atom, Zero(aval_of(value).tangent()))

    for eqn in jaxpr.eqns:
        values = [primal(v) for v in eqn.invars]
        moved = [tangent(v, x) for v, x in zip(eqn.invars, values, strict=True)]
        (out,) = eqn.outvars
        if all(type(t) is Zero for t in moved):
            primals[out] = eqn.primitive.bind(*values, **eqn.params)
        else:
            primals[out], tangents[out] = eqn.primitive.jvp(values, moved, **eqn.params)
    outs = [primal(v) for v in jaxpr.outvars]
    moved = [filled(tangent(jaxpr.outvars[i], outs[i])) for i in moving]
    return [_stretched(x, like) for x in (*outs, *moved)]


def _stretched(x: Any, shape: Sequence[Any]) -> Any:
    return x if aval_of(x).shape == shape else broadcast_scalar(x, shape)


reduce_p = GenericReduce()


def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
    out_sharding: Any = None,
) -> Any:
    """Combine elements along dimensions by `computation(accumulated, element)`.

    Operands may be a pytree of arrays of one shape, with a matching pytree of initial values. The
    computation must be associative, and the initial values its identity.

    Example:
        >>> lax.reduce(jnp.array([[1, 2], [3, 4]]), 0, lax.add, (0,))
        Array([4, 6], dtype=int32)
    """
    arrays, tree = tree_flatten(operands)
    starts, start_tree = tree_flatten(init_values)
    if not arrays or tree != start_tree:
        raise TypeError(
            three_lines(
                f"reduce: operands {tree}, initial values {start_tree} at {current_source()}",
                "operands and initial values must be trees of the same structure",
                "give one initial value for each operand",
            )
        )
    arrays = [x if is_typed(x) else np.asarray(x) for x in arrays]
    starts = [initial_value(s, x) for s, x in zip(starts, arrays, strict=True)]
    dims = tuple(int(d) for d in dimensions)
    jaxpr = stage_combination(
        "reduce", lambda a, b: computation(tree_unflatten(tree, a), tree_unflatten(tree, b)), starts
    )
    operation = operation_of(jaxpr)
    if operation in BY_OPERATION and aval_of(starts[0]).shape == ():
        reduced = BY_OPERATION[operation].bind(arrays[0], axes=dims)
        outs = [with_initial(operation, starts[0], reduced)]
    else:
        outs = reduce_p.bind(*arrays, *starts, jaxpr=jaxpr, dimensions=dims)
    return tree_unflatten(tree, [sharded(x, out_sharding, "reduce") for x in outs])


def initial_value(start: Any, like: Any) -> Any:
    """Return an initial value as a scalar of the operand's dtype, if it is a Python number."""
    aval = aval_of(like)
    if type(start) is float and math.isinf(start) and dtypes.issubdtype(aval.dtype, np.integer):
        limits = dtypes.iinfo(aval.dtype)
        return np.asarray(limits.max if start > 0 else limits.min, aval.dtype)[()]
    if type(start) in (bool, int, float, complex):
        return scalar(start, ShapedArray((), aval.dtype))
    return start if is_typed(start) else np.asarray(start)[()]


def stage_combination(
    name: str, computation: Callable[[Any, Any], Any], starts: Sequence[Any]
) -> Jaxpr:
    """Record `computation(accumulators, elements)`, given lists of scalars, as a jaxpr.

    Raises: TypeError if its results do not have the types of the accumulators.
    """
    n = len(starts)
    avals = [ShapedArray((), aval_of(s).dtype) for s in starts]
    jaxpr = stage_pure(
        lambda *xs: tree_flatten(computation(xs[:n], xs[n:]))[0], [*avals, *avals], purpose=name
    )
    found = jaxpr.out_avals
    if len(found) != n or any(not f.same_type(a) for f, a in zip(found, avals, strict=True)):
        raise TypeError(
            three_lines(
                f"{name}: a computation on {', '.join(map(str, avals))} at {current_source()}",
                f"it returns {', '.join(map(str, found))}",
                "return one scalar of the same dtype for each accumulator",
            )
        )
    return jaxpr


def operation_of(jaxpr: Jaxpr) -> Operation | None:
    """Return the operation that a jaxpr applies to its two scalars, if it is a single one."""
    if len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2:
        return None
    (eqn,) = jaxpr.eqns
    both = len(eqn.invars) == 2 and set(map(id, eqn.invars)) == set(map(id, jaxpr.invars))
    return eqn.primitive if both and jaxpr.outvars[0] is eqn.outvars[0] else None


def with_initial(operation: Operation, start: Any, reduced: Any) -> Any:
    """Combine an initial value with a reduction, unless it is known to be the identity."""
    identity = identity_of(operation, aval_of(reduced).dtype)
    known = isinstance(start, (np.generic, ConcreteArray))
    if known and bool(np.asarray(start) == identity):
        return reduced
    return operation.bind(start, reduced)


def identity_of(operation: Operation, dtype: Any) -> Any:
    """Return the identity of an operation in a dtype."""
    if operation is add_p:
        return np.zeros((), dtype)[()]
    return np.asarray(BY_OPERATION[operation].identity(dtype)).astype(dtype)[()]  # type: ignore[attr-defined]
