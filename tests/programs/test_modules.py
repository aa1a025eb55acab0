"""Whole programs become WebAssembly modules, which give the same bits in Node as libraries in C.

Modules have vectors of 128 bits and no fused multiply-add, as libraries for x86-64-v2 have: those
are called from C.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
from kiln import export
from tests.programs.c_driver import COMPILER, Call, have_same_bits, run_calls
from tests.programs.exported import ONE, function_of
from tests.programs.models import MODELS
from tests.programs.node_driver import needs_node, run_in_node
from tests.programs.sized import PROGRAMS

pytestmark = [needs_node, pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")]

QUICK = ("newton", "clipped_gradient", "attention_block", "convolutional_network")
"""Which are part of `make test`."""
QUICK_SIZED = tuple(sorted(PROGRAMS)[:6])
LEVEL = "x86-64-v2"
REFUSED = ("the native engine does not compile it", "LAPACK")


def _written(run: Callable[..., Any], x: Any, name: str, folder: Path) -> tuple[Path, Path] | None:
    """Write a module and a library; None if programs are not linked without OpenBLAS."""
    jitted = kiln.jit(run)
    try:
        module = export.library(jitted, x, name=name, path=folder / f"{name}_m", target="wasm32")
    except NotImplementedError as error:
        if not any(reason in str(error) for reason in REFUSED):
            raise
        return None
    library = export.library(
        jitted, x, name=name, path=folder / f"{name}_l", target=LEVEL, shared=False
    )
    return Path(module.path), Path(library.path)


def _compare(pairs: list[tuple[Call, Call]], folder: Path) -> None:
    assert pairs
    of_modules = run_in_node([call for call, _ in pairs], folder)
    of_libraries = run_calls([call for _, call in pairs], folder)
    different = []
    for (call, _), found, expected in zip(pairs, of_modules, of_libraries, strict=True):
        assert len(found) == len(expected)
        for i, (x, y) in enumerate(zip(found, expected, strict=True)):
            if not have_same_bits(x, y):
                different.append((call.symbol, call.sizes, i, x, y))
    assert not different, different


def _check_models(names: tuple[str, ...], folder: Path) -> None:
    pairs = []
    for name in names:
        paths = _written(function_of(name, kiln), ONE, name, folder)
        if paths is not None:
            module, library = paths
            pairs.append((Call(module, name, {}, [ONE]), Call(library, name, {}, [ONE])))
    _compare(pairs, folder)


def test_models(tmp_path: Path) -> None:
    _check_models(QUICK, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_all_models(tmp_path: Path) -> None:
    _check_models(tuple(name for name in MODELS if name not in QUICK), tmp_path)


def _check_sized(names: tuple[str, ...], folder: Path) -> None:
    struct = kiln.ShapeDtypeStruct(export.symbolic_shape("n, 3"), np.float32)
    pairs = []
    for number, name in enumerate(names):
        program = PROGRAMS[name]
        symbol = f"p{number}_{re.sub(r'[^a-z0-9]', '_', name.lower())}"
        paths = _written(program.kiln, struct, symbol, folder)
        if paths is None:
            continue
        for n in (1, 2, 5, 33, 1000):
            if n >= program.least:
                x = np.random.RandomState(n).randn(n, 3).astype(np.float32)
                module, library = [Call(path, symbol, {"n": n}, [x]) for path in paths]
                pairs.append((module, library))
    _compare(pairs, folder)


def test_sized(tmp_path: Path) -> None:
    _check_sized(QUICK_SIZED, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_all_sized(tmp_path: Path) -> None:
    _check_sized(tuple(name for name in PROGRAMS if name not in QUICK_SIZED), tmp_path)
