"""The convolutional network of the examples learns, and gives the same numbers without jit."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import kiln

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(name="example")
def fixture_example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(EXAMPLES)
    return importlib.import_module("digits_cnn")


def test_images_move_by_a_pixel(example: ModuleType) -> None:
    images = np.zeros((50, 8, 8), np.float32)
    images[:, 3, 4] = 1
    moved = example.moved(images.reshape(-1, 64), np.random.default_rng(0)).reshape(-1, 8, 8)
    assert moved.sum() == 50
    rows, columns = np.nonzero(moved.sum(0))
    assert (set(rows), set(columns)) == ({2, 3, 4}, {3, 4, 5})


@pytest.mark.full
def test_blocks_in_jit_and_in_the_open(example: ModuleType, monkeypatch: Any) -> None:
    images = np.random.RandomState(0).rand(8, 64).astype(np.float32)
    key, dropout = kiln.random.split(kiln.random.key(0))
    found, variables = example.net.init_with_output(
        {"params": key, "dropout": dropout}, images, True
    )
    assert found.shape == (8, 10)
    assert sorted(variables) == ["batch_stats", "params"]
    assert len([name for name in variables["params"] if "Block" in name]) == 6
    rngs = {"dropout": dropout}
    jitted, stats = example.net.apply(variables, images, True, rngs=rngs, mutable=["batch_stats"])
    with kiln.disable_jit():
        plain, expected = example.net.apply(
            variables, images, True, rngs=rngs, mutable=["batch_stats"]
        )
    np.testing.assert_allclose(jitted, plain, rtol=1e-4, atol=1e-4)
    for x, y in zip(kiln.tree.leaves(stats), kiln.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def test_a_pass_over_the_images_lowers_the_loss(example: ModuleType) -> None:
    losses, curve, shown = example.train(1)
    assert np.mean(losses[-5:]) < 0.5 * losses[0]
    assert len(curve) == 1
    assert len(shown[0]) == len(shown[2]) == 299


@pytest.mark.full
def test_it_reads_digits(example: ModuleType, tmp_path: Path) -> None:
    losses, curve, shown = example.train(20)
    assert curve[-1] > example.ENOUGH
    example.draw(str(tmp_path / "curve.png"), losses, curve, shown)
    assert (tmp_path / "curve.png").stat().st_size > 0
