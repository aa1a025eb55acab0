"""`@explored(strategy, few=..., many=...)`: a check of random values as a test of two sizes.

The small size runs always, and the same each time; the large one is marked `full`, and is split
into parts of their own seeds, so that several workers share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

# What one worker runs at a time: a minute or two.
PART = 500


def explored(
    *strategies: SearchStrategy[Any], few: int, many: int
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator that makes a test of a check."""

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        sizes = [pytest.param(few, 0, id="few")]
        for part, start in enumerate(range(0, many, PART), start=1):
            name = "many" if many <= PART else f"many{part}"
            size = min(PART, many - start)
            sizes.append(pytest.param(size, part, id=name, marks=pytest.mark.full))

        @pytest.mark.parametrize(("examples", "part"), sizes)
        @pytest.mark.timeout(3600)
        def test(examples: int, part: int) -> None:
            limited = settings(
                max_examples=examples,
                database=None,
                deadline=None,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            )
            limited(seed(part)(given(*strategies)(check)))()

        test.__doc__ = check.__doc__
        return test

    return decorate
