"""Guards of execution: options that forbid programs to run, always or on other threads.

If one is set, calls leave the fast paths and check here before a program runs.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.options.config import options
from kiln.base.process.identity import process_count, process_index
from kiln.base.source import current_source


def check_execution(name: str, devices: Sequence[Any] = ()) -> None:
    """Check that a program may run, on devices that may be of several processes.

    Raises: RuntimeError if the option `no_execution` forbids it, or `thread_guard` does so on this
        thread.
    """
    opts = options()
    if opts.no_execution:
        raise RuntimeError(
            three_lines(
                f"{name} at {current_source()}",
                f"kiln tried to execute function {name}, but the 'no_execution' option is set",
                "call it outside of the guard, or leave it: kiln.no_execution(False)",
            )
        )
    guard = opts.thread_guard
    if guard is None or guard == threading.get_ident() or process_count() == 1:
        return
    if any(device.process_index != process_index() for device in devices):
        raise RuntimeError(
            three_lines(
                f"{name} on devices of several processes at {current_source()}",
                "a thread other than the one that set 'thread_guard' tried to execute it",
                "run such programs on one thread, in the same order in each process",
            )
        )
