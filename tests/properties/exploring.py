"""`@explored(strategy, few=..., many=...)`: a check of random values as a test of two sizes.

The small size runs always, and the same each time; the large one is marked `full`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy


def explored(
    *strategies: SearchStrategy[Any], few: int, many: int
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator that makes a test of a check."""

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        sizes = [pytest.param(few, id="few"), pytest.param(many, id="many", marks=pytest.mark.full)]

        @pytest.mark.parametrize("examples", sizes)
        @pytest.mark.timeout(3600)
        def test(examples: int) -> None:
            limited = settings(
                max_examples=examples,
                derandomize=True,
                database=None,
                deadline=None,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            )
            limited(given(*strategies)(check))()

        test.__doc__ = check.__doc__
        return test

    return decorate
