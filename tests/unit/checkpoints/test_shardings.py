from __future__ import annotations

import json

import numpy as np
import pytest

import kiln
from kiln.checkpoints.shardings import Rebuilder, described, device_count_of, fits, rebuilt_sharding
from kiln.ir.shardings.abstract_mesh import AxisType
from kiln.sharding import Mesh, NamedSharding, P, SingleDeviceSharding, make_mesh


@pytest.mark.parametrize(
    "spec", [P(), P("a"), P(None, "b"), P(("a", "b")), P("b", "a"), P(None, None)]
)
def test_named_shardings_come_back(spec: P) -> None:
    mesh = make_mesh((2, 4), ("a", "b"), (AxisType.Auto, AxisType.Explicit))
    sharding = NamedSharding(mesh, spec)
    text = json.dumps(described(sharding, 2))
    assert rebuilt_sharding(json.loads(text)) == sharding
    assert device_count_of(json.loads(text)) == 8


def test_single_devices_come_back() -> None:
    sharding = SingleDeviceSharding(kiln.devices()[3])
    assert rebuilt_sharding(described(sharding, 1)) == sharding
    assert device_count_of(described(sharding, 1)) == 1
    assert rebuilt_sharding({"device": "tpu:0"}) is None


def test_other_names_become_names() -> None:
    mesh = Mesh(np.array(kiln.devices()[:4]).reshape(2, 2), (0, "b"))
    sharding = NamedSharding(mesh, P("b", 0))
    found = rebuilt_sharding(json.loads(json.dumps(described(sharding, 2))))
    assert found is not None
    assert found.is_equivalent_to(sharding, 2)


def test_a_sharding_is_rebuilt_once_for_all_leaves() -> None:
    rebuilder = Rebuilder()
    description = described(NamedSharding(make_mesh((2,), ("a",)), P("a")), 1)
    equal = json.loads(json.dumps(description))
    assert rebuilder.sharding(description) is rebuilder.sharding(description)
    assert rebuilder.sharding(equal) == rebuilder.sharding(description)
    assert rebuilder.sharding({"device": "tpu:0"}) is None


@pytest.mark.parametrize(
    ("spec", "shape", "wanted"),
    [
        (P("a"), (2,), True),
        (P("a"), (3,), False),
        (P("a", None), (2,), False),
        (P(("a", "b")), (8, 1), True),
        (P(("a", "b")), (4, 8), False),
        (P(None, "b"), (3, 0), True),
        (P(), (), True),
    ],
)
def test_whether_a_sharding_fits(spec: P, shape: tuple[int, ...], wanted: bool) -> None:
    sharding = NamedSharding(make_mesh((2, 4), ("a", "b")), spec)
    assert fits(described(sharding, len(shape)), shape) is wanted
    assert fits({"device": "cpu:0"}, shape)
