"""Whole programs are stored and loaded, by kiln and by jax; and mapped and differentiated then."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export
from tests.programs.exported import (
    NOT_JITTED_BY_JAX,
    NOT_REVERSIBLE,
    ONE,
    STACK,
    function_of,
    loss_of,
    order_of,
)
from tests.programs.models import MODELS
from tests.structure.source_tree import REPOSITORY

pytest.importorskip("flatbuffers")

QUICK = ("newton", "clipped_gradient")
"""Whose round trips are part of `make test`."""
TOLERANCE = {"scan_over_layers": 1e-3, "adam_training": 1e-3, "mixed_precision": 2e-2}
# Gradients of long chains of roundings, in two orders of summation.
OF_GRADIENTS = 5e-3

programs = pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.full]) for n in MODELS],
)


def _same(found: object, expected: object, tolerance: float) -> None:
    np.testing.assert_allclose(
        np.asarray(found, np.float32), np.asarray(expected, np.float32), tolerance, tolerance
    )


def _check(name: str, loaded: export.Exported) -> None:
    """Compare a loaded program with kiln's own: its results, its map, its derivative."""
    run, tolerance = function_of(name, kiln), TOLERANCE.get(name, 1e-4)
    for found, expected in zip(loaded.call(ONE), run(ONE), strict=True):
        _same(found, expected, tolerance)
    stacks = kiln.vmap(loaded.call)(STACK)
    for i, x in enumerate(STACK):
        for found, expected in zip(stacks, loaded.call(x), strict=True):
            _same(found[i], expected, tolerance)
    if name not in NOT_REVERSIBLE:
        expected = kiln.grad(loss_of(run, jnp))(ONE)
        gradient = kiln.grad(loss_of(loaded.call, jnp))(ONE)
        _same(gradient, expected, max(OF_GRADIENTS, tolerance))


@programs
def test_stored_by_kiln(name: str) -> None:
    exported = export.export(kiln.jit(function_of(name, kiln)))(ONE)
    _check(name, export.deserialize(exported.serialize(vjp_order=order_of(name))))


def _with_jax(names: tuple[str, ...], folder: Path) -> None:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("needs jax")
    for name in names:
        exported = export.export(kiln.jit(function_of(name, kiln)))(ONE)
        stored = exported.serialize(vjp_order=order_of(name))
        (folder / f"{name}.kiln").write_bytes(stored)
    subprocess.run(
        [sys.executable, "-m", "tests.programs.exported", str(folder)],
        cwd=REPOSITORY,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "JAX_THREEFRY_PARTITIONABLE": "0"},
        check=True,
    )
    for name in names:
        answers = np.load(folder / f"{name}.npz")
        run, tolerance = function_of(name, kiln), TOLERANCE.get(name, 1e-4)
        for i, expected in enumerate(run(ONE)):
            _same(answers[f"out{i}"], expected, tolerance)
        if name not in NOT_REVERSIBLE:
            gradient = kiln.grad(loss_of(run, jnp))(ONE)
            _same(answers["grad"], gradient, max(OF_GRADIENTS, tolerance))
        if name in NOT_JITTED_BY_JAX:
            continue
        _check(name, export.deserialize((folder / f"{name}.jax").read_bytes()))


@pytest.mark.full
def test_of_jax_and_for_jax(tmp_path: Path) -> None:
    _with_jax(QUICK, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_all_of_jax_and_for_jax(tmp_path: Path) -> None:
    _with_jax(tuple(name for name in MODELS if name not in QUICK), tmp_path)
