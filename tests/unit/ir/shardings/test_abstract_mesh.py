"""Meshes without devices: axes with names, sizes and kinds, equal by value."""

from __future__ import annotations

import pickle

import pytest

from kiln.ir.shardings.abstract_mesh import (
    EMPTY,
    AbstractDevice,
    AbstractMesh,
    AxisType,
    axis_types_for,
)
from kiln.ir.shardings.mesh import PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding

MESH = AbstractMesh((2, 3), ("x", "y"), (AxisType.Auto, AxisType.Explicit))


def test_axes() -> None:
    assert MESH.shape == {"x": 2, "y": 3}
    assert MESH.shape_tuple == (("x", 2), ("y", 3))
    assert MESH.size == 6
    assert not MESH.empty
    assert EMPTY.empty
    assert EMPTY.size == 0
    assert MESH.auto_axes == ("x",)
    assert MESH.explicit_axes == ("y",)
    assert MESH.manual_axes == ()


def test_kinds() -> None:
    manual = MESH.update_axis_types({"x": AxisType.Manual, "y": AxisType.Manual})
    assert manual.are_all_axes_manual
    assert not manual.are_all_axes_auto
    assert AbstractMesh((2,), ("x",)).are_all_axes_auto
    assert AbstractMesh((2,), ("x",), AxisType.Explicit).are_all_axes_explicit
    assert not EMPTY.are_all_axes_auto


def test_equality_is_by_value() -> None:
    same = AbstractMesh((2, 3), ("x", "y"), (AxisType.Auto, AxisType.Explicit))
    assert same == MESH
    assert hash(same) == hash(MESH)
    assert AbstractMesh((2, 3), ("x", "y")) != MESH
    assert MESH.update(axis_sizes=(4, 3)).shape["x"] == 4
    device = AbstractDevice("cpu", None, "cpu")
    assert MESH.update(abstract_device=device).abstract_device == device
    assert pickle.loads(pickle.dumps(MESH)) == MESH
    assert MESH.abstract_mesh is MESH


def test_text() -> None:
    assert repr(MESH) == "AbstractMesh('x': 2, 'y': 3, axis_types=(Auto, Explicit))"
    assert repr(EMPTY) == "AbstractMesh((), axis_types=())"


def test_a_sharding_over_one() -> None:
    sharding = NamedSharding(MESH, PartitionSpec("x", None))
    assert not sharding.is_fully_replicated
    assert sharding.devices == ()
    assert sharding.shard_shape((4, 5)) == (2, 5)


@pytest.mark.parametrize("name", ["devices", "device_ids", "local_mesh", "local_devices"])
def test_there_are_no_devices(name: str) -> None:
    with pytest.raises(ValueError, match=f"AbstractMesh does not implement {name}"):
        getattr(MESH, name)


def test_wrong_axes() -> None:
    with pytest.raises(ValueError, match="2 sizes need as many names"):
        AbstractMesh((2, 3), ("x",))
    with pytest.raises(TypeError, match="must be of type `AxisType`"):
        axis_types_for(("x",), ("Auto",), "Mesh")
    with pytest.raises(ValueError, match="Number of axis names should match"):
        axis_types_for(("x",), (AxisType.Auto, AxisType.Auto), "Mesh")
    with pytest.raises(AttributeError, match="no attribute 'no_such'"):
        MESH.no_such
