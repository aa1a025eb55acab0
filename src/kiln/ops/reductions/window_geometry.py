"""How windows slide over an array: sizes, paddings by name, and the windows of a host array.

Along one axis of size n, `base_dilation` d puts d-1 holes between elements, `padding` adds (or, if
negative, drops) elements at both ends; windows of w elements, `window_dilation` apart, start every
`window_strides` elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.ir.sizes.size import Dim, maximum

Ints = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]
WORDS = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")


class Windows(NamedTuple):
    """How windows slide along each axis."""

    dimensions: Ints
    strides: Ints
    padding: Pads
    base_dilation: Ints
    dilation: Ints

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.dimensions)

    @property
    def spans(self) -> Ints:
        """The extent of each window in elements, including holes."""
        return tuple(dilated(w, d) for w, d in zip(self.dimensions, self.dilation, strict=True))

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of a primitive."""
        return {
            "window_dimensions": self.dimensions,
            "window_strides": self.strides,
            "padding": self.padding,
            "base_dilation": self.base_dilation,
            "window_dilation": self.dilation,
        }

    @property
    def is_dense(self) -> bool:
        """Whether nothing is dilated."""
        return set(self.base_dilation) | set(self.dilation) <= {1}

    def counts(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """Return the number of windows along each axis."""
        axes = zip(shape, self.spans, self.strides, self.padding, self.base_dilation, strict=True)
        return tuple(_count(n, *rest) for n, *rest in axes)  # type: ignore[arg-type]

    def with_axis(self, at: int) -> Windows:
        """Return the windows on arrays with one more axis, along which they have size 1."""

        def inserted(values: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
            return (*values[:at], value, *values[at:])

        return Windows(
            inserted(self.dimensions, 1),
            inserted(self.strides, 1),
            inserted(self.padding, (0, 0)),
            inserted(self.base_dilation, 1),
            inserted(self.dilation, 1),
        )

    def offsets(self) -> list[Ints]:
        """Return the offsets of a window's elements relative to its start."""
        return [
            tuple(k * d for k, d in zip(place, self.dilation, strict=True))
            for place in np.ndindex(self.dimensions)
        ]


def _count(n: Dim, span: int, stride: int, padding: tuple[int, int], base_dilation: int) -> Dim:
    if (span, stride, padding, base_dilation) == (1, 1, (0, 0), 1):
        return n
    room = dilated(n, base_dilation) + padding[0] + padding[1]
    if isinstance(room, int):
        return 0 if room < span else (room - span) // stride + 1
    return maximum(0, (room - span) // stride + 1)


def dilated(n: Any, dilation: int) -> Any:
    """Return the size of an axis with dilation-1 holes between elements."""
    if dilation == 1:
        return n
    return 0 if n == 0 else (n - 1) * dilation + 1


def windows_of(
    name: str,
    rank: int,
    window_dimensions: Sequence[Any],
    window_strides: Sequence[int] | None,
    padding: Any,
    base_dilation: Sequence[int] | None,
    window_dilation: Sequence[int] | None,
    shape: Sequence[Dim],
    words: Sequence[str] = WORDS,
) -> Windows:
    """Return the windows that a user specified, with defaults filled in.

    `words` are the user's names for the four sequences of numbers.
    Raises: TypeError for a wrong number of axes, or numbers that are not positive.
    """
    dimensions = tuple(int(w) for w in window_dimensions)
    ones = (1,) * rank
    strides, holes, dilation = (
        ones if given is None else tuple(map(int, given))
        for given in (window_strides, base_dilation, window_dilation)
    )
    asked = f"{name}: operand of shape {tuple(shape)} at {current_source()}"
    for what, values in zip(words, (dimensions, strides, holes, dilation), strict=True):
        if len(values) != rank:
            wrong = f"{name} got the wrong number of {what}: {len(values)} for {rank} axes"
        elif any(v < 1 for v in values):
            wrong = f"{name} {what} must have every element be strictly positive, got {values}"
        else:
            continue
        raise TypeError(
            three_lines(asked, wrong, f"give {rank} positive numbers, one for each axis")
        )
    if isinstance(padding, str):
        spans = [dilated(w, d) for w, d in zip(dimensions, dilation, strict=True)]
        padding = padtype_to_pads(shape, spans, strides, padding)
    try:
        pads = tuple((int(low), int(high)) for low, high in padding)
    except TypeError as error:
        wrong = (
            f"padding argument to {name} should be a name or a sequence of (low, high) pairs, got "
            f"{padding}"
        )
        raise ValueError(three_lines(asked, wrong, 'write "SAME", or [(1, 1)] * axes')) from error
    if len(pads) != rank:
        wrong = f"{name} got the wrong number of paddings: {len(pads)} for {rank} axes"
        raise TypeError(three_lines(asked, wrong, "give a (low, high) pair for each axis"))
    return Windows(dimensions, strides, pads, holes, dilation)


def padtype_to_pads(
    in_shape: Sequence[Any],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """Return the (low, high) paddings that `SAME`, `SAME_LOWER` or `VALID` mean.

    Raises: ValueError for another name.
    Example:
        >>> lax.padtype_to_pads((8, 8), (3, 3), (2, 2), "SAME")
        [(0, 1), (0, 1)]
    """
    name = str(padding).upper()
    if name == "VALID":
        return [(0, 0)] * len(in_shape)
    if name not in ("SAME", "SAME_LOWER"):
        raise ValueError(
            three_lines(
                f"padding={padding!r} at {current_source()}",
                "Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER', got "
                f"{padding}",
                "use one of these, or a (low, high) pair for each axis",
            )
        )
    pads = []
    for size, *given in zip(in_shape, window_shape, window_strides, strict=True):
        window, stride = map(int, given)
        size = int(size) if isinstance(size, np.integer) else size
        needed = (-(-size // stride) - 1) * stride + window - size
        total = max(needed, 0)
        less = total // 2
        pads.append((less, total - less) if name == "SAME" else (total - less, less))
    return pads


def padded(x: np.ndarray, fill: Any, padding: Pads, base_dilation: Ints) -> np.ndarray:
    """Return a host array with holes and padding filled."""
    if all(p == (0, 0) for p in padding) and all(d == 1 for d in base_dilation):
        return x
    sizes = [dilated(n, d) for n, d in zip(x.shape, base_dilation, strict=True)]
    room = [max(low, 0) + n + max(high, 0) for n, (low, high) in zip(sizes, padding, strict=True)]
    full = np.full(room, fill, x.dtype)
    inner = tuple(
        slice(max(low, 0), max(low, 0) + n, d)
        for n, (low, _), d in zip(sizes, padding, base_dilation, strict=True)
    )
    full[inner] = x
    return full[
        tuple(
            slice(max(-low, 0), max(n - max(-high, 0), 0))
            for n, (low, high) in zip(room, padding, strict=True)
        )
    ]


def view_windows(x: np.ndarray, fill: Any, windows: Windows) -> np.ndarray:
    """Return a view of all windows of a host array: axes that count windows, then window axes."""
    counts: Any = windows.counts(x.shape)
    full = padded(x, fill, windows.padding, windows.base_dilation)
    if 0 in counts:
        return np.empty((*counts, *windows.dimensions), x.dtype)
    steps = full.strides
    return np.lib.stride_tricks.as_strided(
        full,
        (*counts, *windows.dimensions),
        (
            *(s * n for s, n in zip(windows.strides, steps, strict=True)),
            *(d * n for d, n in zip(windows.dilation, steps, strict=True)),
        ),
        writeable=False,
    )
