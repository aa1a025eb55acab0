"""Donated operands of compiled functions: their memory is reused if nobody else looks at it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import _runtime
from kiln.base.options.config import override
from kiln.core.arrays.array import PlacedArray
from kiln.ir.shardings.sharding import SingleDeviceSharding
from tests.unit._runtime.native import native_code

SIZE = 24
SOURCE = """
#define SIZE 24
ENTRY(bump) { for (int i = 0; i < SIZE; ++i) OUT(float, 0)[i] = IN(float, 0)[i] + 1; return 0; }
ENTRY(add) {
  for (int i = 0; i < SIZE; ++i) OUT(float, 0)[i] = IN(float, 0)[i] + IN(float, 1)[i];
  return 0;
}
ENTRY(both) { for (int i = 0; i < SIZE; ++i) OUT(float, 1)[i] = IN(float, 0)[i] + 1; return 0; }
ENTRY(nothing) { return 0; }
ENTRY(fails) { return 3; }
"""
WIDE = np.zeros(SIZE, np.float32)


class Donation:
    """What asks for errors and warnings of donated arguments."""

    def warn_of_unusable(self, args: Sequence[Any]) -> None:
        """Warn of nothing."""

    def refuse_second_use(self, args: Sequence[Any]) -> None:
        """Refuse an argument that is passed twice."""
        raise RuntimeError("donated and used twice")


def placed(
    name: str, ins: int, outs: int, donated: tuple[int, ...], device: Any = None, **options: Any
) -> Callable[[Sequence[Any]], list[Any]]:
    program = native_code.program(SOURCE, name, [WIDE] * ins, [WIDE] * outs, **options)
    sharding = None if device is None else SingleDeviceSharding(device)
    return _runtime.PlacedProgram(
        program,
        sharding and (sharding,) * ins,
        sharding and (sharding,) * outs,
        sharding is not None,
        donated,
        donated,
        Donation(),
    )


def fresh(value: float = 1.0) -> Any:
    """Return an array in memory of kiln's, which no view was made of."""
    return native_code.program(SOURCE, "bump", [WIDE], [WIDE])([WIDE + np.float32(value - 1)])[0]


def address(x: Any) -> int:
    return int(np.asarray(x).ctypes.data)


@pytest.fixture
def bump() -> Callable[[Sequence[Any]], list[Any]]:
    return placed("bump", 1, 1, (0,), reused=[(0, 0)])


def test_donated_memory_is_reused(bump: Any) -> None:
    x = fresh()
    for _ in range(3):
        where = address(x)
        (y,) = bump([x])
        assert x.is_deleted() and address(y) == where
        x = y
    assert x.tolist() == [4] * SIZE
    with pytest.raises(RuntimeError, match="deleted"):
        bump([y]) and bump([y])


@pytest.mark.parametrize(
    "look",
    [
        np.asarray,
        lambda x: np.asarray(x)[3:],
        lambda x: memoryview(x),
        lambda x: np.from_dlpack(x),
        lambda x: x.__dlpack__(),
        lambda x: jnp.from_dlpack(np.asarray(x)),
        lambda x: x.reshape(2, -1),
        lambda x: placed("nothing", 1, 1, (), shared=[(0, 0)])([x])[0],
        lambda x: x[2:],
    ],
)
def test_memory_that_is_looked_at_is_not_written(bump: Any, look: Callable[[Any], Any]) -> None:
    x = fresh(7)
    seen = look(x)
    (y,) = bump([x])
    assert x.is_deleted() and y.tolist() == [8] * SIZE
    if not hasattr(seen, "shape"):
        seen = memoryview(seen) if isinstance(seen, memoryview) else np.from_dlpack(Capsule(seen))
    np.testing.assert_array_equal(np.asarray(seen), np.full(np.shape(seen), 7, np.float32))


class Capsule:
    """Memory given away once."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        """Return the capsule."""
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the host."""
        return (1, 0)


def test_arrays_that_are_not_donated_stay(bump: Any) -> None:
    x = fresh()
    (y,) = native_code.program(SOURCE, "bump", [WIDE], [WIDE], reused=[(0, 0)])([x])
    assert (x.tolist(), y.tolist()) == ([1] * SIZE, [2] * SIZE)
    # Nor is what a user owns written.
    mine = WIDE.copy()
    assert bump([mine])[0].tolist() == [1] * SIZE and not mine.any()
    given = jnp.asarray(mine)
    assert bump([given])[0].tolist() == [1] * SIZE and given.is_deleted() and not mine.any()


def test_an_operand_that_is_shared_too() -> None:
    both = placed("both", 1, 2, (0,), shared=[(0, 0)], reused=[(1, 0)])
    x = fresh()
    same, more = both([x])
    assert (same.tolist(), more.tolist(), x.is_deleted()) == ([1] * SIZE, [2] * SIZE, True)


def test_second_use_is_refused() -> None:
    add = placed("add", 2, 1, (0,), reused=[(0, 0)])
    x = fresh()
    with pytest.raises(RuntimeError, match="twice"):
        add([x, x])
    (same,) = placed("nothing", 1, 1, (), shared=[(0, 0)])([x])
    assert add([x, same])[0].tolist() == [2] * SIZE and same.tolist() == [1] * SIZE


