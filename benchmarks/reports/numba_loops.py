"""The loops that reports compare JAX with, for numba; imported only where numba is installed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange


def counted_maximum(xs: Any) -> Any:
    """Return the greatest number."""
    most = xs[0]
    for x in xs:
        most = max(most, x)
    return most


def annealing(couplings: Any, picks: Any, draws: Any) -> Any:
    """Flip spins at falling temperatures; return the energy and the sum of weights."""
    n, steps = couplings.shape[0], len(picks)
    spins = np.ones(n)
    energy, weight = -0.5 * np.sum(couplings), 0.0
    for t in range(steps):
        i = picks[t]
        field = 0.0
        for j in range(n):
            field += couplings[i, j] * spins[j]
        change = 2 * spins[i] * field
        weight -= energy / steps
        if draws[t] < math.exp(-t / steps * change):
            spins[i] = -spins[i]
            energy += change
    return energy, weight


def growing(shocks: Any) -> Any:
    """Fill an array, each number from the one before."""
    n = len(shocks)
    x = np.zeros(n + 1)
    for t in range(n):
        x[t + 1] = 0.9 * x[t] + shocks[t]
    return x


def allele_counts(calls: Any) -> Any:
    """Count the alleles of each variant and sample; negative ones are unknown."""
    variants, samples, ploidy = calls.shape
    counts = np.zeros((variants, samples, 3), np.uint8)
    for i in prange(variants):
        for j in range(samples):
            for k in range(ploidy):
                if calls[i, j, k] >= 0:
                    counts[i, j, calls[i, j, k]] += 1
    return counts


def pair_counts(one: Any, other: Any, weights: Any, radii: Any) -> Any:
    """Add the weights of pairs within each radius, the greatest radius first."""
    n, m, count = len(one), len(other), len(radii)
    rows = np.zeros((n, count), np.float32)
    for i in prange(n):
        for j in range(m):
            x, y, z = one[i, 0] - other[j, 0], one[i, 1] - other[j, 1], one[i, 2] - other[j, 2]
            distance = x * x + y * y + z * z
            k = count - 1
            while k >= 0 and distance <= radii[k]:
                rows[i, k] += weights[i] * weights[j]
                k -= 1
    return rows.sum(0)
