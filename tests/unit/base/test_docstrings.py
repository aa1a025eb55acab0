"""Docstrings of functions that are made by other functions."""

from __future__ import annotations

from kiln.base.docstrings import shown


def test_an_example_is_indented_below_the_summary() -> None:
    assert shown("Add.", ()) == "Add."
    assert shown("Add.", (">>> 1 + 1", "2")) == "Add.\n\nExample:\n    >>> 1 + 1\n    2"
