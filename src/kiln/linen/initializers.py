"""The initializers of `kiln.nn`, and two more with the same interface."""

from __future__ import annotations

from kiln.nn import initializers as of_nn
from kiln.nn.initializers import *  # noqa: F403
from kiln.nn.initializers import Initializer, ones, zeros

__all__ = ["ones_init", "zeros_init"]
__all__ += of_nn.__all__


def zeros_init() -> Initializer:
    """Return the initializer of zeros.

    Example:
        >>> linen.zeros_init()(random.key(0), (2,))
        Array([0., 0.], dtype=float32)
    """
    return zeros


def ones_init() -> Initializer:
    """Return the initializer of ones.

    Example:
        >>> linen.ones_init()(random.key(0), (2,))
        Array([1., 1.], dtype=float32)
    """
    return ones
