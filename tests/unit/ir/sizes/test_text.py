"""Sizes as text."""

from __future__ import annotations

import pytest

from kiln.ir.sizes import size as sizes
from kiln.ir.sizes.size import Dim, symbol

n, m = symbol("n"), symbol("m")


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (n, "n"),
        (n + 1, "n+1"),
        (1 + n, "n+1"),
        (n - 1, "n-1"),
        (3 - n, "-n+3"),
        (2 * n, "2*n"),
        (n + n, "2*n"),
        (n // 2, "n//2"),
        ((n + 1) // 2, "(n+1)//2"),
        (2 * (n // 2), "2*(n//2)"),
        (n * m, "m*n"),
        ((n // 2) * m, "m*(n//2)"),
        (sizes.maximum(n, 3), "max(n, 3)"),
        (sizes.maximum(3, n), "max(n, 3)"),
        (sizes.minimum(n, 3), "min(n, 3)"),
    ],
)
def test_text(dim: Dim, text: str) -> None:
    assert str(dim) == text
