"""Unknown options of transformations: the error suggests the option that was meant."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from kiln.base.errors import three_lines
from kiln.base.lazy import difflib
from kiln.base.source import api_boundary, current_source

F = TypeVar("F", bound=Callable[..., Any])


def known_keywords(fun: F) -> F:
    """Make a public function suggest one of its keywords for an unknown one.

    Raises: the function returned raises TypeError for a keyword that it does not have.
    """
    name: str = fun.__name__
    code = fun.__code__
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    known = named[code.co_posonlyargcount :]
    options = frozenset(known)

    @functools.wraps(fun)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not options.issuperset(kwargs):
            _refuse(name, known, next(each for each in kwargs if each not in options))
        return fun(*args, **kwargs)

    return cast(F, wrapper)


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
