"""Whole programs give jax's numbers, on each engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base.config import override
from tests.differential.oracle import Case, Topic
from tests.programs.models import MODELS
from tests.programs.registry import Model

# Long chains of roundings, or bfloat16.
# One of each kind: a network with its training, a loop, an iteration with a derivative of its own.
QUICK = ("adam_training", "recurrent_network", "newton")
LOOSE = {"adam_training": 1e-3, "mixed_precision": 2e-2, "kalman_filter": 2e-4}


def _flat(model: Model) -> Any:
    def run(lib: Any) -> Any:
        with lib.disable_jit(False):
            return lib.tree.leaves(model(lib))

    return run


TOPIC = Topic(
    "programs",
    [Case(name, "answer", _flat(model), LOOSE.get(name, 1e-4)) for name, model in MODELS.items()],
)


@pytest.mark.parametrize("name", MODELS)
def test_as_jax_by_meaning(name: str) -> None:
    with override(engine="reference", threefry_partitionable=True):
        TOPIC.check(name, kiln)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.full) for n in MODELS]
)
def test_as_jax_on_xla(name: str) -> None:
    with override(engine="xla", threefry_partitionable=True):
        TOPIC.check(name, kiln)


@pytest.mark.parametrize("name", ["recurrent_network", "newton", "mixture_of_experts"])
def test_without_jit(name: str) -> None:
    with override(engine="reference"):
        expected = kiln.tree.leaves(MODELS[name](kiln))
        with kiln.disable_jit():
            found = kiln.tree.leaves(MODELS[name](kiln))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)
