"""How arrays are sharded over devices: meshes, partition specs, shardings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.api.arrays import devices as all_devices
from kiln.api.sharding.meshes import (
    auto_axes,
    explicit_axes,
    get_abstract_mesh,
    get_mesh,
    make_single_device_sharding,
    reshard,
    set_mesh,
    use_abstract_mesh,
)
from kiln.base.errors import three_lines
from kiln.base.keywords import known_keywords
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.source import current_source
from kiln.ir.shardings.abstract_mesh import AbstractDevice, AbstractMesh, AxisType
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding, Sharding, SingleDeviceSharding

P = PartitionSpec

__all__ = [
    "AbstractDevice",
    "AbstractMesh",
    "AxisType",
    "Mesh",
    "NamedSharding",
    "P",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "auto_axes",
    "explicit_axes",
    "get_abstract_mesh",
    "get_mesh",
    "make_mesh",
    "make_single_device_sharding",
    "reshard",
    "set_mesh",
    "use_abstract_mesh",
]


@known_keywords
def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[Any],
    axis_types: Any = None,
    *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """Arrange the first devices in a grid with named axes.

    `axis_types` are by default all Auto: the compiler decides what no sharding says.

    Raises: ValueError for too few devices, sizes below 1, or shapes and names of different lengths;
        TypeError for sizes that are not ints.
    Example:
        >>> mesh = kiln.make_mesh((1, 1), ("rows", "columns"))
        >>> mesh.axis_names, mesh.size
        (('rows', 'columns'), 1)
        >>> mesh.shape["rows"]
        1
    """
    shape = tuple(axis_shapes)
    asked = f"make_mesh({shape}, {axis_names}) at {current_source()}"
    if not all(isinstance(n, (int, np.integer)) for n in shape):
        raise TypeError(
            three_lines(
                asked,
                "the sizes of a mesh's axes are ints",
                "write make_mesh((2, 4), ('x', 'y'))",
            )
        )
    if any(n < 1 for n in shape):
        raise ValueError(
            three_lines(
                asked,
                "each axis of a mesh has at least one device; no size is inferred",
                f"write the sizes, such as len(kiln.devices()) = {len(all_devices())}",
            )
        )
    found = list(all_devices() if devices is None else devices)
    need = math.prod(shape)
    if len(found) < need:
        raise ValueError(
            three_lines(
                asked,
                f"the mesh needs {need} devices, and there are {len(found)}",
                "make the mesh smaller, or set KILN_NUM_CPU_DEVICES",
            )
        )
    grid = np.array(found[:need], dtype=object).reshape(shape)
    return Mesh(grid, axis_names, axis_types)


_suggest_names(globals())
