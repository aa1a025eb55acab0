"""The accuracy that a caller may request of an elementwise function.

On the CPU a function has one implementation per dtype: a request is checked, but has no effect.
"""

from __future__ import annotations

import enum
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import current_source


class AccuracyMode(enum.Enum):
    """How accurate an elementwise function is: the CPU's are the same for both.

    Example:
        >>> lax.exp(1.0, accuracy=lax.AccuracyMode.HIGHEST) == lax.exp(1.0)
        Array(True, dtype=bool)
    """

    HIGHEST = 1
    DEFAULT = 2


class Tolerance(Record):
    """How far an elementwise function may be from the true value: absolute, relative, in ulps.

    Raises: ValueError for negative numbers, and if all are 0.
    Example:
        >>> lax.Tolerance(rtol=1e-5)
        Tolerance(atol=0.0, rtol=1e-05, ulps=0)
    """

    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self) -> None:
        """Check the numbers."""
        wrong = None
        if min(self.atol, self.rtol, self.ulps) < 0:
            wrong = "Tolerances must be non-negative."
        elif not (self.atol or self.rtol or self.ulps):
            wrong = "At least one of atol, rtol, or ulps must be set."
        if wrong:
            raise ValueError(
                three_lines(
                    f"Tolerance(atol={self.atol}, rtol={self.rtol}, ulps={self.ulps}) at "
                    f"{current_source()}",
                    wrong,
                    "write Tolerance(rtol=1e-6), or AccuracyMode.HIGHEST for the best there is",
                )
            )


Accuracy = Tolerance | AccuracyMode | None


def check_accuracy(name: str, accuracy: Any) -> None:
    """Check the accuracy that a caller requests.

    Raises: TypeError for anything else.
    """
    if not isinstance(accuracy, (Tolerance, AccuracyMode)):
        raise TypeError(
            three_lines(
                f"{name}(x, accuracy={accuracy!r:.60}) at {current_source()}",
                "accuracy must be None, a lax.Tolerance or a lax.AccuracyMode, got one of type "
                f"{type(accuracy).__name__}",
                "write accuracy=lax.Tolerance(rtol=1e-6) or lax.AccuracyMode.HIGHEST",
            )
        )
