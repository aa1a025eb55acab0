"""The platform that a program runs on, as a number, for programs stored for several platforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.core.primitive import Primitive
from kiln.ir.types import ShapedArray

_INT32 = np.dtype(np.int32)
HERE = "cpu"
"""The platform of programs that are not exported."""


class PlatformIndex(Primitive):
    """Return the position of the platform among `platforms`, which lists all possible ones."""

    name = "platform_index"
    on_host = True

    def infer(self, *, platforms: tuple[str, ...]) -> ShapedArray:
        return ShapedArray((), _INT32)

    def numpy(self, *, platforms: tuple[str, ...]) -> Any:
        return np.asarray(platforms.index(HERE), _INT32)

    def expand(self, *, platforms: tuple[str, ...]) -> Any:
        return np.int32(platforms.index(HERE))


platform_index_p = PlatformIndex()


def platform_index(platforms: tuple[str, ...]) -> Any:
    """Return the position of the platform that the program runs on."""
    return platform_index_p.bind(platforms=platforms)
