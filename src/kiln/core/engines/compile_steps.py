"""Which step of compiling each thread is in, for the line on the terminal."""

from __future__ import annotations

import threading

_steps: dict[int, str] = {}


def begin(step: str) -> None:
    """Record that this thread begins a step of compiling, such as `fuse`."""
    _steps[threading.get_ident()] = step


def end() -> None:
    """Forget the step that this thread is in."""
    _steps.pop(threading.get_ident(), None)


def step_of(thread: int) -> str:
    """Return the step that a thread is in, or nothing."""
    return _steps.get(thread, "")
