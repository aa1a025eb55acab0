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
    """Return the Bartlett window: a triangle that is zero at its ends."""
    return _window("bartlett", np.bartlett, M)


def blackman(M: int) -> Array:
    """Return the Blackman window."""
    return _window("blackman", np.blackman, M)


def hamming(M: int) -> Array:
    """Return the Hamming window."""
    return _window("hamming", np.hamming, M)


def hanning(M: int) -> Array:
    """Return the Hann window."""
    return _window("hanning", np.hanning, M)


def kaiser(M: int, beta: ArrayLike) -> Array:
    """Return the Kaiser window."""
    return _window("kaiser", np.kaiser, M, beta)
