"""A progress bar, for the examples."""

from __future__ import annotations

import sys


def show(done: int, total: int, text: str) -> None:
    """Draw a progress bar on a terminal; print nothing into pipes."""
    if sys.stderr.isatty():
        bar = ("#" * (30 * done // total)).ljust(30, ".")
        sys.stderr.write(f"\r[{bar}] {done}/{total} {text}" + ("\n" if done == total else ""))
        sys.stderr.flush()
