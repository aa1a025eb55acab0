"""Reductions of sliding windows by a user function; sums and extremes are recognized."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import PyTreeDef, tree_flatten, tree_structure, tree_unflatten
from kiln.core.absent import Zero
from kiln.core.arrays.array import ConcreteArray
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of, is_typed
from kiln.ir.effects import Effects
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import max_p, min_p, select
from kiln.ops.elements.families import Elementwise, add_p
from kiln.ops.indexing.slicing import pad, slice
from kiln.ops.out_sharding import resized
from kiln.ops.reductions.generic_reduction import (
    apply_with_tangents,
    fold,
    identity_of,
    initial_value,
    operation_of,
    stage_combination,
)
from kiln.ops.reductions.window import (
    geometry,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
)
from kiln.ops.reductions.window_geometry import Windows, view_windows, windows_of
from kiln.ops.shape import broadcast_scalar, filled, full, mapped_at

BY_OPERATION: dict[Primitive, Primitive] = {
    add_p: reduce_window_sum_p,
    max_p: reduce_window_max_p,
    min_p: reduce_window_min_p,
}


class GenericReduceWindow(Primitive):
    """Combine the elements of each window by `jaxpr`: accumulators, elements -> accumulators.

    Operands are arrays of one shape, then as many initial scalars. Padding and holes are skipped.
    """

    name = "reduce_window"
    multiple = True
    region = True

    def effects(self, params: dict[str, Any]) -> Effects:
        return params["jaxpr"].effects

    def infer(self, *xs: Any, jaxpr: Jaxpr, **params: Any) -> list[ShapedArray]:
        n = len(xs) // 2
        for x, start in zip(xs[:n], xs[n:], strict=True):
            if x.shape != xs[0].shape or start.shape != () or x.dtype != start.dtype:
                raise TypeError(
                    three_lines(
                        f"reduce_window: operands {', '.join(map(str, xs[:n]))} from initial "
                        f"values {', '.join(map(str, xs[n:]))} at {current_source()}",
                        "operands must have one shape, each with a scalar initial value of its "
                        "dtype",
                        "broadcast the operands, convert the initial values",
                    )
                )
        counts = geometry(**params).counts(xs[0].shape)
        return [ShapedArray(counts, x.dtype) for x in xs[:n]]

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        return [resized(self.name, xs[0], result) for result in results]

    def numpy(self, *xs: Any, jaxpr: Jaxpr, **params: Any) -> Any:
        n, windows = len(xs) // 2, geometry(**params)
        counts: Any = windows.counts(xs[0].shape)
        views = [view_windows(x, start, windows) for x, start in zip(xs[:n], xs[n:], strict=True)]
        inside = view_windows(np.ones(xs[0].shape, np.bool_), False, windows)
        state = [np.broadcast_to(start, counts) for start in xs[n:]]
        for place in np.ndindex(windows.dimensions):
            combined = fold(jaxpr, state, [view[(None, ..., *place)] for view in views])
            mine = inside[(..., *place)]
            state = [np.where(mine, new, old) for new, old in zip(combined, state, strict=True)]
        return state

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, **params: Any
    ) -> Any:
        outs = self.bind(*primals, jaxpr=jaxpr, **params)
        if not all(isinstance(eqn.primitive, Elementwise) for eqn in jaxpr.eqns):
            raise self._missing("jvp", "its function is not made of element-wise operations")
        n, windows = len(outs), geometry(**params)
        moving = [i for i, aval in enumerate(jaxpr.out_avals) if aval.tangent() == aval]
        arrays = list(primals[:n]) + [filled(tangents[i]) for i in moving]
        starts = list(primals[n:]) + [filled(tangents[n + i]) for i in moving]
        counts = aval_of(outs[0]).shape
        state = [broadcast_scalar(start, counts) for start in starts]
        if 0 not in counts:
            elements = [
                _by_offset(x, start, windows) for x, start in zip(arrays, starts, strict=True)
            ]
            everywhere = full(aval_of(primals[0]).shape, True, np.bool_)
            inside = _by_offset(everywhere, np.False_, windows)
            for mine, *there in zip(inside, *elements, strict=True):
                combined = apply_with_tangents(jaxpr, moving, state, there)
                state = [select(mine, new, old) for new, old in zip(combined, state, strict=True)]
        out_tangents: list[Any] = [Zero(aval_of(out).tangent()) for out in outs]
        for i, t in zip(moving, state[n:], strict=True):
            out_tangents[i] = t
        return outs, out_tangents

    def batch(self, size: Any, xs: Any, axes: Any, *, jaxpr: Jaxpr, **params: Any) -> Any:
        n = len(xs) // 2
        if any(at is not None for at in axes[n:]):
            raise NotImplementedError(
                three_lines(
                    f"reduce_window: mapped initial values at {current_source()}",
                    "vmap of reduce_window needs initial values that are not mapped",
                    "reduce from the identity of the operation, then combine with the value",
                )
            )
        arrays = [mapped_at(x, size, at, 0) for x, at in zip(xs[:n], axes[:n], strict=True)]
        inner = geometry(**params).with_axis(0).params
        return self.bind(*arrays, *xs[n:], jaxpr=jaxpr, **inner), [0] * n


def _by_offset(x: Any, start: Any, windows: Windows) -> list[Any]:
    """Return, for each position in a window, the elements there in all windows."""
    config = [
        (low, high, d - 1)
        for (low, high), d in zip(windows.padding, windows.base_dilation, strict=True)
    ]
    counts = windows.counts(aval_of(x).shape)
    spread = pad(x, start, config)
    return [
        slice(
            spread,
            offset,
            [o + (m - 1) * s + 1 for o, m, s in zip(offset, counts, windows.strides, strict=True)],
            windows.strides,
        )
        for offset in windows.offsets()
    ]


reduce_window_p = GenericReduceWindow()


def _with_structure(tree: PyTreeDef, result: Any) -> Any:
    found = tree_structure(result)
    if found == tree:
        return result
    raise ValueError(
        three_lines(
            f"reduce_window: operands {tree} at {current_source()}",
            "reduce_window output must have the same tree structure as the operands, and the "
            f"computation returns {found}",
            "return one scalar for each operand, in the same container",
        )
    )


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Combine the elements of sliding windows by `computation(accumulated, element)`.

    Operands may be a pytree of arrays of one shape, with a matching pytree of initial values; each
    enters a window once. The computation must be associative; padding is skipped.
    Raises: TypeError for windows that do not match the operand, ValueError if the computation
        returns another tree.
    Example:
        >>> lax.reduce_window(jnp.array([3, 1, 4, 1]), 0, lax.max, (2,), (2,))
        Array([3, 4], dtype=int32)
    """
    arrays, tree = tree_flatten(operand)
    starts, start_tree = tree_flatten(init_value)
    if not arrays or tree != start_tree:
        raise TypeError(
            three_lines(
                f"reduce_window: operands {tree}, initial values {start_tree} "
                f"at {current_source()}",
                "operands and initial values must be trees of the same structure",
                "give one initial value for each operand",
            )
        )
    arrays = [x if is_typed(x) else np.asarray(x) for x in arrays]
    starts = [initial_value(s, x) for s, x in zip(starts, arrays, strict=True)]
    shape = aval_of(arrays[0]).shape
    windows = windows_of(
        "reduce_window",
        len(shape),
        window_dimensions,
        window_strides,
        padding,
        base_dilation,
        window_dilation,
        shape,
    )
    jaxpr = stage_combination(
        "reduce_window",
        lambda a, b: _with_structure(
            tree, computation(tree_unflatten(tree, a), tree_unflatten(tree, b))
        ),
        starts,
    )
    operation = operation_of(jaxpr)
    start = starts[0]
    if operation in BY_OPERATION and aval_of(start).shape == ():
        known = isinstance(start, (np.generic, ConcreteArray))
        identity = identity_of(operation, aval_of(arrays[0]).dtype)
        out = BY_OPERATION[operation].bind(arrays[0], **windows.params)
        if not (known and bool(np.asarray(start) == identity)):
            out = operation.bind(start, out)
        return tree_unflatten(tree, [out])
    outs = reduce_window_p.bind(*arrays, *starts, jaxpr=jaxpr, **windows.params)
    return tree_unflatten(tree, outs)
