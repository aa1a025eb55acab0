"""Batches read by each of several processes: what arrives, and what uneven sources do.

`python -m kiln launch -n 2 -m tests.processes.feeding` runs checks;
`... -m tests.processes.feeding train FOLDER KIND STOP` sums up examples and stops after a step.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
from kiln.checkpoints import Checkpoints
from kiln.data import Batches
from kiln.errors import PeerError
from kiln.sharding import NamedSharding
from kiln.sharding import PartitionSpec as P

BATCH, STEPS = 24, 8


def sharding() -> NamedSharding:
    return NamedSharding(kiln.make_mesh((kiln.device_count(),), ("d",)), P("d"))


def numbered(first: int = 0, last: int = BATCH * STEPS) -> Iterator[dict[str, np.ndarray]]:
    """Yield this process's part of consecutive numbers."""
    count, here = kiln.process_count(), kiln.process_index()
    own = BATCH // count
    for begin in range(first, last, BATCH):
        yield {"x": np.arange(begin + here * own, begin + (here + 1) * own, dtype=np.float32)}


total = kiln.jit(lambda x: x.sum())


def check_batches_are_those_of_all_processes() -> None:
    found = []
    for batch in Batches(numbered, sharding()):
        assert batch["x"].shape == (BATCH,)
        found.append(float(total(batch["x"])))
    whole = np.arange(BATCH * STEPS, dtype=np.float32).reshape(STEPS, BATCH)
    assert found == whole.sum(1).tolist()


def uneven(kind: str) -> list[np.ndarray]:
    """Return batches of which process 1 has fewer: or rows, in the last one."""
    own = [np.full(4 * len(kiln.local_devices()), float(i), np.float32) for i in range(4)]
    if kiln.process_index() == 1:
        return own[:3] if kind == "batches" else [*own[:3], own[3][:-1]]
    return own


def check_uneven_batches_are_errors() -> None:
    for kind, wrong in [
        ("batches", r"process 1 has no batch 3, and process(es)? 0"),
        ("rows", r"batch 3 has \d+ rows in process 0, \d+ rows in process 1"),
    ]:
        batches = Batches(uneven(kind), sharding())
        found = [float(total(next(batches))) for _ in range(3)]
        assert found == [0, 4 * kiln.device_count(), 8 * kiln.device_count()]
        with pytest.raises(ValueError, match=wrong) as caught:
            next(batches)
        assert "feeding.py" in str(caught.value).splitlines()[0]
        assert list(batches) == []


def check_uneven_batches_are_dropped() -> None:
    for kind in ("batches", "rows"):
        assert len(list(Batches(uneven(kind), sharding(), uneven="drop"))) == 3


def check_uneven_batches_are_padded() -> None:
    rows = 4 * kiln.device_count()
    for kind, missing in (("batches", 4 * len(kiln.local_devices())), ("rows", 1)):
        items = list(Batches(uneven(kind), sharding(), uneven="pad"))
        assert [x.shape for x, _ in items] == [(rows,)] * 4
        masks = [float(total(mask)) for _, mask in items]
        assert masks == [rows, rows, rows, rows - missing]
        assert float(total(items[3][0])) == 3 * (rows - missing)


def check_a_source_that_fails() -> None:
    def source() -> Iterator[np.ndarray]:
        yield np.ones(4 * len(kiln.local_devices()))
        if kiln.process_index() == 1:
            raise KeyError("a file")
        yield np.ones(4 * len(kiln.local_devices()))

    batches = Batches(source(), sharding())
    next(batches)
    if kiln.process_index() == 1:
        with pytest.raises(KeyError, match="a file") as caught:
            next(batches)
        assert "batch 1 of Batches at" in caught.value.__notes__[0]
    else:
        with pytest.raises(PeerError, match="source of process 1 has raised KeyError: 'a file'"):
            next(batches)


def check_leaves_that_differ() -> None:
    name = "x" if kiln.process_index() else "y"
    batches = Batches([{name: np.ones(4 * len(kiln.local_devices()))}], sharding())
    with pytest.raises(ValueError, match=r"\{y: float64\[rows\]\} in process 0; \{x: "):
        next(batches)


def check_one_that_takes_fewer() -> None:
    batches = Batches(numbered, sharding())
    next(batches)
    if kiln.process_index() == 1:
        batches.close()
    else:
        with pytest.raises(PeerError, match="process 1 has closed the iterator before batch"):
            for _ in batches:
                pass


class Counting:
    """An iterator with a state, which differs between the processes."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Counting:
        return self

    def __next__(self) -> np.ndarray:
        self.at += 1
        return np.full(2 * len(kiln.local_devices()), float(self.at), np.float32)

    def get_state(self) -> dict[str, int]:
        return {"at": self.at, "process": kiln.process_index()}

    def set_state(self, state: dict[str, int]) -> None:
        assert state["process"] == kiln.process_index()
        self.at = state["at"]


def check_states_of_sources() -> None:
    batches = Batches(Counting(), sharding())
    before = [float(total(next(batches))) for _ in range(3)]
    state = batches.get_state()
    after = [float(total(next(batches))) for _ in range(3)]
    rows = 2 * kiln.device_count()
    assert (before, after) == ([rows, 2 * rows, 3 * rows], [4 * rows, 5 * rows, 6 * rows])
    assert (state["batches"], state["examples"]) == (3, 3 * rows)
    again = Batches(Counting(), sharding(), state=state)
    assert [float(total(next(again))) for _ in range(3)] == after
    assert again.get_state()["batches"] == 6


def check_threads_end() -> None:
    end = time.monotonic() + 20
    while any(thread.name == "kiln batches" for thread in _threads()):
        assert time.monotonic() < end
        time.sleep(0.02)


def _threads() -> list[Any]:
    return list(sys.modules["threading"].enumerate())


CHECKS = [check for name, check in list(globals().items()) if name.startswith("check_")]


def train(folder: str, kind: str, stop: str) -> None:
    """Sum up the numbers of each batch, and write the sums; kill a process after a step."""
    saved = Checkpoints(folder, keep=2)
    found: list[float] = []
    state = None
    if saved.latest() is not None:
        restored = saved.restore()
        found, state = restored["sums"].tolist(), restored["data"]
    source: Any = numbered if kind == "function" else list(numbered())
    batches = Batches(source, sharding(), state=state)
    for batch in batches:
        found.append(float(total(batch["x"])))
        saved.save(len(found), {"sums": np.array(found), "data": batches.get_state()})
        if len(found) == int(stop) and kiln.process_index() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    if kiln.process_index() == 0:
        Path(folder, "sums").write_text(" ".join(map(str, found)), encoding="utf-8")


def main(*words: str) -> None:
    kiln.distributed.initialize()
    if words:
        train(*words[1:])
        return
    for check in CHECKS:
        check()
        print(check.__name__, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
