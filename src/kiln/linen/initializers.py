"""The initializers of `kiln.nn`, and two more that are made like the others."""

from __future__ import annotations

from kiln.nn import initializers as of_nn
from kiln.nn.initializers import *  # noqa: F403
from kiln.nn.initializers import Initializer, ones, zeros

__all__ = ["ones_init", "zeros_init"]
__all__ += of_nn.__all__


def zeros_init() -> Initializer:
    """Return the initializer that makes zeros."""
    return zeros


def ones_init() -> Initializer:
    """Return the initializer that makes ones."""
    return ones
