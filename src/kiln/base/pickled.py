"""What pickles contain of kiln: a public name and kinds of objects, so that modules may move.

An object reduces to `kiln._unpickled(kind, *args)`. A kind names its maker as long as there are
pickles: makers move and change their names, kinds do not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kiln.base.errors import three_lines
from kiln.base.source import current_source

F = TypeVar("F", bound=Callable[..., Any])

_makers: dict[str, Callable[..., Any]] = {}


def pickled_as(kind: str) -> Callable[[F], F]:
    """Return a decorator that registers what makes a kind of object from what `reduced` was given.

    `import kiln` must load its module.
    """

    def register(maker: F) -> F:
        assert kind not in _makers, kind
        _makers[kind] = maker
        return maker

    return register


def reduced(kind: str, *args: Any) -> tuple[Any, ...]:
    """Return the result of `__reduce__` for an object of a kind that `args` describe."""
    return unpickled, (kind, *args)


def unpickled(kind: str, *args: Any) -> Any:
    """Return an object from its pickle.

    Raises: ValueError for a kind that this version does not have.
    """
    if kind not in _makers:
        raise ValueError(
            three_lines(
                f"unpickling of a {kind!r:.60} at {current_source()}",
                "this version of kiln has no such kind of object",
                "read it with the version that wrote it, or a later one",
            )
        )
    return _makers[kind](*args)


unpickled.__module__, unpickled.__qualname__ = "kiln", "_unpickled"
