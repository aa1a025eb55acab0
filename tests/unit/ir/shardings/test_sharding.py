"""Shardings as values: how they split, what they equal, how they are named again."""

from __future__ import annotations

import io
import itertools
import pickle
import random
from typing import Any

import numpy as np
import pytest

from kiln.ir.shardings.mesh import UNCONSTRAINED, Mesh, PartitionSpec
from kiln.ir.shardings.sharding import (
    Blocks,
    NamedSharding,
    SingleDeviceSharding,
    fitted,
    misfit,
    named_like,
    simplest,
)

MESH = Mesh(np.array([f"d{i}" for i in range(8)]).reshape(2, 4), ("x", "y"))
CUBE = Mesh(np.array([f"d{i}" for i in range(8)]).reshape(2, 2, 2), ("p", "q", "r"))


def named(*entries, mesh=MESH):
    return NamedSharding(mesh, PartitionSpec(*entries))


def test_blocks() -> None:
    parts, at = named("y", "x").blocks(2)
    assert parts == (4, 2)
    assert at == tuple((j, i) for i in range(2) for j in range(4))
    assert named(("y", "x")).blocks(1).at == tuple((j * 2 + i,) for i in range(2) for j in range(4))
    assert named().blocks(3) == Blocks((1, 1, 1), ((0, 0, 0),) * 8)
    assert named(UNCONSTRAINED, "x").blocks(2).parts == (1, 2)
    assert SingleDeviceSharding("d0").blocks(2) == Blocks((1, 1), ((0, 0),))


def test_indices() -> None:
    found = named("x").devices_indices_map((6, 3))
    assert found["d0"] == (slice(0, 3), slice(None)) and found["d7"] == (slice(3, 6), slice(None))
    assert named("x", "y").shard_shape((6, 8)) == (3, 2)
    with pytest.raises(ValueError, match="not divisible by 4"):
        named("y").shard_shape((6,))


def test_what_does_not_fit() -> None:
    assert misfit(named("x"), (4, 3)) == ""
    assert "rank at least 2" in misfit(named(None, "x"), (4,))
    assert "size 5" in misfit(named("x"), (5,)) and "2 parts" in misfit(named("x"), (5,))
    assert misfit(named("x"), (0,)) == ""


@pytest.mark.parametrize("mesh", [MESH, CUBE])
def test_every_cut_gets_its_name_back(mesh) -> None:
    names = list(mesh.axis_names)
    entries = [None, *names, *itertools.permutations(names, 2)]
    for first, second in itertools.product(entries, repeat=2):
        try:
            sharding = named(first, second, mesh=mesh)
        except ValueError:
            continue
        again = named_like(sharding.devices, sharding.blocks(2), mesh)
        assert again.mesh == mesh
        assert again.is_equivalent_to(sharding, 2)


def test_a_cut_the_mesh_cannot_say_gets_a_mesh_of_its_own() -> None:
    eight = Mesh(MESH.flat, "all")
    sharding = named("x")
    again = named_like(sharding.devices, sharding.blocks(2), eight)
    assert again.mesh != eight and again.is_equivalent_to(sharding, 2)
    assert named_like(sharding.devices, sharding.blocks(2), None).is_equivalent_to(sharding, 2)


def test_the_order_of_devices_does_not_matter() -> None:
    backwards = Mesh(MESH.devices[::-1], ("x", "y"))
    assert not named("x").is_equivalent_to(named("x", mesh=backwards), 1)
    assert named("y").is_equivalent_to(named("y", mesh=backwards), 1)
    assert named().is_equivalent_to(named(mesh=backwards), 0)


def test_attributes() -> None:
    sharding = named("x")
    assert sharding.device_set == sharding.addressable_devices == frozenset(MESH.flat)
    assert sharding.num_devices == 8 and sharding.is_fully_addressable
    assert not sharding.is_fully_replicated and named().is_fully_replicated
    assert sharding != named("y") and sharding == named("x") and hash(sharding) == hash(named("x"))
    assert repr(sharding) == "NamedSharding(mesh=Mesh('x': 2, 'y': 4), spec=P('x'))"


class Guarded(pickle.Unpickler):
    """Finds nothing that a corrupted pickle could do harm with."""

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] not in ("kiln", "numpy") or name.startswith("_frombuffer"):
            raise pickle.UnpicklingError(module)
        return super().find_class(module, name)


@pytest.mark.parametrize("value", [named(("x", "y"), None), MESH], ids=["sharding", "mesh"])
def test_corrupted_pickles(value) -> None:
    data = pickle.dumps(value, protocol=2)
    assert pickle.loads(data) == value
    # NumPy crashes on corrupted arrays of objects.
    assert b"numpy" not in data
    random_ = random.Random(0)
    read = 0
    for _ in range(600):
        corrupted = bytearray(data)
        at = random_.randrange(len(corrupted))
        if random_.random() < 0.5:
            corrupted[at] = random_.randrange(256)
        else:
            del corrupted[at : at + random_.randrange(1, 4)]
        try:
            again = Guarded(io.BytesIO(corrupted)).load()
        except Exception:  # noqa: BLE001 - any will do
            continue
        read += 1
        assert isinstance(repr(again), str)
    assert read


def test_fitted() -> None:
    assert fitted(named("x", "y"), (4, 8)) == named("x", "y")
    assert fitted(named("x", "y"), (3, 8)) == named(None, "y")
    assert fitted(named("x", "y"), (3,)) == named(None, "y")
    assert fitted(named(("x", "y"), UNCONSTRAINED), (12, 3)) == named(None, UNCONSTRAINED)
    assert fitted(SingleDeviceSharding("d0"), (3,)) == SingleDeviceSharding("d0")


def test_the_simplest_specification() -> None:
    mesh = Mesh(np.array([f"d{i}" for i in range(8)]).reshape(2, 1, 4), ("x", "one", "y"))
    for given, wanted in [
        (("one",), ()),
        (("x", None, None), ("x",)),
        (("one", "x"), (None, "x")),
        ((("x", "one"), "y"), ("x", "y")),
        ((("y", "one", "x"),), (("y", "x"),)),
        (("x", ("one",)), ("x",)),
    ]:
        found = simplest(named(*given, mesh=mesh))
        assert found == named(*wanted, mesh=mesh)
        assert found.blocks(3) == named(*given, mesh=mesh).blocks(3)
    for same in (
        named("x", None, "y", mesh=mesh),
        named(UNCONSTRAINED, "one", mesh=mesh),
        named("x", mesh=Mesh(np.array(["d0"]), "x")),
        SingleDeviceSharding("d0"),
    ):
        assert simplest(same) is same
