"""Objects of other libraries that are never freed, because freeing them goes wrong."""

from __future__ import annotations

import ctypes
from typing import TypeVar

T = TypeVar("T")


def never_freed(made: T) -> T:
    """Return an object, which lives until the process ends, after all modules."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made
