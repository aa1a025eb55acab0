"""Types of arrays, and shardings without devices, as tables, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.export.size_expressions import shape_of_text, size_text
from kiln.ir.shardings.abstract_mesh import AbstractMesh, AxisType
from kiln.ir.shardings.mesh import PartitionSpec, axes_of
from kiln.ir.shardings.sharding import NamedSharding
from kiln.ir.sizes.facts import Facts
from kiln.ir.types import ShapedArray

_ON_DEVICE = 1
_KINDS = (AxisType.Auto, AxisType.Explicit, AxisType.Manual)
"""Numbered from 1."""


def _numbered() -> dict[Any, int]:
    plain = {
        kind: number
        for number, kind in (
            *enumerate(("bool", "int8", "int16", "int32", "int64")),
            *enumerate(("uint8", "uint16", "uint32", "uint64"), 5),
            *enumerate(("float16", "float32", "float64", "complex64", "complex128"), 9),
        )
    }
    small = (
        ml_dtypes.bfloat16,
        ml_dtypes.int4,
        ml_dtypes.uint4,
        ml_dtypes.float8_e4m3b11fnuz,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz,
        dtypes.float0,
        ml_dtypes.float8_e4m3,
        ml_dtypes.float8_e3m4,
        ml_dtypes.float8_e8m0fnu,
        ml_dtypes.float4_e2m1fn,
    )
    numbers: dict[Any, int] = {np.dtype(kind): number for kind, number in plain.items()}
    return numbers | {np.dtype(kind): number for number, kind in enumerate(small, 14)}


_NUMBERS = _numbered()
_NUMBERS |= {dtypes.KeyDtype(tag): 27 + i for i, tag in enumerate(("fry", "rbg", "urbg"))}
_DTYPES = {number: dtype for dtype, number in _NUMBERS.items()}


def type_table(aval: ShapedArray) -> dict[str, Any]:
    """Return the table of a type.

    Raises: NotImplementedError for a dtype without a number in the format.
    """
    number = _NUMBERS.get(aval.dtype)
    if number is None:
        raise NotImplementedError(
            three_lines(
                f"export of a function with an argument or result of type {aval} at "
                f"{current_source()}",
                f"the format of exported programs has no dtype {aval.dtype}",
                "convert to another dtype inside the function",
            )
        )
    return {
        "kind": 0,
        "shape": [size_text(dim) for dim in aval.shape],
        "dtype": number,
        "memory": _ON_DEVICE,
    }


def type_of(table: dict[str, Any], facts: Facts | None = None) -> ShapedArray:
    """Return the type that a table describes; `facts` apply to its named sizes.

    Raises: ValueError for a dtype that kiln does not support.
    """
    spec = ", ".join(table["shape"]) + ("," if len(table["shape"]) == 1 else "")
    what = f"loading an exported program with the shape ({spec:.200})"
    shape = shape_of_text(spec, None, what, facts)
    number = table["dtype"]
    if number not in _DTYPES:
        raise ValueError(f"a type with the dtype number {number}, which kiln does not support")
    return ShapedArray(shape, _DTYPES[number])


def mesh_table(mesh: Any) -> dict[str, Any]:
    """Return the table of the axes of a mesh."""
    return {
        "sizes": list(mesh.axis_sizes),
        "names": list(map(str, mesh.axis_names)),
        "kinds": [1 + _KINDS.index(kind) for kind in mesh.axis_types],
    }


def mesh_of(table: dict[str, Any]) -> AbstractMesh:
    """Return the mesh without devices that a table describes."""
    kinds = tuple([_KINDS[number - 1] for number in table["kinds"]])
    return AbstractMesh(tuple(table["sizes"]), tuple(table["names"]), axis_types=kinds)


def spec_table(spec: PartitionSpec) -> dict[str, Any]:
    """Return the table of a partition spec."""
    return {
        "entries": [{"names": [str(name) for name in axes_of(entry)]} for entry in spec],
        "reduced": [],
        "unreduced": [],
    }


def spec_of(table: dict[str, Any]) -> PartitionSpec:
    """Return the partition spec that a table describes.

    Raises: ValueError for one with unreduced axes, which kiln does not support.
    """
    if table["reduced"] or table["unreduced"]:
        raise ValueError(
            f"a sharding that is unreduced along {table['reduced'] + table['unreduced']}, which "
            "kiln does not support"
        )
    return PartitionSpec(*[_entry(axes["names"]) for axes in table["entries"]])


def _entry(names: Sequence[str]) -> Any:
    return None if not names else names[0] if len(names) == 1 else tuple(names)


def without_devices(sharding: NamedSharding) -> NamedSharding:
    """Return a sharding over the abstract mesh, without devices."""
    mesh = sharding.mesh
    axes = AbstractMesh(mesh.axis_sizes, mesh.axis_names, axis_types=mesh.axis_types)
    return NamedSharding(axes, sharding.spec)
