"""Functions combine arrays of different ranks by themselves, where users may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
from kiln import numpy as jnp
from kiln.scipy import linalg, signal, stats
from kiln.scipy.spatial.transform import Rotation, Slerp

A = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
WAVE = A.ravel()

CALLS: dict[str, Callable[[], Any]] = {
    "funm": lambda: linalg.funm(A, jnp.sin),
    "lu of a stack": lambda: linalg.lu(np.stack([A, A])),
    "rsf2csf": lambda: linalg.rsf2csf(*linalg.schur(A)),
    "sqrtm": lambda: linalg.sqrtm(A @ A.T),
    "kde": lambda: stats.gaussian_kde(A)(A),
    "kde in one dimension": lambda: stats.gaussian_kde(WAVE)(WAVE),
    "kde.integrate_gaussian": lambda: stats.gaussian_kde(A[:2]).integrate_gaussian(
        np.zeros(2), np.eye(2)
    ),
    "kde.integrate_kde": lambda: stats.gaussian_kde(A[:2]).integrate_kde(stats.gaussian_kde(A[2:])),
    "detrend": lambda: signal.detrend(A),
    "csd": lambda: signal.csd(WAVE, WAVE, nperseg=8),
    "welch": lambda: signal.welch(WAVE, nperseg=8),
    "stft": lambda: signal.stft(WAVE, nperseg=8),
    "istft": lambda: signal.istft(A + 1j * A, nperseg=6),
    "Rotation.mean": lambda: Rotation.from_quat(A).mean().as_quat(),
    "Slerp": lambda: Slerp.init(np.arange(4.0), Rotation.from_quat(A))(np.array([0.5])).as_quat(),
}


@pytest.mark.parametrize("name", CALLS)
def test_ranks_may_have_to_be_equal(name: str) -> None:
    expected = CALLS[name]()
    with kiln.numpy_rank_promotion("raise"):
        found = CALLS[name]()
    for ours, theirs in zip(kiln.tree.leaves(found), kiln.tree.leaves(expected), strict=True):
        assert np.array_equal(ours, theirs, equal_nan=True)