def test_results_are_placed() -> None:
    device = kiln.devices()[0]
    bump = placed("bump", 1, 1, (0,), device, reused=[(0, 0)])
    (x,) = bump([fresh()])
    assert type(x) is PlacedArray and x.committed and x.devices() == {device}
    where = address(x)
    (y,) = bump([x])
    assert x.is_deleted() and address(y) == where and y.tolist() == [3] * SIZE
    moved = kiln.device_put(fresh(), device)
    assert bump([moved])[0].tolist() == [2] * SIZE and moved.is_deleted()
    assert float(kiln.jit(lambda x: x.sum())(y)) == 3 * SIZE


def test_a_failed_call_takes_what_it_was_given() -> None:
    fails = placed("fails", 1, 1, (0,), reused=[(0, 0)])
    x = fresh()
    with pytest.raises(RuntimeError, match="status 3"):
        fails([x])
    assert x.is_deleted()


class Mix:
    """Random operations on arrays, each held with the values it must keep."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.bump = placed("bump", 1, 1, (0,), reused=[(0, 0)])
        self.keep = placed("bump", 1, 1, (), reused=[(0, 0)])
        self.same = placed("nothing", 1, 1, (), shared=[(0, 0)])
        self.gone = placed("nothing", 1, 1, (0,), shared=[(0, 0)])
        self.both = placed("both", 1, 2, (0,), shared=[(0, 0)], reused=[(1, 0)])
        self.add = placed("add", 2, 1, (0,), reused=[(0, 0)])
        self.jitted = kiln.jit(lambda x: x + 1)
        self.jitted_donated = kiln.jit(lambda x: x + 1, donate_argnums=0)
        self.arrays: list[tuple[Any, np.ndarray]] = []
        self.views: list[tuple[Any, np.ndarray]] = []

    def put(self, x: Any, value: np.ndarray) -> None:
        self.arrays.append((x, np.array(value, np.float32)))

    def see(self, view: Any, value: np.ndarray) -> None:
        self.views.append((view, np.array(value, np.float32)))

    def step(self) -> None:
        with override(engine=self.rng.choice(["xla", "native"])):
            self.operation()

    def operation(self) -> None:
        rng = self.rng
        if len(self.arrays) < 2 or rng.random() < 0.1:
            start = np.float32(rng.randrange(100))
            self.put(fresh(start) if rng.random() < 0.7 else jnp.full(SIZE, start), WIDE + start)
            return
        i = rng.randrange(len(self.arrays))
        x, value = self.arrays[i]
        what = rng.randrange(16)
        if what <= 6:
            run: Any = (
                self.bump, self.bump, self.gone, self.jitted_donated, self.both, self.add, self.bump
            )[what]  # fmt: skip
            if run is self.add:
                j = rng.choice([k for k in range(len(self.arrays)) if k != i])
                other, more = self.arrays[j]
                outs, values = run([x, other]), [value + more]
            elif run is self.jitted_donated:
                outs, values = [run(x)], [value + 1]
            else:
                outs = run([x])
                values = {self.gone: [value], self.both: [value, value + 1]}.get(run, [value + 1])
            assert x.is_deleted()
            self.arrays.pop(i)
            for out, expected in zip(outs, values, strict=True):
                self.put(out, expected)
        elif what == 7:
            self.put(self.keep([x])[0], value + 1)
        elif what == 8:
            self.put(self.same([x])[0], value)
        elif what == 9:
            self.put(self.jitted(x), value + 1)
        elif what == 10:
            self.see(x.reshape(2, -1), value.reshape(2, -1))
        elif what == 11:
            self.see(np.asarray(x), value)
        elif what == 12:
            self.see(np.asarray(x)[::2], value[::2])
        elif what == 13:
            self.see(np.from_dlpack(x), value)
        elif what == 14:
            self.put(jnp.from_dlpack(np.asarray(x)), value)
        elif self.views:
            self.views.pop(rng.randrange(len(self.views)))
        if len(self.arrays) > 8:
            self.arrays.pop(rng.randrange(len(self.arrays)))

    def check(self) -> None:
        for held, value in [*self.arrays, *self.views]:
            np.testing.assert_array_equal(np.array(held), value)


def _run(seed: int, steps: int) -> None:
    mix = Mix(seed)
    for _ in range(steps):
        mix.step()
        # A look leaves a view behind; memory without one is reused in another way.
        if mix.rng.random() < 0.4:
            mix.check()
    mix.check()


@pytest.mark.parametrize("seed", range(4))
def test_no_array_that_is_held_changes(seed: int) -> None:
    _run(seed, 150)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4, 64))
def test_no_array_that_is_held_changes_at_length(seed: int) -> None:
    _run(seed, 1000)


def test_threads_that_read_and_donate() -> None:
    """A reader sees the values that the array had, or that it was deleted, never others."""
    bump = placed("bump", 1, 1, (0,), reused=[(0, 0)], is_long=True)
    keep = placed("bump", 1, 1, (), is_long=True)
    turns, current, wrong = 400, [fresh(0)], list[Any]()
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            x = current[0]
            try:
                view, (more,) = np.asarray(x), keep([x])
            except RuntimeError:
                continue
            value = view.copy()
            if len(set(value.tolist())) != 1 or more.tolist() != (value + 1).tolist():
                wrong.append((value, more))

    readers = [threading.Thread(target=read) for _ in range(3)]
    for thread in readers:
        thread.start()
    try:
        for _ in range(turns):
            current[0] = bump([current[0]])[0]
    finally:
        over.set()
        for thread in readers:
            thread.join()
    assert not wrong and current[0].tolist() == [turns] * SIZE
