"""Arrangements of devices for meshes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.api.arrays import devices as all_devices
from kiln.base.errors import three_lines
from kiln.base.source import current_source

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """Return the devices in an array of `mesh_shape`, in the given order.

    CPU devices have no topology for which another order would be better.

    Raises: ValueError unless all devices are used.
    """
    found = list(all_devices() if devices is None else devices)
    if math.prod(mesh_shape) != len(found):
        raise ValueError(
            three_lines(
                f"create_device_mesh({tuple(mesh_shape)}) at {current_source()}",
                f"Number of devices {len(found)} must equal the product of mesh_shape "
                f"{tuple(mesh_shape)}",
                "pass one device for each position of the mesh",
            )
        )
    grid = np.empty(len(found), dtype=object)
    grid[:] = found
    return grid.reshape(tuple(mesh_shape))


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    **options: Any,
) -> np.ndarray:
    """Return the devices in an array whose sizes are the products of both shapes.

    Raises: ValueError if `dcn_mesh_shape` needs more than one slice.
    """
    if math.prod(dcn_mesh_shape) != 1:
        raise ValueError(
            three_lines(
                f"create_hybrid_device_mesh with dcn_mesh_shape={tuple(dcn_mesh_shape)} at "
                f"{current_source()}",
                "Number of slices 1 must equal the product of dcn_mesh_shape",
                "write dcn_mesh_shape=(1, ...) or use create_device_mesh",
            )
        )
    return create_device_mesh(mesh_shape, devices)
