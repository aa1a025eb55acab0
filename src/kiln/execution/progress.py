"""A line on the terminal during long compilations: the function and the seconds so far.

Written to stderr when that is a terminal, never into pipes and files, and removed at the end.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections.abc import Iterator

from kiln.base.forks import in_child, new_rlock

AFTER_S = 2.0
EVERY_S = 1.0
ERASE_LINE = "\r\x1b[K"

_running: dict[int, tuple[str, float]] = {}
_numbers = itertools.count()
_changed = threading.Condition(new_rlock())
_watcher: threading.Thread | None = None
_is_shown = False


@contextlib.contextmanager
def progress(name: str) -> Iterator[None]:
    """Show that `name` is being compiled, from the second second on."""
    if not _is_terminal():
        yield
        return
    number = next(_numbers)
    with _changed:
        _running[number] = (name, time.monotonic())
        _start_watching()
    try:
        yield
    finally:
        with _changed:
            del _running[number]
            # Here and not in the watcher, which could erase what the program writes next.
            if _is_shown:
                _show("")
            _changed.notify()


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        # There is no stderr, or it is closed.
        return False


def _start_watching() -> None:
    global _watcher
    if _watcher is None:
        _watcher = threading.Thread(target=_watch, name="kiln progress", daemon=True)
        _watcher.start()


def _watch() -> None:
    """Show the oldest compilation repeatedly, until none is left."""
    global _watcher
    with _changed:
        while _running:
            name, start = min(_running.values(), key=lambda item: item[1])
            seconds = time.monotonic() - start
            if seconds < AFTER_S:
                _changed.wait(AFTER_S - seconds)
                continue
            others = f" and {len(_running) - 1} more" if len(_running) > 1 else ""
            _show(f"kiln: compiling {name}{others}: {seconds:.0f} s")
            _changed.wait(EVERY_S)
        _watcher = None


@in_child
def _forget() -> None:
    global _watcher
    _watcher = None
    _running.clear()


def _show(text: str) -> None:
    global _is_shown
    _is_shown = bool(text)
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(ERASE_LINE + text)
        sys.stderr.flush()
