"""The indices of a diagonal."""

from __future__ import annotations

import numpy as np


def diagonal_indices(n: int, m: int, k: int, dtype: object) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of the k-th diagonal of an n x m matrix; none if it is outside."""
    length = max(0, min(n, m - k) if k > 0 else min(n + k, m))
    steps = np.arange(length)
    return (steps - min(k, 0)).astype(dtype), (steps + max(k, 0)).astype(dtype)  # type: ignore[call-overload]
