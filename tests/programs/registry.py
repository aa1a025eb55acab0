"""Where whole programs are registered, and the data that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Model = Callable[[Any], Any]
MODELS: dict[str, Model] = {}


def model(function: Model) -> Model:
    """Register a program under its name."""
    MODELS[function.__name__] = function
    return function


def data(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Return float32 numbers of a normal distribution."""
    return (scale * np.random.RandomState(seed).randn(*shape)).astype(np.float32)
