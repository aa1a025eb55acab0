"""Executables that enqueue, and the memory their operands are written to at each call."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import _runtime
from kiln.core.engines.engine import engine


class Result:
    """A result of a program that may still be under way."""

    def __init__(self, value: np.ndarray, ready: bool) -> None:
        self.value = value
        self.ready = ready

    def is_ready(self) -> bool:
        return self.ready


class Executable:
    """Adds its operands up; it remembers the buffers it was given."""

    def __init__(self, ready: bool = True) -> None:
        self.ready = ready
        self.seen: list[list[Any]] = []
        self.inside: Any = None

    def __call__(self, buffers: list[Any]) -> Executable:
        self.seen.append(list(buffers))
        if self.inside is not None:
            self.inside()
        self.sum = buffers[0] + buffers[1]
        return self

    def consume_with_handlers(self, handlers: list[Any]) -> list[Result]:
        return [Result(self.sum, self.ready)]


class Memory:
    """A memory whose buffers are NumPy arrays; those it copied itself are counted."""

    buffers_are_ndarrays = False

    def __init__(self) -> None:
        self.puts = 0

    def put(self, value: np.ndarray, sharding: Any = None) -> np.ndarray:
        self.puts += 1
        return np.array(value)

    def adopt(self, value: np.ndarray) -> np.ndarray:
        return value


TYPES = [(np.dtype("float32"), 12), (np.dtype("float32"), 4)]


class Program(_runtime.CompiledProgram):
    """A program of two operands, float32[3] and float32[]."""

    def __init__(self, executable: Executable, types: Any = TYPES, *, shares: bool = True) -> None:
        self.shared = 0

        def share(number: int, memory: _runtime.MemoryBlock) -> np.ndarray | None:
            if not shares:
                return None
            self.shared += 1
            value = np.frombuffer(memoryview(memory), np.float32)
            return value.reshape((3,) if number == 0 else ())

        launcher = _runtime.Launcher(executable, [], "f", types, share)
        self.home = Memory()
        super().__init__(launcher, [jnp.zeros(3).aval], None, self.home, False)

    def run(self, x: Any, y: Any) -> np.ndarray:
        (out,) = self([x, y])
        value: np.ndarray = out._buffer.value
        return value


def ones(scale: float) -> np.ndarray:
    return np.full(3, scale, np.float32)


def test_operands_are_written_where_they_were() -> None:
    executable = Executable()
    program = Program(executable)
    for n in range(5):
        assert program.run(ones(n), 2.0 * n).tolist() == [3.0 * n] * 3
    assert program.shared == 2
    assert program.home.puts == 0
    assert all(seen[0] is executable.seen[0][0] for seen in executable.seen)


@pytest.mark.parametrize(
    "given",
    [
        np.arange(3.0),
        np.arange(6, dtype=np.float32)[::2],
        np.arange(3, dtype=np.float32).astype(">f4"),
        np.arange(3),
    ],
)
def test_values_are_converted(given: np.ndarray) -> None:
    program = Program(Executable())
    for _ in range(2):
        assert program.run(given, True).tolist() == [float(v) + 1 for v in given]


def test_memory_still_read_is_not_written() -> None:
    executable = Executable(ready=False)
    program = Program(executable)
    program.run(ones(1), 1.0)
    first = executable.seen[0][0]
    program.run(ones(2), 2.0)
    assert first.tolist() == [1, 1, 1]
    # The program takes long: calls go without for a while, then it is tried again.
    assert program.home.puts == 2
    executable.ready = True
    for _ in range(16):
        program.run(ones(3), 3.0)
    assert program.home.puts == 2 * 16
    assert program.shared == 4
    program.run(ones(4), 4.0)
    assert program.shared == 4
    assert first.tolist() == [1, 1, 1]


def test_some_operands_are_not_staged() -> None:
    program = Program(Executable(), [None, TYPES[1]])
    for _ in range(3):
        program.run(ones(1), 1.0)
    assert program.home.puts == 3
    assert program.shared == 1


def test_memory_that_is_not_shared_is_not_staged() -> None:
    program = Program(Executable(), shares=False)
    for n in range(3):
        assert program.run(ones(n), 1.0).tolist() == [n + 1.0] * 3
    assert program.home.puts == 6


def test_arrays_keep_their_buffers() -> None:
    executable = Executable()
    program = Program(executable)
    x = jnp.ones(3)
    program.run(x, 1.0)
    program.run(x, 2.0)
    assert program.shared == 1
    assert executable.seen[0][0] is executable.seen[1][0]


def test_calls_within_a_call_have_memory_of_their_own() -> None:
    executable = Executable()
    program = Program(executable)
    inner = []

    def again() -> None:
        executable.inside = None
        inner.append(program.run(ones(10), 1.0).tolist())

    program.run(ones(1), 1.0)
    executable.inside = again
    assert program.run(ones(2), 2.0).tolist() == [4, 4, 4]
    assert inner == [[11, 11, 11]]


def test_an_error_leaves_it_usable() -> None:
    program = Program(Executable())
    program.run(ones(1), 1.0)
    with pytest.raises(TypeError, match="of another size"):
        program.run(np.ones(4, np.float32), 1.0)
    with pytest.raises(OverflowError):
        program.run(ones(1), 1 << 70)
    assert program.run(ones(1), 2.0).tolist() == [3, 3, 3]


def test_an_error_of_the_executable_is_raised() -> None:
    executable = Executable()
    program = Program(executable)
    executable.inside = lambda: 1 / 0
    with pytest.raises(ZeroDivisionError):
        program.run(ones(1), 1.0)


def test_many_threads() -> None:
    f = kiln.jit(lambda x, y: (x + y, x))
    wrong = []

    def work(seed: int) -> None:
        for n in range(200):
            x = np.full(64, 1000 * seed + n, np.float32)
            total, same = f(x, n)
            if not (np.asarray(total) == x + n).all() or not (np.asarray(same) == x).all():
                wrong.append((seed, n))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("size", [3, 100, 20_000, 300_000])
def test_what_the_caller_changes_later_is_not_seen(size: int) -> None:
    f = kiln.jit(lambda x, y: (x, y * 1, kiln.lax.fori_loop(0, 30, lambda i, c: c + x, y)))
    x, y = np.zeros(size, np.float32), np.zeros(size, np.float32)
    outs = []
    for n in range(12):
        x[:], y[:] = n, 2 * n
        outs.append(f(x, y))
        x[:] = y[:] = -1
    for n, (same, also, total) in enumerate(outs):
        assert np.asarray(same)[0] == n and np.asarray(same)[-1] == n
        assert (np.asarray(also) == 2 * n).all()
        assert (np.asarray(total) == 32 * n).all()


def test_small_programs_are_staged_by_xla() -> None:
    home = engine("xla").memory
    puts = []
    f = kiln.jit(lambda x, y: x * y)
    f(ones(1), 2.0)
    f(ones(1), 2.0)
    original = home.put
    try:
        home.put = lambda *args: puts.append(args) or original(*args)  # type: ignore[method-assign, assignment]
        for n in range(10):
            assert np.asarray(f(ones(n), float(n))).tolist() == [float(n * n)] * 3
    finally:
        del home.put  # type: ignore[method-assign]
    assert puts == []


def test_copies_of_large_values_go_to_memory_used_before() -> None:
    f = kiln.jit(lambda x: jnp.sum(x))
    given = np.ones(1 << 18, np.float32)
    for _ in range(3):
        f(given).block_until_ready()
    before = _runtime.memory_statistics()
    for _ in range(10):
        f(given).block_until_ready()
    after = _runtime.memory_statistics()
    # One block may still be in use when the next is asked for.
    assert after["reused"] - before["reused"] >= 9
    assert after["cached"] + after["in_use"] <= before["cached"] + before["in_use"] + given.nbytes
