"""Splitting arrays into the shards of a mesh's members, and back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import kiln
from kiln.control.sharded_regions.shards import (
    joined,
    part_type,
    shard_counts,
    shard_names,
    shard_of,
    whole_type,
)
from kiln.ir.shardings.mesh import Mesh
from kiln.ir.shardings.mesh import PartitionSpec as P
from kiln.ir.shardings.sharding import NamedSharding
from kiln.ir.types import ShapedArray

MESH = Mesh(np.array(kiln.devices()[:8]).reshape(4, 2), ("x", "y"))
ORDER = ("x", "y")
X = np.arange(8 * 16 * 3, dtype=np.float32).reshape(8, 16, 3)
SPECS = [P(), P("x"), P("y"), P(None, "y"), P("y", "x"), P(("y", "x")), P(None, ("x", "y"))]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_stack_of_parts_holds_what_shardings_say(spec: P) -> None:
    stack = np.asarray(shard_of(kiln.numpy.asarray(X), MESH, ORDER, spec))
    names = [name for name in ORDER if name in shard_names(spec)]
    index_of = NamedSharding(MESH, spec).devices_indices_map(X.shape)
    for place in itertools.product(range(4), range(2)):
        here = dict(zip(ORDER, place, strict=True))
        part = stack[tuple(here[name] for name in names)]
        np.testing.assert_array_equal(part, X[index_of[MESH.devices[place]]])
    np.testing.assert_array_equal(
        np.asarray(joined(kiln.numpy.asarray(stack), MESH, ORDER, spec)), X
    )


def test_types_of_parts() -> None:
    aval = ShapedArray(X.shape, np.dtype(np.float32))
    for spec in SPECS:
        part = part_type(aval, MESH, spec)
        assert whole_type(part, MESH, spec, MESH.axis_names) == aval
    assert shard_counts(MESH, P(("y", "x"), None), 3) == [8, 1, 1]
