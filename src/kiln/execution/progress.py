"""A line on the terminal during long compilations: what is compiled, how far, for how long.

Written to stderr when that is a terminal, never into pipes and files, and removed at the end. If a
Python loop has unrolled itself into a program, it names the line, and what to write instead. The
option `progress` (`KILN_PROGRESS=0`) turns it off.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import time
import types
from collections import Counter
from collections.abc import Iterator

from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import options
from kiln.base.process.forks import in_child, new_rlock
from kiln.base.source import Source
from kiln.core.engines.compile_steps import end, step_of
from kiln.ir.analysis.footprint import EQUATION_BYTES, footprint
from kiln.ir.jaxpr import Jaxpr

AFTER_S = 2.0
EVERY_S = 1.0
ERASE_LINE = "\r\x1b[K"
FEWEST_EQUATIONS = 200
"""The native engine compiles shorter programs in milliseconds, for which no thread is started."""
_SHORT_BYTES = FEWEST_EQUATIONS * EQUATION_BYTES
FEWEST_TIMES = 64
"""A line that has recorded an equation this often is assumed to be in a Python loop."""


class _Running(NamedTuple):
    name: str
    jaxpr: Jaxpr | None
    start: float
    thread: int


_running: dict[int, _Running] = {}
_numbers = itertools.count()
_changed = threading.Condition(new_rlock())
_watcher: threading.Thread | None = None
_is_shown = False


@contextlib.contextmanager
def progress(name: str, jaxpr: Jaxpr | None = None, *, is_quick: bool = False) -> Iterator[None]:
    """Show that a program is being compiled, after the first second.

    `is_quick` says that short programs are compiled in milliseconds: nothing is shown for them.
    """
    is_shown = options().progress and _is_terminal()
    if not is_shown or (is_quick and (jaxpr is None or footprint(jaxpr) < _SHORT_BYTES)):
        yield
        return
    number = next(_numbers)
    with _changed:
        _running[number] = _Running(name, jaxpr, time.monotonic(), threading.get_ident())
        _start_watching()
    try:
        yield
    finally:
        end()
        with _changed:
            # A forked child has dropped it.
            _running.pop(number, None)
            # Here and not in the watcher, which could erase what the program writes next.
            if _is_shown:
                _show("")
            _changed.notify()


def written_out(jaxpr: Jaxpr) -> tuple[Source, int] | None:
    """Return the line that has recorded an equation most often, and how often, if that is often."""
    sources: dict[tuple[types.CodeType, int, str], Source] = {}
    times: Counter[tuple[types.CodeType, int, str]] = Counter()
    for eqn in jaxpr.eqns:
        if eqn.source is not None:
            key = (eqn.source.code, eqn.source.offset, eqn.primitive.name)
            sources[key] = eqn.source
            times[key] += 1
    if not times:
        return None
    ((key, number),) = times.most_common(1)
    return (sources[key], number) if number >= FEWEST_TIMES else None


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        # There is no stderr, or it is closed.
        return False


def _start_watching() -> None:
    global _watcher
    if _watcher is None:
        watcher = threading.Thread(target=_watch, name="kiln progress", daemon=True)
        # No thread starts during interpreter shutdown, or if the system has no more: show nothing.
        with contextlib.suppress(RuntimeError):
            watcher.start()
            _watcher = watcher


def _watch() -> None:
    """Show the oldest compilation repeatedly, until none is left."""
    global _watcher
    with _changed:
        while _running:
            oldest = min(_running.values(), key=lambda each: each.start)
            seconds = time.monotonic() - oldest.start
            if seconds < AFTER_S:
                _changed.wait(AFTER_S - seconds)
                continue
            _show(_line(oldest, seconds))
            _changed.wait(EVERY_S)
        _watcher = None


def _line(running: _Running, seconds: float) -> str:
    others = f" and {len(_running) - 1} more" if len(_running) > 1 else ""
    parts = [f"kiln: compiling {running.name}{others}: {seconds:.0f} s"]
    if running.jaxpr is not None:
        parts.append(f"{len(running.jaxpr.eqns):,} equations")
    step = step_of(running.thread)
    if step:
        parts.append(step)
    found = None if running.jaxpr is None else written_out(running.jaxpr)
    if found is not None:
        source, times = found
        place = f"{os.path.basename(source.file)}:{source.line}"
        parts.append(f"{place} ran {times:,} times: use lax.fori_loop, lax.scan or vmap")
    return ", ".join(parts)


@in_child
def _forget() -> None:
    global _watcher, _is_shown
    _watcher, _is_shown = None, False
    _running.clear()


def _show(text: str) -> None:
    global _is_shown
    _is_shown = bool(text)
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(ERASE_LINE + text[: _columns() - 1])
        sys.stderr.flush()


def _columns() -> int:
    """Return the width of the terminal: a line that wraps could not be erased."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (AttributeError, OSError, ValueError):
        return 1000
