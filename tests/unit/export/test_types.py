"""Types and shardings as tables."""

from __future__ import annotations

import numpy as np
import pytest

from kiln.base import dtypes
from kiln.export.types import (
    mesh_of,
    mesh_table,
    spec_of,
    spec_table,
    type_of,
    type_table,
    without_devices,
)
from kiln.ir.shardings.abstract_mesh import AbstractMesh, AxisType
from kiln.ir.shardings.mesh import PartitionSpec
from kiln.ir.sizes.size import symbol
from kiln.ir.types import ShapedArray
from kiln.sharding import NamedSharding, make_mesh

# As jax 0.10 numbers them.
NUMBERS = {"bool": 0, "int8": 1, "int64": 4, "uint8": 5, "float16": 9, "float32": 10, "float64": 11}
NUMBERS |= {"complex64": 12, "bfloat16": 14, "uint4": 16, "float8_e5m2": 20, "float4_e2m1fn": 26}


@pytest.mark.parametrize("name", NUMBERS)
def test_dtypes(name):
    aval = ShapedArray((2,), dtypes.as_dtype(name))
    assert type_table(aval)["dtype"] == NUMBERS[name]
    assert type_of(type_table(aval)) == aval


def test_dtypes_of_kiln():
    for dtype, number in ((dtypes.float0, 22), (dtypes.KeyDtype("fry"), 27)):
        aval = ShapedArray((), dtype)
        assert type_table(aval)["dtype"] == number and type_of(type_table(aval)) == aval


def test_dtypes_without_a_number():
    with pytest.raises(NotImplementedError, match="has no dtype int2"):
        type_table(ShapedArray((), dtypes.as_dtype("int2")))
    with pytest.raises(ValueError, match="dtype number 40"):
        type_of({"shape": [], "dtype": 40})


def test_shapes():
    aval = ShapedArray((symbol("b"), 3, 2 * symbol("b") // 3), np.dtype(np.float32))
    assert type_table(aval)["shape"] == ["b", "3", "floordiv(2*b, 3)"]
    assert type_of(type_table(aval)) == aval


def test_shardings():
    mesh = make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto, AxisType.Explicit))
    axes = without_devices(NamedSharding(mesh, PartitionSpec("x"))).mesh
    assert axes == AbstractMesh((2, 4), ("x", "y"), mesh.axis_types)
    assert mesh_of(mesh_table(mesh)) == axes
    for spec in (PartitionSpec(), PartitionSpec("x", None), PartitionSpec(("x", "y"), None)):
        assert spec_of(spec_table(spec)) == spec
    with pytest.raises(ValueError, match="unreduced along"):
        spec_of({"entries": [], "reduced": [], "unreduced": ["x"]})
