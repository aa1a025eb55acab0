"""Whole programs become libraries for C, which give the same bits as kiln.

One process without Python calls all of them.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export
from tests.programs.c_driver import COMPILER, Call, have_same_bits, run_calls
from tests.programs.exported import ONE, function_of
from tests.programs.library_cases import sized_calls, written
from tests.programs.models import MODELS
from tests.programs.sized import PROGRAMS
from tests.structure.source_tree import REPOSITORY

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

QUICK = ("newton", "clipped_gradient", "mixed_precision")
"""Which are part of `make test`."""
QUICK_SIZED = tuple(sorted(PROGRAMS)[:6])


def _same_bits(found: list[np.ndarray], expected: Any, name: str) -> None:
    leaves = [np.asarray(y) for y in kiln.tree.leaves(expected)]
    assert len(found) == len(leaves), name
    for i, (x, y) in enumerate(zip(found, leaves, strict=True)):
        assert x.shape == y.shape, (name, i)
        assert have_same_bits(x, y), (name, i, x, y)


def _check_models(names: tuple[str, ...], folder: Path, *, threads: int | None = None) -> None:
    calls, expected = [], []
    for name in names:
        run = function_of(name, kiln)
        path = written(run, ONE, name, folder, blas=True, threads=threads is not None)
        if path is None:
            continue
        calls.append(Call(path, name, {}, [ONE]))
        expected.append((name, kiln.jit(run)(ONE)))
    assert calls
    found = run_calls(calls, folder, threads=threads)
    for results, (name, values) in zip(found, expected, strict=True):
        _same_bits(results, values, name)


def test_models(tmp_path: Path) -> None:
    _check_models(QUICK, tmp_path)


def test_models_with_threads(tmp_path: Path) -> None:
    _check_models(("attention_block", "convolutional_network"), tmp_path, threads=3)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_all_models_with_threads(tmp_path: Path) -> None:
    _check_models(tuple(MODELS), tmp_path, threads=3)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_all_models(tmp_path: Path) -> None:
    _check_models(tuple(name for name in MODELS if name not in QUICK), tmp_path)


def _check_sized(names: tuple[str, ...], folder: Path) -> None:
    calls, expected = [], []
    for name, call in sized_calls(names, functools.partial(written, folder=folder, blas=True)):
        calls.append(call)
        jitted = kiln.jit(PROGRAMS[name].kiln, abstracted_axes=("n",))
        expected.append((name, jitted(*call.values)))
    assert calls
    for found, (name, values) in zip(run_calls(calls, folder), expected, strict=True):
        _same_bits(found, values, name)


def test_sized(tmp_path: Path) -> None:
    _check_sized(QUICK_SIZED, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_all_sized(tmp_path: Path) -> None:
    _check_sized(tuple(name for name in PROGRAMS if name not in QUICK_SIZED), tmp_path)


@pytest.mark.parametrize("name", ["sort", "fft"])
def test_functions_with_names_of_kernels(name: str, tmp_path: Path) -> None:
    x = np.random.RandomState(0).randn(100).astype(np.float32)
    run = {"sort": jnp.sort, "fft": lambda x: jnp.abs(jnp.fft.fft(x))}[name]
    path = written(run, x, name, tmp_path)
    assert path is not None
    ((found,),) = run_calls([Call(path, name, {}, [x])], tmp_path)
    _same_bits([found], kiln.jit(run)(x), name)


def test_a_name_of_the_c_library_that_code_calls_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError) as error:
        export.library(jnp.sin, ONE, name="free", path=tmp_path, shared=False)
    assert "calls free of the C library" in str(error.value)
    assert "free_of_model" in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.full
@pytest.mark.timeout(900)
def test_example_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transformer and the networks of the examples: inference, and a step of training."""
    monkeypatch.syspath_prepend(REPOSITORY / "examples")
    transformer, cnn = map(importlib.import_module, ("char_transformer", "digits_cnn"))
    model = transformer.Transformer(len(transformer.read()[2]))
    text = np.arange(transformer.LENGTH, dtype=np.int32)[None] % 20
    params = model.init(kiln.random.key(0), text)["params"]
    images = np.random.RandomState(0).rand(16, 8, 8).astype(np.float32)
    labels = np.arange(16, dtype=np.int32) % 10
    variables = cnn.Net().init(kiln.random.key(1), images, training=False)
    learned = variables["params"]

    def loss(scale: Any) -> Any:
        scaled = kiln.tree.map(lambda p: p * scale, learned)
        scores, _ = cnn.Net().apply(
            {**variables, "params": scaled},
            images,
            training=True,
            rngs={"dropout": kiln.random.key(2)},
            mutable=["batch_stats"],
        )
        return -kiln.nn.log_softmax(scores)[np.arange(16), labels].mean()

    programs: dict[str, tuple[Callable[..., Any], np.ndarray]] = {
        "transformer": (lambda x: model.apply({"params": params}, x), text),
        "cnn": (lambda x: cnn.classify(variables, x), images),
        "learning": (kiln.value_and_grad(loss), ONE),
    }
    calls, expected = [], []
    for name, (function, x) in programs.items():
        path = written(function, x, name, tmp_path, blas=True)
        assert path is not None
        calls.append(Call(path, name, {}, [x]))
        expected.append(kiln.jit(function)(x))
    for results, values, name in zip(run_calls(calls, tmp_path), expected, programs, strict=True):
        _same_bits(results, values, name)
