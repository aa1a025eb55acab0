"""The initializers of `kiln.nn`, and two more with the same interface."""

from __future__ import annotations

from kiln.nn import initializers as of_nn
from kiln.nn.initializers import *  # noqa: F403
from kiln.nn.initializers import Initializer, ones, zeros

__all__ = ["ones_init", "zeros_init"]
__all__ += of_nn.__all__


def zeros_init() -> Initializer:
    """Return the initializer of zeros."""
    return zeros


def ones_init() -> Initializer:
    """Return the initializer of ones."""
    return ones
