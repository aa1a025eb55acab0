"""The shapes that convolutions and reductions of windows give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.api.make_jaxpr import eval_shape
from kiln.jit.signatures.struct import ShapeDtypeStruct
from kiln.ops.linear.convolution import conv_general_dilated
from kiln.ops.linear.transposed_convolution import conv_transpose

Shape = tuple[int, ...]


def _shape_of(fun: Any, *shapes: Sequence[int]) -> Shape:
    structs = [ShapeDtypeStruct(tuple(map(int, shape)), "float32") for shape in shapes]
    return tuple(eval_shape(fun, *structs).shape)


def conv_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    strides: Sequence[int],
    pads: Any,
    batch_group_count: int = 1,
) -> Shape:
    """Return the shape of a convolution of images (N, C, ...) and kernels (O, I, ...).

    `pads` are a pair for each axis of space, or 'SAME' or 'VALID'; `batch_group_count` as for
    `lax.conv_general_dilated`, and so are errors for shapes (`lhs_shape`, `rhs_shape`) that do not
    fit.

    Example:
        >>> lax.conv_shape_tuple((1, 3, 8, 8), (16, 3, 3, 3), (1, 1), "VALID")
        (1, 16, 6, 6)
    """
    return _shape_of(
        lambda x, w: conv_general_dilated(x, w, strides, pads, batch_group_count=batch_group_count),
        lhs_shape,
        rhs_shape,
    )


def conv_general_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    dimension_numbers: Any,
) -> Shape:
    """Return the shape of a convolution whose dimensions are named as in ("NHWC", ...).

    The arguments are those of `lax.conv_general_dilated`, with shapes (`lhs_shape`, `rhs_shape`) in
    place of arrays, and so are the errors.

    Example:
        >>> names = ("NHWC", "HWIO", "NHWC")
        >>> lax.conv_general_shape_tuple((1, 8, 8, 3), (3, 3, 3, 16), (2, 2), "SAME", names)
        (1, 4, 4, 16)
    """
    return _shape_of(
        lambda x, w: conv_general_dilated(
            x, w, window_strides, padding, dimension_numbers=dimension_numbers
        ),
        lhs_shape,
        rhs_shape,
    )


def conv_transpose_shape_tuple(
    lhs_shape: Sequence[int],
    rhs_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Any,
    dimension_numbers: Any,
) -> Shape:
    """Return the shape of a transposed convolution.

    The arguments are those of `lax.conv_transpose`, with shapes (`lhs_shape`, `rhs_shape`) in place
    of arrays, and so are the errors.

    Example:
        >>> names = ("NHWC", "HWIO", "NHWC")
        >>> lax.conv_transpose_shape_tuple((1, 4, 4, 3), (2, 2, 3, 8), (2, 2), "SAME", names)
        (1, 8, 8, 8)
    """
    return _shape_of(
        lambda x, w: conv_transpose(
            x, w, window_strides, padding, dimension_numbers=dimension_numbers
        ),
        lhs_shape,
        rhs_shape,
    )


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[Shape, Shape, Shape]:
    """Return the permutations to (N, C, ...), (O, I, ...), (N, C, ...) of named dimensions.

    Raises: ValueError if the names differ.
    Example:
        >>> lax.conv_general_permutations(("NHWC", "HWIO", "NHWC"))
        ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    """
    lhs, rhs, out = dimension_numbers
    spatial = [c for c in rhs if c not in "OI"]

    def places(spec: str, first: str) -> Shape:
        return tuple(spec.index(c) for c in (*first, *spatial))

    return places(lhs, "NC"), places(rhs, "OI"), places(out, "NC")


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Shape:
    """Return the shape of a reduction of windows.

    The other arguments have an entry for each axis of `operand_shape`, dilations are by default 1.
    Raises: ValueError for another number of entries.
    Example:
        >>> lax.reduce_window_shape_tuple((8, 8), (2, 2), (2, 2), [(0, 0), (1, 1)])
        (4, 5)
    """
    ones = (1,) * len(operand_shape)
    found = []
    for size, window, stride, (low, high), base, wide in zip(
        operand_shape,
        window_dimensions,
        window_strides,
        padding,
        base_dilation or ones,
        window_dilation or ones,
        strict=True,
    ):
        whole = (0 if size == 0 else 1 + base * (size - 1)) + low + high
        span = 0 if window == 0 else 1 + wide * (window - 1)
        found.append(0 if whole < span else (whole - span) // stride + 1)
    return tuple(found)
