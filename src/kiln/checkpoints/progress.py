"""A progress bar on the terminal or in a notebook: how many bytes have been written."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from kiln.api.debugging.progress import Bar, notebook_display
from kiln.base.lazy import rich_console, rich_progress

Report = bool | Callable[[int, int], None] | None
"""Whether to show a bar, or a function of (bytes written, total bytes).

With None a bar is shown on a terminal and in a notebook.
"""

_PATIENCE = 0.3
"""Seconds before the bar appears: short saves do not show one."""


@contextlib.contextmanager
def reported(what: str, total: int, report: Report) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of bytes of each write.

    `what` is shown beside the bar; `total` is the number of bytes in total. `report` is a function
    of the bytes written and the total, or whether to draw a bar; None draws one in a notebook, or
    if standard error is a terminal.
    """
    if callable(report):
        done = 0

        def count(more: int) -> None:
            nonlocal done
            done += more
            report(done, total)

        yield count
    elif report or (report is None and _is_watched()):
        bar = _Bar(what, total)
        try:
            yield bar.advance
        finally:
            bar.stop()
    else:
        yield lambda more: None


def _is_watched() -> bool:
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return is_terminal or notebook_display() is not None


class _Bar:
    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._since = time.monotonic()
        self._bar: Any = None
        self._task: Any = None
        self._in_notebook: Bar | None = None

    def advance(self, more: int) -> None:
        self._done += more
        is_started = self._task is not None or self._in_notebook is not None
        if not is_started and time.monotonic() - self._since > _PATIENCE:
            self._start()
        if self._in_notebook is not None:
            self._in_notebook.show(self._done)
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)

    def _start(self) -> None:
        if notebook_display() is not None:
            self._in_notebook = Bar(self._what, self._total, is_bytes=True)
            return
        columns = [
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(),
            rich_progress.DownloadColumn(),
            rich_progress.TransferSpeedColumn(),
            rich_progress.TimeRemainingColumn(),
        ]
        # The bar of another thread must not redirect what the program prints.
        bar = rich_progress.Progress(
            *columns,
            console=rich_console.Console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = bar.add_task(self._what, total=self._total)
        with contextlib.suppress(rich_console.errors.LiveError):
            # The program may show a bar of its own; a terminal shows one at a time.
            bar.start()
            self._bar = bar

    def stop(self) -> None:
        if self._in_notebook is not None:
            self._in_notebook.stop()
        if self._bar is not None:
            self._bar.stop()
