"""Window functions of a given length, computed in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.core.array_type import Array, ArrayLike
from kiln.numpy.creation.arrays import asarray, concrete_number


def _window(name: str, make: Callable[..., np.ndarray], *args: Any) -> Any:
    size, *rest = (concrete_number(name, "M", x) for x in args)
    return asarray(make(int(size), *rest), dtypes.default_float_dtype())


def bartlett(M: int) -> Array:
    """Return the Bartlett window: a triangle that is zero at its ends.

    Example:
        >>> jnp.bartlett(5)
        Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _window("bartlett", np.bartlett, M)


def blackman(M: int) -> Array:
    """Return the Blackman window.

    Example:
        >>> jnp.blackman(5).round(4)
        Array([-0.  ,  0.34,  1.  ,  0.34, -0.  ], dtype=float32)
    """
    return _window("blackman", np.blackman, M)


def hamming(M: int) -> Array:
    """Return the Hamming window.

    Example:
        >>> jnp.hamming(5).round(4)
        Array([0.08, 0.54, 1.  , 0.54, 0.08], dtype=float32)
    """
    return _window("hamming", np.hamming, M)


def hanning(M: int) -> Array:
    """Return the Hann window.

    Example:
        >>> jnp.hanning(5).round(4)
        Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _window("hanning", np.hanning, M)


def kaiser(M: int, beta: ArrayLike) -> Array:
    """Return the Kaiser window.

    Example:
        >>> jnp.kaiser(5, 3.0).round(4)
        Array([0.2049, 0.7269, 1.    , 0.7269, 0.2049], dtype=float32)
    """
    return _window("kaiser", np.kaiser, M, beta)
