"""`Slice` and `ds`: parts of an axis whose start may be traced, while their size is known."""

from __future__ import annotations

import operator
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import current_source


class Slice(Record):
    """Elements `start`, `start + stride`, ... of an axis, `size` of them. Made by `ds`."""

    start: Any
    size: int
    stride: int = 1

    def __post_init__(self) -> None:
        """Check what must be known while tracing."""
        for name in ("size", "stride"):
            value = getattr(self, name)
            try:
                known = operator.index(value)
            except TypeError:
                raise TypeError(
                    three_lines(
                        f"a slice with the {name} {value!r:.40} at {current_source()}",
                        f"the {name} must be an integer that is known while tracing: only the "
                        "start may be an array",
                        "pass a Python int, which a static argument or a shape is",
                    )
                ) from None
            if known < (name == "stride"):
                raise ValueError(
                    three_lines(
                        f"a slice with the {name} {value} at {current_source()}",
                        f"`{name}` must be >= {int(name == 'stride')}",
                        "reverse the array that was read: x[::-1]",
                    )
                )
            object.__setattr__(self, name, known)


def ds(start: Any, size: Any = None, stride: int | None = None) -> slice | Slice:
    """Return the part of an axis that starts at `start` and has `size` elements, `stride` apart.

    `ds(None)` is all of the axis, `ds(n)` its first n elements. The start may be traced.

    Raises: TypeError for a size or stride that is not known while tracing.
    Source: the documentation of `jax.ds`.
    Example:
        >>> x = jnp.arange(8)
        >>> x[kiln.ds(3, 2)]
        Array([3, 4], dtype=int32)
    """
    if start is None:
        return slice(None)
    if size is None:
        start, size = 0, start
    return Slice(start, size, 1 if stride is None else stride)


dslice = ds
