"""Whole models run at tiny sizes, and agree with JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.models import runtimes
from benchmarks.models.collection import PEERS, ROWS
from benchmarks.models.layers import ArrayLayers
from benchmarks.suite import collection, measuring, row
from tests.benchmarks.agreement import disagreements

BOTH = [PEERS["kiln"], PEERS["jax"]]


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    for peer in BOTH:
        peer.load()


def test_models_are_of_both_kinds_and_have_names_of_their_own() -> None:
    assert {one.kind for one in ROWS} == set(row.MODELS)
    assert len({one.name for one in ROWS}) == len(ROWS) >= 26
    whole = {one.name.partition(",")[0] for one in ROWS}
    assert len(whole) >= 14


def test_inference_and_training_of_a_small_model_agree_with_jax() -> None:
    assert disagreements(collection.chosen(["MLP"], rows=ROWS), BOTH[:1], BOTH) == []


@pytest.mark.full
@pytest.mark.parametrize("one", ROWS, ids=lambda one: one.name)
def test_every_model_agrees_with_jax(one: row.Row) -> None:
    assert disagreements([one], BOTH[:1], BOTH) == []


@pytest.mark.full
@pytest.mark.parametrize("name", ["torch", "onnxruntime", "openvino"])
def test_every_model_of_a_peer_agrees_with_jax(name: str) -> None:
    missing = PEERS[name].missing()
    if missing:
        pytest.skip(missing)
    PEERS[name].load()
    assert disagreements(ROWS, [PEERS[name]], BOTH) == []


def test_inference_closes_over_the_weights_and_training_does_not() -> None:
    for one in collection.chosen(["MLP"], rows=ROWS):
        work = one.work(tiny=True)
        call = PEERS["kiln"].prepare(one, work)
        assert call is not None
        constants = one.kind == "inference"
        assert len(call.arguments) == len(work.arguments) - constants
        assert work.constants == constants


def test_a_training_step_moves_the_weights_against_the_gradient() -> None:
    [one] = collection.chosen(["MLP, 256 x 784, width 1024, training"], rows=ROWS)
    work = one.work(tiny=True)
    call = PEERS["kiln"].prepare(one, work)
    assert call is not None
    loss, moved = call.run()
    again = type(work)((moved, *work.arguments[1:]), work.program, loss=True)
    later = PEERS["kiln"].prepare(one, again)
    assert later is not None
    assert float(later.run()[0]) < float(loss)
    assert set(moved) == set(work.arguments[0])


def test_a_model_is_measured_by_turns() -> None:
    [one] = collection.chosen(["MLP, 256 x 784, width 1024, training"], rows=ROWS)
    cells = measuring.measure(one, BOTH, seconds=0.001, tiny=True)
    assert list(cells) == ["kiln", "jax"]
    assert all(cell["samples"] >= 3 for cell in cells.values())


def test_runtimes_that_are_not_installed_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes.importlib.util, "find_spec", lambda name: None)
    assert runtimes.OnnxRuntime().missing() == "onnxruntime is not installed"
    assert runtimes.OpenVino().missing() == "openvino is not installed"


def test_layers_compute_what_their_names_say() -> None:
    layers: Any = ArrayLayers(PEERS["kiln"].library)  # type: ignore[attr-defined]
    x = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
    np.testing.assert_array_equal(layers.halved(layers.np.asarray(x))[0, 0], [[5, 7], [13, 15]])
    np.testing.assert_array_equal(
        layers.doubled(layers.np.asarray(x[:, :, :1, :2]))[0, 0], [[0, 0, 1, 1], [0, 0, 1, 1]]
    )
    rows = layers.np.asarray(np.float32([[1], [2], [4]]))
    np.testing.assert_array_equal(layers.sums(rows, np.int32([1, 0, 1]), 2), [[2], [5]])
    np.testing.assert_array_equal(layers.discounted(rows, 0.5), [[3], [4], [4]])
