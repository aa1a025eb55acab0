"""Blocks of memory are aligned, used again, bounded, and given back."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import _runtime


@pytest.fixture(autouse=True)
def _limit() -> Iterator[None]:
    limit = _runtime.memory_statistics()["limit"]
    yield
    _runtime.limit_memory(limit)


def address(memory: _runtime.MemoryBlock) -> int:
    return int(np.frombuffer(memory, np.uint8).__array_interface__["data"][0])


@pytest.mark.parametrize(
    "size", [1, 63, 64, 65, 100, 127, 128, 129, 1000, 4096, 2**20 + 1, 2**21, 2**21 + 5, 2**24]
)
def test_blocks_are_aligned_and_large_enough(size: int) -> None:
    memory = _runtime.allocate(size)
    view = np.frombuffer(memory, np.uint8)
    assert view.nbytes == size
    assert address(memory) % 64 == 0
    view[:] = 7
    assert int(view.astype(np.int64).sum()) == 7 * size


def test_an_empty_block() -> None:
    assert memoryview(_runtime.allocate(0)).nbytes == 0
    with pytest.raises(ValueError, match="at least 0"):
        _runtime.allocate(-1)
    with pytest.raises(MemoryError, match="RESOURCE_EXHAUSTED"):
        _runtime.allocate(2**62)


def test_a_block_nobody_holds_is_used_again() -> None:
    _runtime.release_memory()
    before = _runtime.memory_statistics()
    memory = _runtime.allocate(1000)
    place = address(memory)
    del memory
    again = _runtime.allocate(990)
    assert address(again) == place
    after = _runtime.memory_statistics()
    assert after["reused"] == before["reused"] + 1
    assert after["allocations"] == before["allocations"] + 2


def test_a_block_somebody_looks_at_is_not() -> None:
    memory = _runtime.allocate(64)
    view = np.frombuffer(memory, np.uint8)
    place = address(memory)
    del memory
    others = [_runtime.allocate(64) for _ in range(10)]
    assert place not in [address(m) for m in others]
    view[:] = 3
    assert all(place != address(m) for m in others)


def test_what_is_kept_is_bounded_and_given_back() -> None:
    _runtime.release_memory()
    _runtime.limit_memory(1 << 20)
    blocks = [_runtime.allocate(1 << 18) for _ in range(10)]
    del blocks
    assert 0 < _runtime.memory_statistics()["cached"] <= 1 << 20
    kiln.clear_caches()
    gc.collect()
    assert _runtime.memory_statistics()["cached"] <= 1 << 16


def test_arrays_give_their_memory_back() -> None:
    gc.collect()
    before = _runtime.memory_statistics()["in_use"]
    x = jnp.arange(1000.0)
    y = x + x
    view = np.asarray(y)
    assert _runtime.memory_statistics()["in_use"] > before
    del y
    assert view[3] == 6.0
    del view, x
    gc.collect()
    assert _runtime.memory_statistics()["in_use"] == before
