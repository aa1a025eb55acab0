"""Wrappers of functions: the attributes that they copy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def wraps(fun: Any) -> Callable[[F], F]:
    """Return a decorator that gives a function the name, documentation and attributes of `fun`.

    Unlike `functools.wraps`, it accepts objects whose `__name__` is not a string.
    """

    def decorate(wrapper: F) -> F:
        for name in functools.WRAPPER_ASSIGNMENTS:
            try:
                setattr(wrapper, name, getattr(fun, name))
            except (AttributeError, TypeError):
                continue
        wrapper.__dict__.update(getattr(fun, "__dict__", {}))
        wrapper.__wrapped__ = fun  # type: ignore[attr-defined]
        return wrapper

    return decorate
