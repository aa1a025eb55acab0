"""Unknown keywords of public functions: the error suggests the one that was meant."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, TypeVar, cast

from kiln.base.errors import three_lines
from kiln.base.lazy import difflib
from kiln.base.source import api_boundary, current_source, unwrapped

F = TypeVar("F", bound=Callable[..., Any])

_VARIABLE_KEYWORDS = 8
"""The flag of code that takes `**kwargs`."""


def known_keywords(fun: F) -> F:
    """Make a public function suggest one of its keywords for an unknown one.

    Raises: the function returned raises TypeError for a keyword that it does not have.
    """
    known = _keywords(fun.__code__)
    options = frozenset(known)

    @functools.wraps(fun)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not options.issuperset(kwargs):
            _refuse(fun.__name__, known, next(each for each in kwargs if each not in options))
        return fun(*args, **kwargs)

    return cast(F, wrapper)


@api_boundary
def refuse_unknown_keywords(fun: Callable[..., Any], given: tuple[str, ...]) -> None:
    """Raise TypeError for the first of the keywords that a function does not have, if any."""
    code = getattr(unwrapped(fun), "__code__", None)
    if code is None or code.co_flags & _VARIABLE_KEYWORDS:
        return
    known = _keywords(code)
    for keyword in given:
        if keyword not in known:
            _refuse(code.co_name, known, keyword)


def _keywords(code: types.CodeType) -> tuple[str, ...]:
    named: tuple[str, ...] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return named[code.co_posonlyargcount :]


@api_boundary
def _refuse(name: str, known: tuple[str, ...], keyword: str) -> None:
    close = difflib.get_close_matches(keyword, known, 1)
    remedy = f"did you mean {close[0]}?" if close else f"it takes {', '.join(known)}"
    raise TypeError(
        three_lines(
            f"{name}(..., {keyword}=...) at {current_source()}",
            f"{name}() got an unexpected keyword argument {keyword!r}",
            remedy,
        )
    )
