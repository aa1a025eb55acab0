"""Calls on another thread, which work for the line of their caller."""

from __future__ import annotations

from kiln.base.source import current_source
from kiln.engines.xla.runtime.apart import apart


def test_the_line_of_the_caller_is_known() -> None:
    found, here = apart(current_source, must_end=True), current_source()
    assert found is not None and here is not None
    assert (found.file, found.line) == (here.file, here.line)
