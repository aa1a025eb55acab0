"""Process memory: its size, and returning free memory to the system."""

from __future__ import annotations

import ctypes
import gc
import os
from typing import Any

from kiln import _runtime

MB = 1 << 20


def _find_trim() -> Any:
    """Return glibc's `malloc_trim`, or None with other C libraries."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


_trim = _find_trim()


def give_back() -> None:
    """Free unreachable objects, and return free memory to the system if glibc can."""
    gc.collect()
    _runtime.release_memory()
    if _trim is not None:
        _trim(0)


def physical_bytes() -> int:
    """Return the size of the machine's memory, or 0 if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
