"""The patches that a kernel reads, and convolutions with a different kernel per position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.arrays.array import from_host
from kiln.core.trace import aval_of
from kiln.ops.linear.contraction import dot_general
from kiln.ops.linear.convolution import conv_general_dilated
from kiln.ops.linear.convolution_numbers import conv_dimension_numbers
from kiln.ops.shape import move_axis, transpose


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Return the elements of each patch as features: features outside, kernel positions inside.

    Shapes: `lhs` as `dimension_numbers` say, by default (N, C, *space) -> (N, C *
        product(filter_shape), *windows). The other arguments are those of
        `lax.conv_general_dilated`, for a kernel of `filter_shape`.
    Example:
        >>> x = jnp.arange(4.0).reshape(1, 1, 4)
        >>> lax.conv_general_dilated_patches(x, (2,), (1,), "VALID")[0]
        Array([[0., 1., 2.],
               [1., 2., 3.]], dtype=float32)
    """
    x = aval_of(lhs)
    kernel = tuple(int(k) for k in filter_shape)
    numbers = conv_dimension_numbers(x.shape, (1, 1, *kernel), dimension_numbers)
    features = int(x.shape[numbers.lhs_spec[1]])
    places = math.prod(kernel)
    ones = np.eye(places, dtype=x.dtype).reshape((places, 1, *kernel))
    ones = np.tile(ones, (features, *[1] * (1 + len(kernel))))
    return conv_general_dilated(
        lhs,
        from_host(np.ascontiguousarray(ones.transpose(np.argsort(numbers.rhs_spec)))),  # type: ignore[arg-type]
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        feature_group_count=features,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Any,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Array:
    """Convolve with a separate kernel for each position of the result.

    Shapes: in `rhs`, the axis of input features holds features outside, kernel positions inside;
        its spatial axes are those of the result.
    Example:
        >>> x, kernels = jnp.ones((1, 1, 3)), jnp.array([[[1.0, 2.0], [1.0, 2.0]]])
        >>> lax.conv_general_dilated_local(x, kernels, (1,), "VALID", (2,))[0, 0]
        Array([2., 4.], dtype=float32)
    """
    x, w = aval_of(lhs), aval_of(rhs)
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    patches = conv_general_dilated_patches(
        lhs,
        filter_shape,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        precision,
    )
    kernel, out = numbers.rhs_spec, numbers.out_spec
    product = dot_general(
        rhs, patches, (((kernel[1],), (out[1],)), (kernel[2:], out[2:])), precision
    )
    # The axes of the product: space, features, batch.
    rank = x.ndim
    product = move_axis(move_axis(product, rank - 1, 0), rank - 1, 1)
    order = [0] * rank
    for place, axis in enumerate(out):
        order[axis] = place
    return transpose(product, order)
