"""Convolutions: conv_general_dilated, and the functions with fewer options on top.

A kernel slides over an array and is multiplied and summed over space and input features. With
`feature_group_count` G, features are divided into G independent groups; with `batch_group_count` G,
the batch is divided into G groups, each with its own output features. Both groups, and a mapped
axis, are the outer part of the axis they divide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.absent import is_linear
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.primitive import Primitive
from kiln.core.staging import refuse
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.edge_semantics import convert
from kiln.ops.linear.contraction import (
    accumulator_dtype,
    bilinear_jvp,
    canonical_precision,
    contract,
    product_dtype,
)
from kiln.ops.linear.convolution_numbers import ConvDimensionNumbers, conv_dimension_numbers
from kiln.ops.out_sharding import parts_of, sharded
from kiln.ops.reductions.window_geometry import Windows, dilated, view_windows, windows_of
from kiln.ops.shape import move_axis, reshape, rev, zeros_of
from kiln.ops.sharding import auto

WORDS = ("rhs spatial shape", "window_strides", "lhs_dilation", "rhs_dilation")


class ConvGeneralDilated(Primitive):
    """Slide a kernel over an array."""

    name = "conv_general_dilated"

    def infer(
        self,
        x: Any,
        w: Any,
        *,
        dimension_numbers: ConvDimensionNumbers,
        feature_group_count: int,
        batch_group_count: int,
        preferred_element_type: Any,
        **windows: Any,
    ) -> ShapedArray:
        lhs, rhs, out = dimension_numbers
        _check_axes(x, w, dimension_numbers)
        _check_groups(x, w, dimension_numbers, feature_group_count, batch_group_count)
        dtype = product_dtype(self.name, x, w, preferred_element_type)
        space = space_windows(w.shape, dimension_numbers, windows).counts(
            [x.shape[a] for a in lhs[2:]]
        )
        batch = x.shape[lhs[0]]
        if batch_group_count != 1:
            batch = batch // batch_group_count
        shape: list[Any] = [0] * x.ndim
        for axis, size in zip(out, (batch, w.shape[rhs[0]], *space), strict=True):
            shape[axis] = size
        return ShapedArray(shape, dtype, x.weak_type and w.weak_type)

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        x, w = xs
        lhs, _, out = params["dimension_numbers"]
        if any(w.split) or x.split[lhs[1]] is not None:
            refuse(
                self.name,
                xs,
                "a split kernel, or split features, do not determine how the result is sharded",
                "say it: conv_general_dilated(..., out_sharding=P(...))",
            )
        split: list[Any] = [None] * x.ndim
        for a, b in zip(lhs, out, strict=True):
            entry = split[b] = x.split[a]
            if entry is not None and results[0].shape[b] % parts_of(x, entry):
                refuse(self.name, xs, f"axis {b} of the result cannot be split by {entry}")
        return split

    def numpy(
        self,
        x: Any,
        w: Any,
        *,
        dimension_numbers: ConvDimensionNumbers,
        feature_group_count: int,
        batch_group_count: int,
        preferred_element_type: Any,
        **windows: Any,
    ) -> Any:
        lhs, rhs, out = dimension_numbers
        target = preferred_element_type or dtypes.promote_types(x.dtype, w.dtype)
        dtype = accumulator_dtype(x.dtype, w.dtype, target)
        space = space_windows(w.shape, dimension_numbers, windows)
        x = convert(x, dtype).transpose(lhs)
        w = convert(w, dtype).transpose(rhs)
        groups = feature_group_count if batch_group_count == 1 else batch_group_count
        views = view_windows(x, 0, space.with_axis(0).with_axis(0))
        rank = space.rank
        batch, features = x.shape[:2]
        counts = views.shape[2 : 2 + rank]
        kernel = w.shape[2:]
        if batch_group_count != 1:
            split = (groups, batch // groups, features)
        else:
            split = (batch, groups, features // groups)
        views = views.reshape((*split, *counts, *kernel))
        if batch_group_count == 1:
            views = np.swapaxes(views, 0, 1)
        w = w.reshape((groups, w.shape[0] // groups, *w.shape[1:]))
        summed = ((2, *range(3 + rank, 3 + 2 * rank)), (2, *range(3, 3 + rank)))
        # The product: groups, batch, space, features.
        product = contract(views, w, (summed, ((0,), (0,))))
        product = np.moveaxis(product, (0, -1), (1, 2))
        product = product.reshape((product.shape[0], groups * w.shape[1], *counts))
        return convert(product.transpose(np.argsort(out)), target)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        return bilinear_jvp(self, primals, tangents, params)

    def transpose(self, ct: Any, x: Any, w: Any, **params: Any) -> Any:
        if 0 in aval_of(ct).shape:
            return [zeros_of(v.aval) if is_linear(v) else None for v in (x, w)]
        if is_linear(x):
            return [self._pull_to_operand(ct, x.aval, w, **params), None]
        return [None, self._pull_to_kernel(ct, x, w.aval, **params)]

    def _pull_to_operand(
        self,
        ct: Any,
        x: ShapedArray,
        w: Any,
        *,
        dimension_numbers: ConvDimensionNumbers,
        feature_group_count: int,
        batch_group_count: int,
        precision: Any,
        preferred_element_type: Any,
        **windows: Any,
    ) -> Any:
        lhs, rhs, out = dimension_numbers
        space = space_windows(aval_of(w).shape, dimension_numbers, windows)
        groups = feature_group_count if batch_group_count == 1 else batch_group_count
        if groups != 1:
            w = merge_axis(split_axis(w, rhs[0], groups), rhs[0], rhs[1])
        padding = [
            (span - 1 - low, dilated(n, d) - dilated(m, s) + low)
            for n, m, span, s, d, (low, _) in zip(
                (x.shape[a] for a in lhs[2:]),
                (aval_of(ct).shape[a] for a in out[2:]),
                space.spans,
                space.strides,
                space.base_dilation,
                space.padding,
                strict=True,
            )
        ]
        pulled = self.bind(
            ct,
            rev(w, rhs[2:]),
            window_strides=space.base_dilation,
            padding=tuple(padding),
            lhs_dilation=space.strides,
            rhs_dilation=space.dilation,
            dimension_numbers=ConvDimensionNumbers(out, _exchanged(rhs), lhs),
            feature_group_count=groups,
            batch_group_count=1,
            precision=precision,
            preferred_element_type=None,
        )
        if batch_group_count != 1:
            pulled = merge_axis(split_axis(pulled, lhs[1], groups), lhs[1], lhs[0])
        return convert_element_type(pulled, x.dtype)

    def _pull_to_kernel(
        self,
        ct: Any,
        x: Any,
        w: ShapedArray,
        *,
        dimension_numbers: ConvDimensionNumbers,
        feature_group_count: int,
        batch_group_count: int,
        precision: Any,
        preferred_element_type: Any,
        **windows: Any,
    ) -> Any:
        lhs, rhs, out = dimension_numbers
        space = space_windows(w.shape, dimension_numbers, windows)
        padding = [
            (low, span - 1 + dilated(m, s) - dilated(n, d) - low)
            for n, m, span, s, d, (low, _) in zip(
                (aval_of(x).shape[a] for a in lhs[2:]),
                (aval_of(ct).shape[a] for a in out[2:]),
                space.spans,
                space.strides,
                space.base_dilation,
                space.padding,
                strict=True,
            )
        ]
        # Batch and features change roles, and so do their groups.
        pulled = self.bind(
            x,
            ct,
            window_strides=space.dilation,
            padding=tuple(padding),
            lhs_dilation=space.base_dilation,
            rhs_dilation=space.strides,
            dimension_numbers=ConvDimensionNumbers(*map(_exchanged, (lhs, out, rhs))),
            feature_group_count=batch_group_count,
            batch_group_count=feature_group_count,
            precision=precision,
            preferred_element_type=None,
        )
        return convert_element_type(pulled, w.dtype)

    def batch(
        self,
        size: Any,
        operands: Any,
        axes: Any,
        *,
        dimension_numbers: ConvDimensionNumbers,
        feature_group_count: int,
        batch_group_count: int,
        **params: Any,
    ) -> Any:
        (x, w), (at_x, at_w) = operands, axes
        lhs, rhs, out = dimension_numbers
        groups = feature_group_count if batch_group_count == 1 else batch_group_count
        counts = {
            "feature_group_count": feature_group_count,
            "batch_group_count": batch_group_count,
        }
        params["dimension_numbers"] = dimension_numbers
        if type(size) is int and size == 0:
            given: dict[str, Any] = {**params, **counts}
            one = self.infer(_without(x, at_x), _without(w, at_w), **given)
            return zeros_of(ShapedArray((0, *one.shape), one.dtype, one.weak_type)), 0
        if at_x is not None and at_w is not None:
            # Members of the mapped axis are independent: they are groups.
            grouped = "batch_group_count" if batch_group_count != 1 else "feature_group_count"
            counts[grouped] *= size
            x = merge_axis(x, at_x, lhs[0] if batch_group_count != 1 else lhs[1])
            product = self.bind(x, merge_axis(w, at_w, rhs[0]), **params, **counts)
            return split_axis(product, out[1], size), out[1]
        if at_x is not None:
            x = _merge_within(x, at_x, lhs[0], batch_group_count)
            return split_axis(self.bind(x, w, **params, **counts), out[0], size), out[0]
        w = _merge_within(w, at_w, rhs[0], groups)
        product = self.bind(x, w, **params, **counts)
        if groups == 1:
            return split_axis(product, out[1], size), out[1]
        product = split_axis(split_axis(product, out[1], groups), out[1] + 1, size)
        product = move_axis(product, out[1] + 1, 0)
        return merge_axis(product, out[1] + 1, out[1] + 1), 0


def _without(x: Any, at: int | None) -> ShapedArray:
    """Return the type of a member of a stack."""
    aval = aval_of(x)
    if at is None:
        return aval
    return ShapedArray((*aval.shape[:at], *aval.shape[at + 1 :]), aval.dtype, aval.weak_type)


def space_windows(
    kernel_shape: Sequence[Any], numbers: ConvDimensionNumbers, windows: dict[str, Any]
) -> Windows:
    """Return how the kernel slides over the spatial axes."""
    return Windows(
        tuple(kernel_shape[a] for a in numbers.rhs_spec[2:]),
        windows["window_strides"],
        windows["padding"],
        windows["lhs_dilation"],
        windows["rhs_dilation"],
    )


def _exchanged(spec: Sequence[int]) -> tuple[int, ...]:
    return (spec[1], spec[0], *spec[2:])


def split_axis(x: Any, axis: int, outer: Any) -> Any:
    """Split an axis in two, the first of size `outer`."""
    shape = aval_of(x).shape
    return reshape(x, (*shape[:axis], outer, shape[axis] // outer, *shape[axis + 1 :]))


def merge_axis(x: Any, source: int, target: int) -> Any:
    """Make an axis the outer part of another, whose position is counted without the first."""
    x = move_axis(x, source, target)
    shape = aval_of(x).shape
    return reshape(x, (*shape[:target], shape[target] * shape[target + 1], *shape[target + 2 :]))


def _merge_within(x: Any, source: int, target: int, groups: int) -> Any:
    """Like `merge_axis`, but inside each of the groups that the target axis is divided into."""
    if groups == 1:
        return merge_axis(x, source, target)
    x = split_axis(move_axis(x, source, 0), target + 1, groups)
    x = merge_axis(x, 0, target + 1)
    return merge_axis(x, target, target)


def _check_axes(x: ShapedArray, w: ShapedArray, numbers: ConvDimensionNumbers) -> None:
    if x.ndim != w.ndim:
        wrong = (
            "conv_general_dilated lhs and rhs must have the same number of dimensions, but got "
            f"{tuple(x.shape)} and {tuple(w.shape)}"
        )
    elif any(sorted(axes) != [*range(x.ndim)] for axes in numbers):
        wrong = f"each part of {numbers} must number the {x.ndim} axes of an operand, or the result"
    else:
        return
    asked = f"conv_general_dilated: operands {x}, {w} at {current_source()}"
    raise ValueError(three_lines(asked, wrong, "check dimension_numbers and the operands' ranks"))


def _check_groups(
    x: ShapedArray, w: ShapedArray, numbers: ConvDimensionNumbers, features: int, batches: int
) -> None:
    lhs, rhs, _ = numbers
    inputs, per_group, outputs = x.shape[lhs[1]], w.shape[rhs[1]], w.shape[rhs[0]]
    if features < 1 or batches < 1:
        wrong = f"group counts must be positive, got {features} and {batches}"
    elif features != 1 and batches != 1:
        wrong = (
            "At most one of batch_group_count and feature_group_count may be > 1, got "
            f"batch_group_count={batches} and feature_group_count={features}"
        )
    elif inputs != per_group * features:
        wrong = (
            f"lhs feature dimension size {inputs} must equal feature_group_count {features} times "
            f"the rhs input feature dimension size {per_group}"
        )
    elif features != 1 and outputs % features:
        wrong = (
            f"rhs output feature dimension size {outputs} must be a multiple of "
            f"feature_group_count {features}"
        )
    elif batches != 1 and (x.shape[lhs[0]] % batches or outputs % batches):
        wrong = (
            f"lhs batch dimension size {x.shape[lhs[0]]} and rhs output feature dimension size "
            f"{outputs} must be multiples of batch_group_count {batches}"
        )
    else:
        return
    asked = (
        f"conv_general_dilated: operands {x}, {w}, shapes {tuple(x.shape)} and {tuple(w.shape)} "
        f"at {current_source()}"
    )
    raise ValueError(three_lines(asked, wrong, "check dimension_numbers and the kernel's shape"))


conv_general_dilated_p = ConvGeneralDilated()


def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    out_sharding: Any = None,
) -> Array:
    """Slide the kernel `rhs` over `lhs`; `padding` is a name or (low, high) per spatial axis.

    Raises: TypeError or ValueError for incompatible shapes, groups and windows.
    Example:
        >>> y = lax.conv_general_dilated(jnp.ones((1, 1, 5)), jnp.ones((1, 1, 3)), (1,), "VALID")
        >>> y.tolist()
        [[[3.0, 3.0, 3.0]]]
    """
    if out_sharding is not None:
        lhs, rhs = auto(lhs), auto(rhs)
    x, w = aval_of(lhs), aval_of(rhs)
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    space = windows_of(
        "conv_general_dilated",
        x.ndim - 2,
        [w.shape[a] for a in numbers.rhs_spec[2:]],
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        [x.shape[a] for a in numbers.lhs_spec[2:]],
        WORDS,
    )
    preferred = None
    if preferred_element_type is not None:
        preferred = dtypes.check_user_dtype(preferred_element_type, "conv_general_dilated")
    found = conv_general_dilated_p.bind(
        lhs,
        rhs,
        window_strides=space.strides,
        padding=space.padding,
        lhs_dilation=space.base_dilation,
        rhs_dilation=space.dilation,
        dimension_numbers=numbers,
        feature_group_count=int(feature_group_count),
        batch_group_count=int(batch_group_count),
        precision=canonical_precision(precision),
        preferred_element_type=preferred,
    )
    return found if out_sharding is None else sharded(found, out_sharding, "conv_general_dilated")


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: str,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Slide a kernel, features in and out first, over an array with batch and features first.

    The kernel is not flipped: it is a correlation, as in all libraries for networks.
    Shapes: `lhs` (N, C, *space), `rhs` (O, C, *kernel) -> (N, O, *space). `window_strides` have an
        entry for each axis of space; `precision` and `preferred_element_type` as for
        `lax.dot_general`. `padding` is 'SAME' or 'VALID'.
    Raises: the errors of `conv_general_dilated`.
    Example:
        >>> image, kernel = jnp.arange(9.0).reshape(1, 1, 3, 3), jnp.ones((1, 1, 2, 2))
        >>> lax.conv(image, kernel, (1, 1), "VALID")[0, 0]
        Array([[ 8., 12.],
               [20., 24.]], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Like `conv`, with padding by numbers and dilation.

    Shapes: `lhs` (N, C, *space), `rhs` (O, C, *kernel) -> (N, O, *space). `lhs_dilation` and
        `rhs_dilation` have a number for each axis of space. `window_strides` have an entry for each
        axis of space; `precision` and `preferred_element_type` as for `lax.dot_general`.
    Raises: the errors of `conv_general_dilated`.
    Example:
        >>> x, kernel = jnp.arange(4.0).reshape(1, 1, 4), jnp.ones((1, 1, 2))
        >>> lax.conv_with_general_padding(x, kernel, (1,), [(1, 0)], None, (1,))[0, 0]
        Array([0., 1., 3., 5.], dtype=float32)
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
