"""Messages have three parts."""

from __future__ import annotations

from kiln.base import errors


def test_three_lines() -> None:
    assert errors.three_lines("a", "b", "c") == "a\nb\nc"


def test_every_class_says_what_it_is_for() -> None:
    classes = [c for c in vars(errors).values() if getattr(c, "__module__", "") == errors.__name__]
    classes = [c for c in classes if isinstance(c, type)]
    assert len(classes) > 10
    assert all(issubclass(c, Exception) and c.__doc__ for c in classes)
