"""Waiting for an engine's buffers, and who may enter an engine."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

from kiln import _runtime


class Buffer:
    """A buffer that is ready after some looks."""

    def __init__(self, looks: int, *, deleted: bool = False) -> None:
        self.looks = looks
        self.deleted = deleted

    def is_deleted(self) -> bool:
        return self.deleted

    def is_ready(self) -> bool:
        assert not self.deleted
        self.looks -= 1
        return self.looks < 0


def test_waits_until_it_is_ready() -> None:
    for looks in (0, 1, 20):
        buffer = Buffer(looks)
        _runtime.wait_until_ready(buffer)
        assert buffer.looks == -1


def test_a_deleted_buffer_is_not_waited_for() -> None:
    _runtime.wait_until_ready(Buffer(0, deleted=True))
    buffer = Buffer(10**9)
    threading.Timer(0.05, lambda: setattr(buffer, "deleted", True)).start()
    _runtime.wait_until_ready(buffer)


class Ready(np.ndarray):
    """A NumPy array that is ready, as a buffer of an engine is."""

    def is_deleted(self) -> bool:
        return False

    def is_ready(self) -> bool:
        return True

    def block_until_ready(self) -> None:
        pass


class Failed(Ready):
    """One that was to be computed, and was not."""

    def block_until_ready(self) -> None:
        raise KeyError("what went wrong")


@pytest.mark.parametrize(
    "value",
    [
        np.arange(3.0),
        np.arange(6, dtype=np.int8).reshape(2, 3).T,
        np.arange(12, dtype=np.complex64)[::5],
        np.zeros((3, 0, 2), np.float16),
        np.array(True),
        np.ones(1, np.float32)[0:1],
    ],
    ids=lambda value: f"{value.dtype}{value.shape}",
)
def test_an_array_shares_the_memory_of_the_buffer(value: np.ndarray) -> None:
    found = _runtime.array_when_ready(value.view(Ready), value.dtype)
    assert type(found) is np.ndarray
    assert (found.dtype, found.shape) == (value.dtype, value.shape)
    if value.size:
        assert found.strides == value.strides
        assert np.shares_memory(found, value)
    np.testing.assert_array_equal(found, value)
    flags = ("C_CONTIGUOUS", "F_CONTIGUOUS", "ALIGNED", "WRITEABLE")
    assert [found.flags[name] for name in flags] == [value.flags[name] for name in flags]


def test_an_array_of_read_only_memory_is_read_only() -> None:
    value = np.arange(3.0).view(Ready)
    value.flags.writeable = False
    assert not _runtime.array_when_ready(value, value.dtype).flags.writeable


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(object), np.dtype("S3")])
def test_an_array_of_another_dtype_is_refused(dtype: np.dtype) -> None:
    with pytest.raises(BufferError):
        _runtime.array_when_ready(np.arange(3.0).view(Ready), dtype)


def test_blocking_and_reading_raise_what_went_wrong() -> None:
    failed = np.zeros(3).view(Failed)
    with pytest.raises(KeyError, match="what went wrong"):
        _runtime.block_until_ready(failed)
    with pytest.raises(KeyError, match="what went wrong"):
        _runtime.array_when_ready(failed, failed.dtype)


def test_signal_handlers_run_while_it_waits() -> None:
    class Struck(Exception):
        pass

    def handler(number: int, frame: object) -> None:
        raise Struck

    previous = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        start = time.monotonic()
        with pytest.raises(Struck):
            _runtime.wait_until_ready(Buffer(10**9))
        assert time.monotonic() - start < 30
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@pytest.mark.parametrize("thing", [None, 3, object()])
def test_what_is_no_buffer_is_refused(thing: object) -> None:
    with pytest.raises(AttributeError):
        _runtime.wait_until_ready(thing)
    with pytest.raises(AttributeError):
        _runtime.array_when_ready(thing, np.dtype(np.float32))


def test_what_a_buffer_raises_passes() -> None:
    class Broken(Buffer):
        def is_ready(self) -> bool:
            raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        _runtime.wait_until_ready(Broken(0))


def test_callbacks_that_all_wait_give_up() -> None:
    raised: list[str] = []

    def wait(name: str) -> None:
        _runtime.enter_callback()
        try:
            _runtime.wait_until_ready(Buffer(10**9))
        except RecursionError:
            raised.append(name)
        finally:
            _runtime.leave_callback()

    threads = [threading.Thread(target=wait, args=(name,)) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(raised) == ["first", "second"]


def test_a_callback_that_does_something_else_is_waited_for() -> None:
    """It might be what the others wait for."""
    waited, over = Buffer(10**9), threading.Event()
    raised: list[str] = []

    def other() -> None:
        _runtime.enter_callback()
        over.wait(60)
        waited.deleted = True
        _runtime.leave_callback()

    def wait() -> None:
        _runtime.enter_callback()
        try:
            _runtime.wait_until_ready(waited)
        except RecursionError:
            raised.append("wait")
        finally:
            _runtime.leave_callback()

    threads = [threading.Thread(target=other), threading.Thread(target=wait)]
    for thread in threads:
        thread.start()
    time.sleep(2.2)
    over.set()
    for thread in threads:
        thread.join(60)
    assert raised == []


def test_callbacks_too_deep_within_each_other_are_refused() -> None:
    depth = 0
    try:
        with pytest.raises(RecursionError, match=r"nested [0-9]+ deep"):
            for _ in range(100):
                depth += 1
                _runtime.enter_callback()
    finally:
        for _ in range(depth):
            _runtime.leave_callback()
    assert depth > 16


def test_threads_inside_are_counted() -> None:
    before = _runtime.threads_inside()
    _runtime.enter()
    assert _runtime.threads_inside() == before + 1
    _runtime.leave()
    assert _runtime.threads_inside() == before
    assert not _runtime.is_closed()
    _runtime.check_entry()


def test_arguments_are_dropped() -> None:
    called: list[int] = []
    function = _runtime.without_arguments(lambda: called.append(1))
    function("start", {"generation": 0})
    function()
    assert called == [1, 1]
