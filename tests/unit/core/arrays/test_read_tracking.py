"""What counts as a read of an array."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.core.arrays.read_tracking import tracking_reads


@pytest.mark.parametrize(
    "read",
    [
        lambda x: np.asarray(x),
        lambda x: bool(x[0]),
        lambda x: x.tolist(),
        lambda x: x.sharding,
        lambda x: x.devices(),
        lambda x: x.device,
        lambda x: x.committed,
        lambda x: x.is_fully_replicated,
    ],
)
@pytest.mark.parametrize("placed", [False, True])
def test_reads_of_values_and_placement_are_tracked(read, placed) -> None:
    x = jnp.ones(3)
    if placed:
        x = kiln.device_put(x, kiln.devices()[1])
    with tracking_reads([x]) as tracker:
        assert x.shape == (3,) and x.dtype == jnp.float32
        read(jnp.zeros(3))
        assert not tracker.was_read
        read(x)
        assert tracker.was_read


def test_fresh_functions_that_read_placement_are_traced_again() -> None:
    def make(w):
        return lambda x: x + len(w.devices())

    rows = kiln.sharding.NamedSharding(kiln.sharding.make_mesh((8,), ("x",)), kiln.sharding.P("x"))
    one, eight = jnp.ones(8), kiln.device_put(jnp.ones(8), rows)
    assert float(kiln.jit(make(one))(1.0)) == 2.0
    assert float(kiln.jit(make(eight))(1.0)) == 9.0
    assert float(kiln.jit(make(one))(1.0)) == 2.0


def test_fresh_functions_that_call_placed_ones_are_traced_again() -> None:
    def make(device):
        inner = kiln.jit(lambda x: x + 1, device=device)
        return lambda x: inner(x)

    for device in kiln.devices()[:2]:
        f = kiln.jit(make(device))
        np.testing.assert_array_equal(f(jnp.ones(3)), 2 * np.ones(3))


def test_fresh_functions_over_placed_arrays_share_a_trace() -> None:
    traced = []

    def make(w):
        return lambda x: x * w + 3

    for device in kiln.devices()[:3]:
        f = kiln.jit(make(kiln.device_put(jnp.full(3, 2.0), device)))
        y = f(jnp.ones(3))
        traced.append(f.cache_info().traces)
        assert y.devices() == {device}
        np.testing.assert_array_equal(y, [5, 5, 5])
    assert traced == [1, 0, 0]
