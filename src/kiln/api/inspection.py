"""Queries about values and the process: types, devices, the environment."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

import numpy as np

from kiln.api.arrays import (
    device_count,
    devices,
    local_device_count,
    process_count,
    process_index,
)
from kiln.base.source import api_boundary
from kiln.base.tree import tree_leaves
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray


@api_boundary
def typeof(x: Any) -> ShapedArray:
    """Return the type of an array, a tracer or a number: shape, dtype, weak type.

    Raises: TypeError for anything else.
    Example:
        >>> kiln.typeof(1.0)
        ShapedArray(float32[], weak_type=True)
        >>> kiln.typeof(jnp.ones((2, 3), jnp.int8))
        ShapedArray(int8[2,3])
    """
    return aval_of(x)


class _Devices(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return all(hasattr(instance, name) for name in ("id", "platform", "process_index"))


class Device(metaclass=_Devices):
    """The class of devices, for `isinstance`: objects with an id, a platform and a process.

    Example:
        >>> isinstance(kiln.devices()[0], kiln.Device)
        True
    """

    id: int
    platform: str
    process_index: int
    device_kind: str


def copy_to_host_async(x: Any) -> Any:
    """Start to copy the arrays of a pytree to the host, and return the pytree.

    Example:
        >>> kiln.copy_to_host_async({"a": jnp.arange(2)})
        {'a': Array([0, 1], dtype=int32)}
    """
    for leaf in tree_leaves(x):
        copy = getattr(leaf, "copy_to_host_async", None)
        if copy is not None:
            copy()
    return x


def process_indices(backend: str | None = None) -> list[int]:
    """Return the numbers of the processes that own devices.

    Raises: RuntimeError if the platform `backend` is not available; by default all platforms count.
    Example:
        >>> kiln.process_indices()
        [0]
    """
    return sorted({d.process_index for d in devices(backend)})


def host_id(backend: str | None = None) -> int:
    """Return the number of this process.

    `backend` has no effect: all platforms belong to the one process.

    Example:
        >>> kiln.host_id()
        0
    """
    return process_index()


def host_ids(backend: str | None = None) -> list[int]:
    """Return the numbers of all processes.

    Raises: RuntimeError if the platform `backend` is not available; by default all platforms count.
    Example:
        >>> kiln.host_ids()
        [0]
    """
    return process_indices(backend)


def host_count(backend: str | None = None) -> int:
    """Return the number of processes.

    `backend` has no effect: all platforms belong to the one process.

    Example:
        >>> kiln.host_count()
        1
    """
    return process_count()


def print_environment_info(return_string: bool = False) -> str | None:
    """Print the description of the machine that a bug report should contain, or return it.

    It is printed to standard output, or returned with `return_string`.

    Example:
        >>> "numpy" in kiln.print_environment_info(return_string=True)
        True
    """
    first = devices()[0]
    kind = getattr(first, "device_kind", first.platform)
    lines = [
        f"numpy:  {np.__version__}",
        f"python: {sys.version}".replace("\n", " "),
        f"device info: {kind}-{device_count()}, {local_device_count()} local devices",
        f"process_count: {process_count()}",
        f"platform: {platform.uname()}",
        *[f"{k}={v}" for k, v in os.environ.items() if k.startswith(("KILN_", "JAX_", "XLA_"))],
    ]
    text = "\n".join(lines)
    if return_string:
        return text
    sys.stdout.write(text + "\n")
    return None
