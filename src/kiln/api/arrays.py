"""Arrays as values: waiting for them, moving them, listing the devices they live on."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from kiln.base.config import options
from kiln.base.errors import UnavailableOptionError, three_lines
from kiln.base.tree import tree_map
from kiln.core.array import ConcreteArray
from kiln.core.compilation import as_array
from kiln.core.engine import engine
from kiln.core.trace import Tracer


def block_until_ready(tree: Any) -> Any:
    """Wait for all arrays of a pytree; other leaves pass through."""
    return tree_map(lambda x: x.block_until_ready() if hasattr(x, "block_until_ready") else x, tree)


def device_put(x: Any, device: Any = None) -> Any:
    """Make arrays of the leaves of a pytree, on the default device."""
    if device is not None and device not in devices():
        raise UnavailableOptionError(
            three_lines(
                f"device_put(x, {device!r})",
                "this version of kiln knows one CPU device and no shardings yet",
                "leave the device out",
            )
        )
    return tree_map(lambda leaf: leaf if isinstance(leaf, Tracer) else as_array(leaf), x)


def device_get(x: Any) -> Any:
    """Return a pytree with its arrays as NumPy arrays."""
    return tree_map(lambda leaf: np.asarray(leaf) if isinstance(leaf, ConcreteArray) else leaf, x)


def live_arrays() -> list[ConcreteArray]:
    """Return the arrays that are still referenced and not deleted."""
    # The collector knows them all, so that making an array need not enter it anywhere.
    return [x for x in gc.get_objects() if type(x) is ConcreteArray and not x.is_deleted()]


def devices(backend: str | None = None) -> list[Any]:
    """Return the devices of a platform.

    Raises: RuntimeError for a platform that is not there.
    """
    if backend not in (None, "cpu"):
        raise RuntimeError(
            three_lines(
                f"devices({backend!r})",
                f"Unknown backend {backend}: this version of kiln runs on the cpu",
                "leave the backend out, or use 'cpu'",
            )
        )
    return list(engine(options().engine or "xla").devices())


def local_devices(backend: str | None = None) -> list[Any]:
    """Return the devices of this process."""
    return devices(backend)


def device_count(backend: str | None = None) -> int:
    """Return the number of devices."""
    return len(devices(backend))


def local_device_count(backend: str | None = None) -> int:
    """Return the number of devices of this process."""
    return len(devices(backend))


def default_backend() -> str:
    """Return the name of the default platform."""
    return "cpu"


def process_index() -> int:
    """Return the number of this process."""
    return 0


def process_count() -> int:
    """Return the number of processes."""
    return 1
