"""Progress bars of users' loops, in Python and in compiled code, on terminals and in notebooks."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from kiln.base.errors import three_lines
from kiln.base.lazy import html, rich_console, rich_progress
from kiln.base.process.identity import process_index
from kiln.base.source import api_boundary, current_source
from kiln.control.branches import cond
from kiln.control.effects.callback import debug_callback

T = TypeVar("T")
_EVERY_S = 0.1
"""Seconds between two drawings, which cost more than most iterations."""
_PARTS = 100
"""A compiled loop reports at most about this often."""


@api_boundary
def track(iterable: Iterable[T], description: str = "", *, total: int | None = None) -> Iterator[T]:
    """Yield the items of an iterable, and show how many have been processed.

    The bar is drawn on a terminal and in a notebook, and nowhere else. `total` is the number of
    items; without it, that of `iterable`.

    Raises: TypeError if the number is not given, and `iterable` has none.
    Example:
        >>> sum(kiln.debug.track(range(4), "adding"))
        6
    """
    if total is None:
        try:
            total = len(iterable)  # type: ignore[arg-type]
        except TypeError:
            raise TypeError(
                three_lines(
                    f"track({iterable!r:.60}) at {current_source()}",
                    "the number of items is unknown",
                    "give it: track(items, total=100)",
                )
            ) from None
    return _tracked(iterable, Bar(description, total))


def _tracked(iterable: Iterable[T], bar: Bar) -> Iterator[T]:
    bar.show(0)
    try:
        for done, item in enumerate(iterable, 1):
            yield item
            bar.show(done)
    finally:
        bar.stop()


def tick(step: Any, total: int, description: str = "") -> None:
    """Report an iteration of a loop, which may be compiled, to a progress bar.

    Args:
        step: the number of the iteration, from 0.
        total: the number of iterations. About a hundred of them are reported.

    Example:
        >>> @kiln.jit
        ... def total(x):
        ...     def body(i, carry):
        ...         kiln.debug.tick(i, 1000, "adding")
        ...         return carry + x
        ...
        ...     return lax.fori_loop(0, 1000, body, 0.0)
        >>> total(0.5)
        Array(500., dtype=float32, weak_type=True)
    """
    every = max(1, total // _PARTS)

    def report(step: Any) -> None:
        debug_callback(_Reporter(description, total), step)

    is_due = (step % every == 0) | (step == total - 1)
    cond(is_due, report, lambda step: None, step)


class _Reporter:
    """A function of the step; of equal content if it is for the same bar."""

    def __init__(self, description: str, total: int) -> None:
        self.description, self.total = description, total

    def __call__(self, step: Any) -> None:
        key, done = (self.description, self.total), int(step) + 1
        bar = _open.get(key)
        if bar is None or done < bar.done:
            # Another loop has begun; the one before it may have been interrupted.
            if bar is not None:
                bar.stop()
            bar = _open[key] = Bar(*key)
        bar.show(done)
        if done >= self.total:
            bar.stop()
            _open.pop(key, None)


_open: dict[tuple[str, int], Bar] = {}


class Bar:
    """A progress bar where the program runs: in a notebook, on a terminal, or nowhere.

    Of several processes, process 0 shows it.
    """

    def __init__(self, description: str, total: int, *, is_bytes: bool = False) -> None:
        self.description, self.total, self.done = description, total, 0
        self._is_bytes = is_bytes
        self._start = time.monotonic()
        self._next = self._start
        display = notebook_display()
        self._draw: Callable[[], None] | None = None
        self._bar: Any = None
        self._handle: Any = None
        if process_index():
            return
        if display is not None:
            self._handle = display(_Html(self.html()), display_id=True)
            self._draw = lambda: self._handle.update(_Html(self.html()))
        elif _is_terminal():
            self._start_on_terminal()

    def show(self, done: int) -> None:
        """Draw the bar, if it has not been drawn just now."""
        self.done = done
        now = time.monotonic()
        if self._draw is not None and (now >= self._next or done >= self.total):
            self._next = now + _EVERY_S
            self._draw()

    def stop(self) -> None:
        """Leave the bar as it is."""
        if self._draw is not None:
            self._draw()
        if self._bar is not None:
            self._bar.stop()
        self._draw = self._bar = None

    def text(self) -> str:
        """Return the figures beside the bar."""
        passed = time.monotonic() - self._start
        left = passed * (self.total - self.done) / self.done if self.done else 0.0
        ahead = f", {_clock(left)} left" if 0 < self.done < self.total else ""
        if self._is_bytes:
            return f"{self.done / 1e6:.1f}/{self.total / 1e6:.1f} MB in {_clock(passed)}{ahead}"
        return f"{self.done}/{self.total} in {_clock(passed)}{ahead}"

    def html(self) -> str:
        """Return the bar for a notebook."""
        title = html.escape(self.description)
        bar = f'<progress value="{self.done}" max="{self.total}" style="width:20em"></progress>'
        return f"<div>{title} {bar} <code>{self.text()}</code></div>"

    def _start_on_terminal(self) -> None:
        columns = [
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TimeRemainingColumn(),
        ]
        bar = rich_progress.Progress(*columns, console=rich_console.Console(stderr=True))
        task = bar.add_task(self.description, total=self.total)
        with contextlib.suppress(rich_console.errors.LiveError):
            # The program may show a bar of its own; a terminal shows one at a time.
            bar.start()
            self._bar = bar
            self._draw = lambda: bar.update(task, completed=self.done)


class _Html:
    """HTML for a notebook, and the text that other front ends show instead."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "<progress bar>"


def notebook_display() -> Any:
    """Return IPython's function that displays objects, in a notebook; None elsewhere."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    # A shell on a terminal has no kernel.
    return ipython.display.display if getattr(shell, "kernel", None) is not None else None


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}" if seconds >= 10 else f"{seconds:.1f} s"
