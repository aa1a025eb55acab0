"""Checks of arrays that lie on several processes, made by each of them."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.distributed import LAUNCH_FOLDER
from kiln.errors import CheckpointError
from kiln.experimental import multihost_utils
from kiln.sharding import NamedSharding, SingleDeviceSharding
from kiln.sharding import PartitionSpec as P


def check_devices() -> None:
    count, here = kiln.process_count(), kiln.process_index()
    local = kiln.local_devices()
    assert kiln.device_count() == count * len(local)
    assert [d.process_index for d in local] == [here] * len(local)
    assert sorted({d.process_index for d in kiln.devices()}) == list(range(count))
    assert len({d.id for d in kiln.devices()}) == kiln.device_count()
    assert jnp.ones(3).sharding == SingleDeviceSharding(local[0])
    assert kiln.local_devices(process_index=1)[0].process_index == 1
    with pytest.raises(RuntimeError, match="only be called once"):
        kiln.distributed.initialize()


def check_local_programs() -> None:
    here = kiln.process_index()
    # Different in each process, and for nobody else.
    assert float(kiln.jit(lambda x: (x * x).sum())(np.full(3, here + 1.0))) == 3 * (here + 1) ** 2
    on_last = kiln.device_put(np.arange(3.0), kiln.local_devices()[-1])
    assert kiln.jit(lambda x: x + here)(on_last).device == kiln.local_devices()[-1]
    mesh = kiln.make_mesh((len(kiln.local_devices()),), ("x",), devices=kiln.local_devices())
    x = kiln.device_put(np.arange(4.0), NamedSharding(mesh, P("x")))
    assert x.is_fully_addressable
    assert float(kiln.jit(jnp.sum)(x)) == 6.0
    other = kiln.local_devices(process_index=1 - here if here < 2 else 0)[0]
    with pytest.raises(TypeError, match="not a device of this process"):
        kiln.device_put(1.0, other)


def global_mesh() -> Any:
    return kiln.make_mesh((kiln.device_count(),), ("x",))


def check_shardings() -> None:
    mesh, count = global_mesh(), kiln.device_count()
    sharding = NamedSharding(mesh, P("x"))
    assert mesh.is_multi_process
    assert mesh.local_devices == kiln.local_devices()
    assert list(mesh.local_mesh.flat) == kiln.local_devices()
    assert sharding.num_devices == count
    assert sharding.addressable_devices == set(kiln.local_devices())
    assert not sharding.is_fully_addressable
    assert set(sharding.addressable_devices_indices_map((count,))) == set(kiln.local_devices())
    assert len(sharding.devices_indices_map((count,))) == count
    across = kiln.make_mesh((2, count // 2), ("a", "b"))
    assert NamedSharding(across, P("b")).shard_shape((count,)) == (2,)


def check_arrays() -> None:
    mesh, count = global_mesh(), kiln.device_count()
    host = np.arange(2.0 * count, dtype=np.float32)
    x = kiln.device_put(host, NamedSharding(mesh, P("x")))
    assert x.shape == (2 * count,)
    assert not x.is_fully_addressable
    assert not x.is_fully_replicated
    assert x.committed
    shards = x.addressable_shards
    assert [s.device for s in shards] == kiln.local_devices()
    for shard in shards:
        assert np.array_equal(shard.data, host[shard.index])
    everywhere = x.global_shards
    assert len(everywhere) == count
    assert sum(s.data is None for s in everywhere) == count - len(shards)
    assert np.array_equal(x.addressable_data(0), shards[0].data)
    assert repr(x) == str(x) == f"{x}" == f"Array(shape=({2 * count},), dtype=float32)"
    for read in (np.asarray, lambda x: x.tolist(), bool):
        with pytest.raises(RuntimeError, match="process_allgather"):
            read(x)
    with pytest.raises(RuntimeError, match="process_allgather"):
        np.asarray(x)
    again = copy.copy(x)
    assert np.array_equal(again.addressable_data(-1), x.addressable_data(-1))
    again.delete()
    assert again.is_deleted()
    assert not x.is_deleted()
    whole = kiln.device_put(host, NamedSharding(mesh, P()))
    assert whole.is_fully_replicated
    assert np.array_equal(whole, host)
    assert np.array_equal(kiln.device_put(whole, kiln.local_devices()[0]), host)
    with pytest.raises(ValueError, match="other processes hold parts"):
        kiln.device_put(x, kiln.local_devices()[0])
    resharded = kiln.device_put(x, NamedSharding(mesh, P()))
    assert np.array_equal(resharded, host)
    # Each process has all of an array that is split among its own devices only.
    grid = kiln.make_mesh((kiln.process_count(), count // kiln.process_count()), ("p", "d"))
    assert np.array_equal(kiln.device_put(host, NamedSharding(grid, P("d"))), host)


def check_programs() -> None:
    mesh, count = global_mesh(), kiln.device_count()
    host = np.arange(4.0 * count, dtype=np.float32).reshape(2 * count, 2)
    x = kiln.device_put(host, NamedSharding(mesh, P("x")))
    f = kiln.jit(lambda x, y: (x - x.mean()) * y)
    y = f(x, 2.0)
    assert y.sharding.is_equivalent_to(x.sharding, 2)
    expected = (host - host.mean()) * 2
    for shard in y.addressable_shards:
        assert np.allclose(shard.data, expected[shard.index])
    # Eagerly, with scalars, host arrays, indices and reductions.
    z = (x * 2 + np.ones(2, np.float32))[:, 0]
    assert np.allclose(multihost_utils.process_allgather(z, tiled=True), host[:, 0] * 2 + 1)
    assert float(x.sum()) == host.sum()
    assert float(jnp.max(x)) == host.max()
    g = kiln.grad(lambda w, x: jnp.sum((x @ w) ** 2))(jnp.ones(2), x)
    assert np.allclose(g, 2 * host.T @ (host @ np.ones(2)))
    given = kiln.jit(lambda x: x + 1, donate_argnums=0)(y)
    assert y.is_deleted()
    for shard in given.addressable_shards:
        assert np.allclose(shard.data, expected[shard.index] + 1)
    out = kiln.jit(lambda x: x.T, out_shardings=NamedSharding(mesh, P(None, "x")))(x)
    assert out.addressable_data(0).shape == (2, 2)
    inside = kiln.jit(lambda x: kiln.lax.with_sharding_constraint(x, NamedSharding(mesh, P())))(x)
    assert np.array_equal(inside, host)
    mapped = kiln.shard_map(
        lambda x: kiln.lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()
    )
    assert np.allclose(kiln.jit(mapped)(x), host.reshape(count, 2, 2).sum(0))
    keys = kiln.random.split(kiln.random.key(0), count)
    draws = kiln.jit(
        lambda k: kiln.random.normal(k[0], (count,)), out_shardings=NamedSharding(mesh, P("x"))
    )(keys)
    assert draws.shape == (count,)
    with kiln.debug_nans(True), pytest.raises(NotImplementedError, match="hold parts"):
        x + 1
    with pytest.raises(NotImplementedError, match="there are several"):
        kiln.pmap(lambda x: x)(np.ones((1, 2)))


def check_callbacks() -> None:
    mesh, here = global_mesh(), kiln.process_index()
    host = np.arange(2.0 * kiln.device_count(), dtype=np.float32)
    x = kiln.device_put(host, NamedSharding(mesh, P("x")))
    called: list[Any] = []

    def double(v: Any) -> Any:
        called.append(v.shape)
        return 2 * v

    def fail(v: Any) -> Any:
        raise ValueError("not today")

    struct = kiln.ShapeDtypeStruct(host.shape, np.float32)
    f = kiln.jit(lambda x: (kiln.pure_callback(double, struct, x) + x).sum())
    assert float(f(x)) == 3 * host.sum()
    # In the process of the first device, with the whole array.
    assert called == ([] if here else [host.shape])
    ordered = kiln.jit(lambda x: kiln.debug.callback(called.append, x.sum(), ordered=True))
    for _ in range(2):
        ordered(x)
    kiln.effects_barrier()
    assert len(called) == (0 if here else 3)
    part = kiln.ShapeDtypeStruct((2,), np.float32)
    called.clear()
    each = kiln.shard_map(
        lambda x: kiln.pure_callback(double, part, x), mesh=mesh, in_specs=P("x"), out_specs=P("x")
    )
    assert np.array_equal(kiln.jit(each)(x).addressable_data(0), 2 * x.addressable_data(0))
    assert called == [(2,)] * kiln.local_device_count()
    broken = kiln.jit(lambda x: (kiln.pure_callback(fail, struct, x) + x).sum())
    with pytest.raises(kiln.errors.JaxRuntimeError, match="not today"):
        broken(x)
    nested = kiln.jit(
        lambda x: (kiln.pure_callback(lambda v: np.asarray(v + x_.sum()), struct, x) + x).sum()
    )
    x_ = x
    with pytest.raises(kiln.errors.JaxRuntimeError, match="only this process is in the callback"):
        nested(x)
    assert float(f(x)) == 3 * host.sum()


def check_construction() -> None:
    mesh, count, here = global_mesh(), kiln.device_count(), kiln.process_index()
    local = kiln.local_device_count()
    host = np.arange(6 * count).reshape(2 * count, 3)
    sharding = NamedSharding(mesh, P("x"))
    asked = []
    x = kiln.make_array_from_callback(
        host.shape, sharding, lambda index: asked.append(index) or host[index]
    )
    assert len(asked) == local
    assert np.array_equal(multihost_utils.process_allgather(x, tiled=True), host)
    parts = [kiln.device_put(host[s.index], s.device) for s in x.addressable_shards]
    y = kiln.make_array_from_single_device_arrays(host.shape, sharding, parts)
    assert np.array_equal(multihost_utils.process_allgather(y, tiled=True), host)
    if local > 1:
        with pytest.raises(ValueError, match="Expected 2 per-device arrays"):
            kiln.make_array_from_single_device_arrays(host.shape, sharding, parts[:1])
    mine = host[2 * local * here : 2 * local * (here + 1)]
    for shape in (None, host.shape):
        z = kiln.make_array_from_process_local_data(sharding, mine, shape)
        assert np.array_equal(multihost_utils.process_allgather(z, tiled=True), host)
    z = kiln.make_array_from_process_local_data(sharding, host, host.shape)
    assert np.array_equal(multihost_utils.process_allgather(z, tiled=True), host)
    tree = {"a": mine, "b": mine[:, 0]}
    z = kiln.make_array_from_process_local_data(sharding, tree)
    assert np.array_equal(multihost_utils.process_allgather(z["b"], tiled=True), host[:, 0])
    with pytest.raises(ValueError, match="axis 0 has 1 elements here"):
        kiln.make_array_from_process_local_data(sharding, host[:1], host.shape)
    # Replicated over processes: the same data everywhere.
    assert kiln.make_array_from_process_local_data(
        NamedSharding(mesh, P()), np.arange(3)
    ).tolist() == [0, 1, 2]
    if here < 2 and local > 1:
        with pytest.raises(ValueError, match="give global_shape"):
            kiln.make_array_from_process_local_data(uneven(), np.arange(2))


def uneven() -> NamedSharding:
    """Return a sharding of which process 0 holds more than process 1."""
    devices = [*kiln.local_devices(process_index=0), kiln.local_devices(process_index=1)[0]]
    return NamedSharding(kiln.sharding.Mesh(np.array(devices), "x"), P("x"))


def check_utilities() -> None:
    count, here = kiln.process_count(), kiln.process_index()
    gathered = multihost_utils.process_allgather({"a": np.arange(3) + here, "b": here})
    assert gathered["a"].tolist() == [[i + p for i in range(3)] for p in range(count)]
    assert gathered["b"].tolist() == list(range(count))
    tiled = multihost_utils.process_allgather(np.arange(2) + here, tiled=True)
    assert tiled.tolist() == [i + p for p in range(count) for i in range(2)]
    assert multihost_utils.process_allgather(jnp.float32(here), tiled=True).shape == (count,)
    x = kiln.device_put(np.arange(4.0 * count), NamedSharding(global_mesh(), P("x")))
    with pytest.raises(ValueError, match="only supports tiled=True"):
        multihost_utils.process_allgather(x)
    got = multihost_utils.broadcast_one_to_all((np.array([-0.0, here]), here))
    assert np.signbit(got[0][0])
    assert got[0][1] == got[1] == 0
    assert multihost_utils.broadcast_one_to_all(here, is_source=here == 1) == 1
    with pytest.raises(ValueError, match=r"exactly one process is the source, and .* \[\]"):
        multihost_utils.broadcast_one_to_all(here, is_source=False)
    multihost_utils.sync_global_devices("here")
    with pytest.raises(AssertionError, match="name mismatch"):
        multihost_utils.sync_global_devices(f"here {here}")
    multihost_utils.assert_equal({"a": np.arange(3), "b": x})
    with pytest.raises(AssertionError, match="differs"):
        multihost_utils.assert_equal(np.array([here]), "differs")
    mesh, local = global_mesh(), kiln.local_device_count()
    mine = np.arange(2.0 * local) + 10 * here
    whole = multihost_utils.host_local_array_to_global_array(mine, mesh, P("x"))
    assert whole.shape == (2 * local * count,)
    back = multihost_utils.global_array_to_host_local_array(whole, mesh, P("x"))
    assert back.is_fully_addressable
    assert np.array_equal(back, mine)
    same = multihost_utils.host_local_array_to_global_array(np.arange(3.0), mesh, P())
    assert same.is_fully_replicated
    assert same.shape == (3,)


def check_checkpoints() -> None:
    mesh, count, here = global_mesh(), kiln.device_count(), kiln.process_index()
    folder = Path(os.environ[LAUNCH_FOLDER])
    sharding = NamedSharding(mesh, P("x"))
    host = np.arange(4.0 * count, dtype=np.float32).reshape(2 * count, 2)
    keys = kiln.device_put(kiln.random.split(kiln.random.key(0), count), sharding)
    tree = {
        "sharded": kiln.device_put(host, sharding),
        "whole": kiln.device_put(host, NamedSharding(mesh, P())),
        "host": host[0],
        "local": jnp.arange(3),
        "keys": keys,
        "step": 7,
    }
    for attempt in range(2):
        saving = kiln.checkpoints.save(
            folder / "one", {**tree, "step": 7 + attempt}, wait=attempt == 0, metadata="m"
        )
    saving.wait()
    files = sorted(path.name.split("-")[0] for path in (folder / "one").iterdir())
    assert files == ["data"] * kiln.process_count() + ["index.json"]
    back = kiln.checkpoints.restore(folder / "one")
    assert back["step"] == 8
    assert back["sharded"].sharding == sharding
    assert not back["local"].committed
    for name in ("sharded", "keys"):
        same = kiln.random.key_data if name == "keys" else lambda x: x
        for was, now in zip(
            same(tree[name]).addressable_shards, same(back[name]).addressable_shards, strict=True
        ):
            assert np.array_equal(was.data, now.data)
    assert np.array_equal(back["whole"], host)
    assert np.array_equal(back["host"], host[0])
    assert np.array_equal(back["local"], np.arange(3))
    local = kiln.make_mesh((kiln.local_device_count(),), ("y",), devices=kiln.local_devices())
    alone = NamedSharding(local, P("y"))
    with kiln.checkpoints.Checkpoint(folder / "one") as checkpoint:
        assert np.array_equal(checkpoint.read("sharded", alone), host)
        checkpoint.verify()
    # Of the files of others only what this process needs.
    with kiln.checkpoints.Checkpoint(folder / "one") as checkpoint:
        mine = checkpoint.read("sharded", sharding)
        assert np.array_equal(mine.addressable_data(0), tree["sharded"].addressable_data(0))
        assert [name.split("-")[1] for name in checkpoint._files.tables] == [str(here)]
    run = kiln.checkpoints.Checkpoints(folder / "run", keep=2)
    for step in range(3):
        run.save(step, {"x": tree["sharded"]})
    # Process 0 removes the first one after all have saved the last.
    multihost_utils.sync_global_devices("removed")
    assert run.steps() == [1, 2]
    kiln.checkpoints.save(folder / "f.npz", {"w": host})
    assert np.array_equal(np.load(folder / "f.npz")["w"], host)
    # A failure of one is a failure of all, and what was there is as it was.
    with pytest.raises(CheckpointError, match="differ: only 0 in process 0, only 1 in process 1"):
        kiln.checkpoints.save(folder / "one", {"x": 1, f"only {here}": 2})
    wider = kiln.device_put(np.concatenate([host, host], axis=1), sharding)
    with pytest.raises(
        CheckpointError, match=r"0 and 1 differ: x: float32\[.*, 2\] in blocks .*4\]"
    ):
        kiln.checkpoints.save(folder / "one", {"x": wider if here else tree["sharded"], "y": 1})
    with pytest.raises(CheckpointError, match="differ: last in process 0, no leaf in process 1"):
        leaves = dict.fromkeys("abc", 0) | ({} if here else {"last": 1})
        kiln.checkpoints.save(folder / "one", leaves)
    with pytest.raises(CheckpointError, match=r"process 0 saves to .*new, process 1 to .*new1"):
        kiln.checkpoints.save(folder / (f"new{here}" if here else "new"), {"x": 1})
    assert kiln.checkpoints.restore(folder / "one")["step"] == 8
    assert not (folder / "new").exists()


CHECKS = (
    check_devices,
    check_local_programs,
    check_shardings,
    check_arrays,
    check_programs,
    check_callbacks,
    check_construction,
    check_utilities,
    check_checkpoints,
)
