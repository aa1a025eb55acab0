"""Meshes and partition specs as values; a mesh in force."""

from __future__ import annotations

import threading

import numpy as np

from kiln.base.options.config import options
from kiln.ir.shardings.mesh import UNCONSTRAINED, Mesh, PartitionSpec

MESH = Mesh(np.array([f"d{i}" for i in range(8)]).reshape(2, 4), ("x", "y"))
CUBE = Mesh(np.array([f"d{i}" for i in range(8)]).reshape(2, 2, 2), ("p", "q", "r"))


def test_specs() -> None:
    spec = PartitionSpec("x", None, ("y",), [])
    assert spec == ("x", None, "y", None)
    assert list(spec) == ["x", None, "y", None]
    assert PartitionSpec.UNCONSTRAINED is UNCONSTRAINED


def test_a_mesh_is_in_force_on_its_thread_only() -> None:
    seen = []
    with MESH:
        with CUBE:
            assert options().mesh == CUBE
        thread = threading.Thread(target=lambda: seen.append(options().mesh))
        thread.start()
        thread.join()
        assert options().mesh == MESH
    assert options().mesh is None and seen == [None]


def test_texts_of_a_mesh() -> None:
    assert str(MESH) == "Mesh('x': 2, 'y': 4, axis_types=(Auto, Auto))"
    assert repr(MESH) == "Mesh(axis_sizes=(2, 4), axis_names=('x', 'y'), axis_types=(Auto, Auto))"
