"""Transposed convolution: conv_transpose, a convolution over a dilated operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.trace import aval_of
from kiln.ops.linear.convolution import conv_general_dilated
from kiln.ops.linear.convolution_numbers import conv_dimension_numbers
from kiln.ops.reductions.window_geometry import dilated
from kiln.ops.shape import rev

_CHANNELS_LAST = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: Any,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
    use_consistent_padding: bool = False,
) -> Array:
    """Convolve with fractional strides, as the gradient of a convolution with `strides` does.

    By default, features are the last axis. With `transpose_kernel`, the kernel is that of the
    convolution whose gradient this is; with `use_consistent_padding`, so are numbers in `padding`.
    Raises: ValueError if dimension numbers are needed and missing.
    Example:
        >>> x, kernel = jnp.array([1.0, 2.0]).reshape(1, 2, 1), jnp.ones((2, 1, 1))
        >>> lax.conv_transpose(x, kernel, (2,), "VALID")[0, :, 0]
        Array([1., 1., 2., 2.], dtype=float32)
    """
    x, w = aval_of(lhs), aval_of(rhs)
    if dimension_numbers is None and x.ndim in _CHANNELS_LAST:
        dimension_numbers = _CHANNELS_LAST[x.ndim]
    if dimension_numbers is None:
        raise ValueError(
            three_lines(
                f"conv_transpose: operands {x}, {w} at {current_source()}",
                f"there are no default dimension numbers for {x.ndim - 2} spatial axes",
                "give dimension_numbers",
            )
        )
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    space = numbers.rhs_spec[2:]
    dilation = (1,) * len(space) if rhs_dilation is None else tuple(rhs_dilation)
    spans = [dilated(w.shape[a], d) for a, d in zip(space, dilation, strict=True)]
    if isinstance(padding, str):
        padding = [_transposed_padding(k, s, padding) for k, s in zip(spans, strides, strict=True)]
    elif use_consistent_padding:
        padding = [
            (k - 1 - low, k - 1 - high) for k, (low, high) in zip(spans, padding, strict=True)
        ]
    if transpose_kernel:
        outputs, inputs = numbers.rhs_spec[:2]
        numbers = numbers._replace(rhs_spec=(inputs, outputs, *space))
        rhs = rev(rhs, space)
    return conv_general_dilated(
        lhs,
        rhs,
        (1,) * len(space),
        padding,
        strides,
        rhs_dilation,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def _transposed_padding(span: int, stride: int, padding: str) -> tuple[int, int]:
    if padding == "SAME":
        total = span + stride - 2
        before = span - 1 if stride > span - 1 else -(-total // 2)
    elif padding == "VALID":
        total = span + stride - 2 + max(span - stride, 0)
        before = span - 1
    else:
        raise ValueError(
            three_lines(
                f"conv_transpose: padding={padding!r} at {current_source()}",
                "Padding mode must be `SAME` or `VALID`",
                "use one of these, or a (low, high) pair for each axis of space",
            )
        )
    return before, total - before
