"""Calls kernels of compiled code by their address."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from kiln import _runtime

ADDRESSES = _runtime.native_symbols()
_KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class _Call(ctypes.Structure):
    """`kiln::Call` without a pool: everything runs on the calling thread."""

    _fields_ = [(name, ctypes.c_void_p) for name in
                ("operands", "results", "sizes", "workspace", "pool", "fault")]  # fmt: skip


def run_kernel(name: str, buffers: Sequence[np.ndarray], numbers: Sequence[int]) -> None:
    """Run a kernel on row-major arrays, the results last."""
    assert all(x.flags.c_contiguous for x in buffers)
    pointers = (ctypes.c_void_p * len(buffers))(*[x.ctypes.data for x in buffers])
    values = (ctypes.c_int64 * max(1, len(numbers)))(*map(int, numbers))
    call = _Call()
    status = _KERNEL(ADDRESSES[name])(ctypes.byref(call), pointers, values)
    assert status == 0, f"{name} returned {status}"
