"""What Python does while a program runs: stacks of all threads, sampled at an interval."""

from __future__ import annotations

import contextlib
import importlib
import os
import runpy
import sys
import threading
import time
from collections.abc import Iterator
from types import CodeType, FrameType

from kiln.base.named_tuples import NamedTuple
from kiln.base.source import is_users

INTERVAL_S = 0.005
_EVERY = 10
"""Memory is read at every tenth sample."""
_BETWEEN = (runpy.__file__, "<frozen ", threading.__file__, os.path.dirname(importlib.__file__))
_OF_COMPILER = f"{os.sep}llvmlite{os.sep}"
TRANSFER, COMPILE, TRACE, KILN = "(transfer)", "(compile)", "(trace)", "(kiln)"
_OF_KILN = {
    "device_put": TRANSFER,
    "device_get": TRANSFER,
    "buffer_at": TRANSFER,
    "host_value": TRANSFER,
    "from_host": TRANSFER,
    "__array__": TRANSFER,
    "compile": COMPILE,
    "note_preparation": COMPILE,
    "record_program": TRACE,
    "trace_to_jaxpr": TRACE,
}
"""What functions of kiln do, by their names; the outermost that is known decides."""
_ROOMS = (("/engines/", COMPILE), ("/execution/compilation", COMPILE), ("/jit/tracing", TRACE))


class Frame(NamedTuple):
    """A function of the program, or one of the words above, and the line that runs."""

    name: str
    file: str
    line: int

    def __str__(self) -> str:
        return (
            f"{self.name} ({os.path.basename(self.file)}:{self.line})" if self.file else self.name
        )


class Sample(NamedTuple):
    """The stack of a thread at a time of `time.perf_counter`, the outermost frame first."""

    at: float
    thread: int
    stack: tuple[Frame, ...]


class Samples:
    """All samples, and the memory of the process in bytes at times."""

    def __init__(self) -> None:
        self.stacks: list[Sample] = []
        self.memory: list[tuple[float, int]] = []


@contextlib.contextmanager
def sampled(interval: float = INTERVAL_S) -> Iterator[Samples]:
    """Sample the threads of this process in a context."""
    found = Samples()
    ended = threading.Event()
    sampler = threading.Thread(
        target=_sample, args=(found, ended, interval), name="kiln profile", daemon=True
    )
    sampler.start()
    try:
        yield found
    finally:
        ended.set()
        sampler.join()


def _sample(found: Samples, ended: threading.Event, interval: float) -> None:
    own, count = threading.get_ident(), 0
    # Stacks repeat: a frame is described once per code and instruction.
    known: dict[tuple[CodeType, int], Frame | None] = {}
    while True:
        if count % _EVERY == 0:
            found.memory.append((time.perf_counter(), _resident()))
        count += 1
        if ended.wait(interval):
            break
        now = time.perf_counter()
        for thread, frame in sys._current_frames().items():
            if thread != own and (stack := _stack(frame, known)):
                found.stacks.append(Sample(now, thread, stack))
    found.memory.append((time.perf_counter(), _resident()))


def _stack(
    frame: FrameType | None, known: dict[tuple[CodeType, int], Frame | None]
) -> tuple[Frame, ...]:
    frames: list[Frame] = []
    word = ""
    while frame is not None:
        code = frame.f_code
        key = (code, frame.f_lasti)
        if key not in known:
            known[key] = _described(code, frame.f_lineno)
        described = known[key]
        if described is not None:
            frames.append(described)
        elif not frames and not code.co_filename.startswith(_BETWEEN):
            word = _word(code) or word or KILN
        frame = frame.f_back
    frames.reverse()
    return (*frames, *[Frame(word, "", 0)] * bool(word and frames))


def _described(code: CodeType, line: int | None) -> Frame | None:
    if not is_users(code) or code.co_filename.startswith(_BETWEEN):
        return None
    if _OF_COMPILER in code.co_filename:
        return None
    return Frame(code.co_qualname, code.co_filename, line or code.co_firstlineno)


def _word(code: CodeType) -> str:
    if is_users(code):
        return ""
    if code.co_name in _OF_KILN:
        return _OF_KILN[code.co_name]
    return next((word for room, word in _ROOMS if room in code.co_filename), "")


def _resident() -> int:
    """Return the memory of the process, in bytes; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def spans(
    samples: list[Sample], interval: float = INTERVAL_S
) -> Iterator[tuple[Frame, float, float]]:
    """Yield the frames of one thread with the times between which they were on its stack.

    A function is one span while it is seen in every sample, whichever of its lines runs; a gap of
    several intervals ends all.
    """
    opened: list[tuple[Frame, float]] = []
    last = 0.0
    for at, _, stack in samples:
        if at - last > 4 * interval:
            yield from _closed(opened, 0, last)
        same = 0
        for (frame, _), other in zip(opened, stack, strict=False):
            if (frame.name, frame.file) != (other.name, other.file):
                break
            same += 1
        yield from _closed(opened, same, at)
        opened += [(frame, at) for frame in stack[same:]]
        last = at
    yield from _closed(opened, 0, last + interval)


def _closed(
    opened: list[tuple[Frame, float]], kept: int, at: float
) -> Iterator[tuple[Frame, float, float]]:
    while len(opened) > kept:
        frame, start = opened.pop()
        yield frame, start, at
