"""Queries about a buffer: its data, its address, whether it is ready.

A buffer is jaxlib's `ArrayImpl`; kiln's arrays hold one and never subclass it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln import _runtime
from kiln.engines.xla.runtime.binding import XlaError, failed, without_jax

Buffer = Any


def get(buffer: Buffer) -> np.ndarray:
    """Wait for a buffer and return a read-only view of its data."""
    dtype = buffer.aval.dtype
    if is_viewed(dtype):
        return view(buffer, dtype)
    try:
        _runtime.wait_until_ready(buffer)
        with without_jax():
            value: np.ndarray = buffer._single_device_array_to_np_array_did_copy()[0]
    except (XlaError, BufferError, ValueError) as error:
        failed(error, "reading an array")
    value.flags.writeable = False
    return value


def is_viewed(dtype: np.dtype) -> bool:
    """Tell whether jaxlib exports buffers of a dtype to NumPy without knowing their type."""
    return dtype.isbuiltin == 1


def view(buffer: Buffer, dtype: np.dtype) -> np.ndarray:
    """Wait for a buffer of one of these dtypes and return a read-only view of its data."""
    try:
        return _runtime.array_when_ready(buffer, dtype)
    except (XlaError, BufferError, ValueError) as error:
        failed(error, "reading an array")


def wait(buffer: Buffer) -> None:
    """Block until a buffer's data is computed."""
    try:
        _runtime.block_until_ready(buffer)
    except XlaError as error:
        failed(error, "waiting for an array")


def is_deleted(buffer: Buffer) -> bool:
    """Tell whether a buffer was freed or donated."""
    return bool(buffer.is_deleted())


def is_ready(buffer: Buffer) -> bool:
    """Tell whether a buffer's data is computed; False if deleted, for which jaxlib would crash."""
    return not buffer.is_deleted() and bool(buffer.is_ready())


def pointer(buffer: Buffer) -> int:
    """Return the address of a buffer's first element."""
    try:
        with without_jax():
            return int(buffer.unsafe_buffer_pointer())
    except XlaError as error:
        failed(error, "reading the address of an array")
