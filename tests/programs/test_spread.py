"""Whole programs give the numbers of one device when their arguments lie on eight."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base.options.config import override
from tests.programs import models, sized, spread
from tests.programs.spread import Spread

EXAMPLES = Path(__file__).parents[2] / "examples"

# Not spread here. Each has its reason.
ELSEWHERE = {
    "digits_cnn": "trains as digits does; a step of it takes long to compile for eight devices",
    "char_transformer": "a scan over layers is spread among the programs of `models`",
    "sharded": "compares eight devices with one by itself",
    "tutorial": "its functions are of scalars and of five numbers, which no mesh axis divides",
}

NEAR = 2e-6
"""Of the largest number: where eight devices sum floats in another order."""

# Tables of floats summed, or multiplied as matrices, across what is sharded.
REORDERED = {
    *("sum", "mean", "var", "var_ddof", "std", "norm", "average", "nansum", "logsumexp", "prod"),
    *("softmax", "dot", "gram", "einsum", "outer", "cov", "tri", "diagonal", "cumsum", "vmap"),
    *("segment_sum", "standardized", "network", "fori_loop", "while_loop", "cond"),
}
# The others meet the same rules of spreading: `make test-full`.
SLOW = {
    *("newton", "mixed_precision", "conjugate_gradients", "convolutional_network", "markov_chain"),
    *("recurrent_network",),
    *("scan_over_layers", "attention_block", "ode_sensitivity", "adam_training", "kalman_filter"),
    *("implicit_differentiation", "per_example_gradients"),
}


@pytest.fixture(autouse=True)
def _on_one_engine() -> Iterator[None]:
    """One device is compared with eight of the same engine."""
    with override(engine="xla"):
        yield


def compare(found: Any, expected: Any, *, exact: bool = False) -> None:
    found, expected = kiln.tree.leaves(found), kiln.tree.leaves(expected)
    for x, y in zip(found, expected, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        x, y = np.asarray(x), np.asarray(y)
        if exact or y.dtype.kind in "biu":
            np.testing.assert_array_equal(x, y)
        else:
            # In float64, which holds every bfloat16 too.
            x, y = x.astype(np.float64), y.astype(np.float64)
            np.testing.assert_allclose(x, y, rtol=0, atol=NEAR * np.abs(y).max(initial=0))


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.full] if n in SLOW else []) for n in models.MODELS],
)
def test_models(name: str) -> None:
    lib = Spread(spread.MODELS[name])
    compare(models.MODELS[name](lib), models.MODELS[name](kiln))
    assert lib.sharded > 0


@pytest.mark.parametrize("name", sized.PROGRAMS)
def test_tables_sharded_by_rows(name: str) -> None:
    x = np.random.RandomState(8).randn(8, 3).astype(np.float32)

    def program(x: Any) -> Any:
        return sized.PROGRAMS[name].kiln(x)

    lib = Spread({"x": 0})
    compare(lib.jit(program)(x), kiln.jit(program)(x), exact=name not in REORDERED)
    assert lib.sharded == 1


def test_the_digits_example(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(EXAMPLES)
    digits = importlib.import_module("digits")
    random = np.random.RandomState(0)
    batches = [(random.rand(64, 64).astype(np.float32), random.randint(0, 10, 64)) for _ in "123"]

    def train(lib: Any) -> Any:
        params = digits.init(kiln.random.key(0))
        state = digits.adam.init(params)
        update = lib.jit(digits.update.__wrapped__)
        for images, labels in batches:
            params, state, value = update(params, state, images, labels)
        guesses = lib.jit(digits.classify.__wrapped__)(params, batches[0][0])
        return value, guesses, [layer["b"] for layer in params]

    lib = Spread({"images": 0, "labels": 0})
    found, expected = train(lib), train(kiln)
    compare(found[:2], expected[:2])
    # Adam divides a gradient by its own size: roundings of small ones are seen at once.
    for x, y in zip(found[2], expected[2], strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-5)
    assert lib.sharded == 2 * 3 + 1


@pytest.mark.full
def test_the_example_that_compares_itself() -> None:
    pytest.importorskip("sklearn")
    command = [sys.executable, str(EXAMPLES / "sharded.py"), "--steps", "5"]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.returncode == 0, out.stderr
    assert "by at most" in out.stdout


def test_every_program_is_spread_or_has_a_reason() -> None:
    assert set(spread.MODELS) == set(models.MODELS)
    assert not REORDERED - set(sized.PROGRAMS) and not SLOW - set(models.MODELS)
    programs = {path.stem for path in EXAMPLES.glob("*.py") if "__main__" in path.read_text()}
    missing = programs - {"digits", *ELSEWHERE}
    assert not missing, f"spread {missing} over eight devices, or say in ELSEWHERE why not"
