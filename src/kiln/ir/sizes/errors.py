"""Errors of sizes, where an answer depends on the value of a name."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.base.errors import InconclusiveSizeError, three_lines
from kiln.base.source import current_source


def used_as_int(size: str, names: Sequence[str]) -> InconclusiveSizeError:
    """Return the error for converting a size to a number."""
    return InconclusiveSizeError(
        three_lines(
            f"the size {size} was used as a Python int at {current_source()}",
            f"its value depends on {_named(names)}, which is unknown while a program is traced",
            "keep the size symbolic (arithmetic and functions of kiln.numpy take it), or leave the "
            "axis out of abstracted_axes",
        )
    )


def taken_by_numpy(size: str, function: str) -> InconclusiveSizeError:
    """Return the error for converting a size to a NumPy number."""
    return InconclusiveSizeError(
        three_lines(
            f"numpy.{function} of the size {size} at {current_source()}",
            "its value is unknown while a program is traced, and NumPy computes with values only",
            f"call kiln.numpy.{function}, or leave the axis out of abstracted_axes",
        )
    )


def looked_up(size: str, names: Sequence[str]) -> InconclusiveSizeError:
    """Return the error for looking a size up in a dict or set."""
    return InconclusiveSizeError(
        three_lines(
            f"the size {size} was looked up in a dict or set, or hashed, at {current_source()}",
            f"it would not be found among ints: its value depends on {_named(names)}, which is "
            "unknown while a program is traced",
            "compare it by ==, call a function under functools.lru_cache as f.__wrapped__(...), or "
            "leave the axis out of abstracted_axes",
        )
    )


def undecided(question: str, names: Sequence[str]) -> InconclusiveSizeError:
    """Return the error for a comparison whose answer is not the same for all sizes."""
    return InconclusiveSizeError(
        three_lines(
            f"sizes: {question}",
            f"the answer depends on the value of {_named(names)}",
            "compare sizes whose order is the same for every value, "
            "or leave the axis out of abstracted_axes",
        )
    )


def _named(names: Sequence[str]) -> str:
    return ("the named axis " if len(names) == 1 else "the named axes ") + ", ".join(names)
