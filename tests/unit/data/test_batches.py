"""Batches of one process: where they are, positions, errors, the thread that reads."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
from kiln import checkpoints
from kiln.data import Batches
from kiln.sharding import NamedSharding
from kiln.sharding import PartitionSpec as P

MESH = kiln.make_mesh((4,), ("d",), devices=kiln.devices()[:4])
BY_ROWS = NamedSharding(MESH, P("d"))
SOURCE = [{"x": np.full((8, 2), i, np.float32), "y": np.arange(8) + i} for i in range(5)]


def sums(batches: Any) -> list[float]:
    return [float(batch["x"].sum()) for batch in batches]


def reading() -> bool:
    return any(thread.name == "kiln batches" for thread in threading.enumerate())


def until(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        gc.collect()
        time.sleep(0.005)


def test_batches_are_sharded() -> None:
    batches = Batches(SOURCE, BY_ROWS)
    first = next(batches)
    assert first["x"].sharding == BY_ROWS
    assert first["y"].dtype == np.int32
    assert (len(batches), sums(batches), len(batches)) == (4, [16, 32, 48, 64], 0)
    assert list(batches) == []


def test_shardings_are_a_prefix_and_may_name_axes_of_the_mesh() -> None:
    with kiln.set_mesh(MESH):
        batch = next(Batches(SOURCE, {"x": P("d"), "y": P()}))
    assert (batch["x"].sharding.spec, batch["y"].sharding.spec) == (P("d"), P())


def test_options_are_those_of_the_thread() -> None:
    with kiln.enable_x64(True):
        batches = Batches(SOURCE, BY_ROWS)
    assert next(batches)["y"].dtype == np.int64


def test_a_position_in_a_checkpoint(tmp_path: Path) -> None:
    batches = Batches(SOURCE, BY_ROWS, prefetch=4)
    next(batches), next(batches)
    # Of the batches that were taken, not of those that were read.
    state = batches.get_state()
    assert state == {"batches": 2, "examples": 16, "processes": 1, "source": ""}
    checkpoints.save(tmp_path / "c", {"data": state})
    found = checkpoints.restore(tmp_path / "c")["data"]
    again = Batches(SOURCE, BY_ROWS, state=found)
    assert (len(again), sums(again)) == (3, [32, 48, 64])
    assert again.get_state()["batches"] == 5

    def source(taken: int) -> Iterator[Any]:
        yield from SOURCE[taken // 8 :]

    assert sums(Batches(source, BY_ROWS, state=found)) == [32, 48, 64]
    # A position at the end, or past it.
    assert sums(Batches(SOURCE[:2], BY_ROWS, state=found)) == []
    assert sums(Batches(SOURCE[:1], BY_ROWS, state=found)) == []


def test_a_position_of_other_numbers_of_processes() -> None:
    # There were two processes, with twelve examples together.
    position = {"batches": 1, "examples": 12, "processes": 2, "source": ""}
    halves = [{"x": np.full((4, 1), i, np.float32)} for i in range(6)]
    assert sums(Batches(halves, BY_ROWS, state=position)) == [12, 16, 20]
    with pytest.raises(ValueError, match="12 examples were taken, and batches of 1 processes end"):
        next(Batches(SOURCE, BY_ROWS, state=position))


def test_uneven_batches() -> None:
    source = [np.ones(8), np.ones(8), np.ones(6)]
    batches = Batches(source, BY_ROWS)
    next(batches), next(batches)
    with pytest.raises(ValueError, match=r"batch 2 has 6 rows, .* divide evenly; 8 can") as caught:
        next(batches)
    assert f"{Path(__file__).name}:" in str(caught.value)
    assert [x.shape for x in Batches(source, BY_ROWS, uneven="drop")] == [(8,), (8,)]
    *_, (x, mask) = Batches(source, BY_ROWS, uneven="pad")
    assert (x.sum(), mask.sum(), mask.sharding.spec) == (6, 6, P("d"))


def test_errors_of_the_source_are_raised_with_its_line() -> None:
    def source() -> Iterator[Any]:
        yield np.ones(8)
        raise KeyError("a file")

    batches = Batches(source(), BY_ROWS)
    next(batches)
    with pytest.raises(KeyError, match="a file") as caught:
        next(batches)
    files = [(entry.name, entry.path.name) for entry in caught.traceback]  # type: ignore[union-attr]
    assert files[-1] == ("source", Path(__file__).name)
    assert "batch 1 of Batches at" in caught.value.__notes__[0]
    assert list(batches) == []
    until(lambda: not reading())


def test_the_thread_ends_with_the_iterator() -> None:
    closed: list[bool] = []

    def source() -> Iterator[Any]:
        try:
            while True:
                yield np.ones(8)
        finally:
            closed.append(True)

    for _ in Batches(source(), BY_ROWS):
        break
    until(lambda: closed and not reading())
    with Batches(source(), BY_ROWS) as batches:
        next(batches)
    assert list(batches) == []
    until(lambda: len(closed) == 2 and not reading())


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="at least one batch is read ahead"):
        Batches(SOURCE, BY_ROWS, prefetch=0)
    with pytest.raises(ValueError, match="uneven is one of"):
        Batches(SOURCE, BY_ROWS, uneven="mend")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the source has no length"):
        len(Batches(iter(SOURCE), BY_ROWS))


def test_a_bar() -> None:
    batches = Batches(SOURCE, BY_ROWS)
    assert sums(kiln.debug.track(batches, "training")) == [0, 16, 32, 48, 64]
