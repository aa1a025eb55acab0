"""Convolution and correlation of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.ir.sizes.size import is_constant
from kiln.numpy.elements.complex_parts import conj
from kiln.numpy.manipulation.element_order import flip
from kiln.numpy.promotion import one, promote_dtypes_inexact
from kiln.ops.linear.convolution import conv_general_dilated
from kiln.ops.shape import expand_dims, squeeze


def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Convolve two vectors; `mode` says which part to return: 'full', 'same' or 'valid'.

    `preferred_element_type` is the dtype in which products are summed; `precision` has no effect on
    CPUs.

    Example:
        >>> jnp.convolve(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, -1.0]))
        Array([ 1.,  1.,  1., -3.], dtype=float32)
    """
    a, v = _vectors("convolve", a, v)
    # The shorter one slides over the longer; in mode 'full', either may.
    if (mode != "full" or is_constant(a.shape + v.shape)) and a.shape[0] < v.shape[0]:
        a, v = v, a
    return _slid("convolve", a, flip(v), mode, precision, preferred_element_type)


def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """Correlate two vectors; `mode` says which part to return: 'full', 'same' or 'valid'.

    `preferred_element_type` is the dtype in which products are summed; `precision` has no effect on
    CPUs.

    Example:
        >>> jnp.correlate(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 1.0]))
        Array([2., 3.], dtype=float32)
    """
    a, v = _vectors("correlate", a, v)
    v = conj(v)
    if a.shape[0] >= v.shape[0]:
        return _slid("correlate", a, v, mode, precision, preferred_element_type)
    return flip(_slid("correlate", v, a, mode, precision, preferred_element_type))


def _vectors(name: str, a: Any, v: Any) -> Any:
    a, v = promote_dtypes_inexact(one(name, a), one(name, v))
    if len(a.shape) != 1 or len(v.shape) != 1:
        raise ValueError(
            three_lines(
                f"{name} of {a.aval}, {v.aval} at {current_source()}",
                f"{name}() only support 1-dimensional inputs.",
                "use kiln.lax.conv_general_dilated",
            )
        )
    if a.shape[0] == 0 or v.shape[0] == 0:
        raise ValueError(
            f"{name} of {a.aval}, {v.aval} at {current_source()}\n"
            f"{name}: inputs cannot be empty\nuse longer vectors"
        )
    return a, v


def _slid(name: str, long: Any, kernel: Any, mode: str, precision: Any, preferred: Any) -> Any:
    size = kernel.shape[0]
    if mode == "valid":
        padding = (0, 0)
    elif mode == "same":
        # The part in the middle; with an even kernel, one element more on the right is dropped.
        padding = (size // 2, size - size // 2 - 1)
    elif mode == "full":
        padding = (size - 1, size - 1)
    else:
        raise ValueError(
            f"{name}(mode={mode!r}) at {current_source()}\n"
            "mode must be one of ['full', 'same', 'valid']\nuse one of them"
        )
    wanted = long.dtype if preferred is None else dtypes.check_user_dtype(preferred, name)
    out = conv_general_dilated(
        expand_dims(long, (0, 1)),
        expand_dims(kernel, (0, 1)),
        (1,),
        [padding],
        precision=precision,
        preferred_element_type=np.dtype(wanted),
    )
    return squeeze(out, (0, 1))
