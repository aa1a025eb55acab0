"""Arrays brought to devices: from arrays, and from host memory without a copy on the way."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import sharding
from kiln.core.arrays.placement import adopted_shards, placed, shards_on_host, spread
from kiln.core.engines.engine import default_engine
from kiln.execution.compilation import as_array
from kiln.ir.types import ShapedArray

P = sharding.PartitionSpec
VALUES = np.arange(16, dtype=np.float32).reshape(8, 2)


def over(*spec: str | None) -> sharding.NamedSharding:
    return sharding.NamedSharding(sharding.make_mesh((4, 2), ("a", "b")), P(*spec))


@pytest.mark.parametrize("spec", [("a",), ("a", "b"), (), (None, "b"), (("a", "b"),)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_host_data_over_devices_are_a_copy(spec: tuple[str, ...], order: str) -> None:
    value = np.array(VALUES, order=order)  # type: ignore[call-overload]
    memory = default_engine().memory
    found = spread(value, memory, over(*spec))
    assert found is not None
    same = placed(as_array(VALUES), memory, over(*spec))
    value[:] = -1
    np.testing.assert_array_equal(found, VALUES)
    assert found.committed
    assert found.sharding == same.sharding
    places: dict[int, set[object]] = {}
    for mine, theirs in zip(found.addressable_shards, same.addressable_shards, strict=True):
        assert mine.index == theirs.index
        np.testing.assert_array_equal(mine.data, theirs.data)
        at = mine.data.unsafe_buffer_pointer()
        places.setdefault(at, set()).add(str(mine.index))
    # Devices with the same part have it in the same memory, others do not.
    assert all(len(parts) == 1 for parts in places.values())


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "float16", "bfloat16", "float8_e4m3fn", "int4", "complex64"]
)
@pytest.mark.parametrize("rows", [0, 8, 4096])
def test_dtypes_over_devices(dtype: str, rows: int) -> None:
    value = (np.arange(rows * 8) % 7).reshape(rows, 8).astype(jnp.dtype(dtype))
    for spec in ((), ("a",), ("b",), (None, "b"), ("b", "a")):
        found = kiln.device_put(value, over(*spec))
        assert found.dtype == value.dtype
        for shard in found.addressable_shards:
            np.testing.assert_array_equal(np.asarray(shard.data), value[shard.index])


@pytest.mark.parametrize("spec", [("a",), ("a", "b"), (), (None, "b")])
@pytest.mark.parametrize("rows", [8, 1024])
def test_memory_that_devices_share_is_not_written_when_it_is_donated(
    spec: tuple[str, ...], rows: int
) -> None:
    place = over(*spec)
    change = kiln.jit(
        lambda x: kiln.lax.fori_loop(0, 3, lambda i, x: x * 2 + i, x),
        donate_argnums=0,
        in_shardings=place,
        out_shardings=place,
    )
    write = kiln.jit(
        lambda x: x.at[:2].add(1.0), donate_argnums=0, in_shardings=place, out_shardings=place
    )
    value = np.arange(rows * 16, dtype=np.float32).reshape(rows, 16)
    for function, wanted in (
        (change, ((value * 2) * 2 + 1) * 2 + 2),
        (write, np.concatenate([value[:2] + 1, value[2:]])),
    ):
        for _ in range(5):
            x = kiln.device_put(value, place)
            given = {shard.data.unsafe_buffer_pointer() for shard in x.addressable_shards}
            y = function(x)
            assert x.is_deleted()
            for shard in y.addressable_shards:
                np.testing.assert_array_equal(shard.data, wanted[shard.index])
            made = {shard.data.unsafe_buffer_pointer() for shard in y.addressable_shards}
            assert len(made) == 8
            assert len(given) == 8 or not made & given


def test_what_it_does_not_take() -> None:
    memory = default_engine().memory
    for value in (
        np.arange(8.0),
        np.array(["text"] * 8),
        np.arange(7, dtype=np.float32),
        np.ma.masked_array(VALUES),
        3.0,
    ):
        assert spread(value, memory, over("a")) is None  # type: ignore[arg-type]
    assert kiln.device_put(np.arange(8.0), over("a")).dtype == np.float32
    with pytest.raises(ValueError, match="not divisible"):
        kiln.device_put(np.arange(7, dtype=np.float32), over("a"))


@pytest.mark.parametrize("spec", [("a",), ("a", "b"), (), (None, "b")])
def test_shards_are_read_and_adopted_again(spec: tuple[str, ...]) -> None:
    x = kiln.device_put(VALUES, over(*spec))
    shards = [shard.data for shard in x.addressable_shards]
    views = shards_on_host(x, [5, 0, 7])
    for view, number in zip(views, (5, 0, 7), strict=True):
        np.testing.assert_array_equal(view, shards[number])
        assert not view.flags.writeable
    assert shards_on_host(x, []) == ()
    pieces: dict[str, np.ndarray] = {}
    for shard in x.addressable_shards:
        # Copies are the same object, which devices may not share if they change it.
        pieces.setdefault(str(shard.index), np.array(shard.data))
    parts = [pieces[str(shard.index)] for shard in x.addressable_shards]
    aval = ShapedArray(VALUES.shape, np.dtype(np.float32))
    found = adopted_shards(aval, over(*spec), parts)
    assert found.sharding == x.sharding
    assert found.committed
    np.testing.assert_array_equal(found, VALUES)
    step = kiln.jit(lambda x: x.at[:].add(1.0), donate_argnums=0)
    np.testing.assert_array_equal(step(step(found)), VALUES + 2)
    for part, shard in zip(parts, x.addressable_shards, strict=True):
        np.testing.assert_array_equal(part, shard.data)


def test_views_of_shards_outlive_a_donation() -> None:
    x = kiln.device_put(VALUES, over("a"))
    views = shards_on_host(x, range(8))
    kiln.jit(lambda x: x * 0, donate_argnums=0)(x)
    np.testing.assert_array_equal(np.concatenate(views[::2]), VALUES)
    y = kiln.device_put(VALUES, over("a"))
    y.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        shards_on_host(y, [0])
