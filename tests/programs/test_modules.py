"""Whole programs become WebAssembly modules, which give the same bits in Node as libraries in C.

Modules have vectors of 128 bits and no fused multiply-add, as libraries for x86-64-v2 have: those
are called from C.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import kiln
from tests.programs.c_driver import COMPILER, Call, have_same_bits, run_calls
from tests.programs.exported import ONE, function_of
from tests.programs.library_cases import sized_calls, written
from tests.programs.models import MODELS
from tests.programs.node_driver import needs_node, run_in_node
from tests.programs.sized import PROGRAMS

pytestmark = [needs_node, pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")]

QUICK = ("newton", "clipped_gradient", "attention_block", "convolutional_network")
"""Which are part of `make test`."""
QUICK_SIZED = tuple(sorted(PROGRAMS)[:6])
LEVEL = "x86-64-v2"


def _written(run: Callable[..., Any], x: Any, name: str, folder: Path) -> Path | None:
    """Write a module, and a library beside it; None if programs are not linked without OpenBLAS."""
    module = written(run, x, name, folder / "modules", target="wasm32")
    if module is not None:
        assert written(run, x, name, folder / "libraries", target=LEVEL) is not None
    return module


def _in_c(call: Call) -> Call:
    """Return the same call of the library beside a module."""
    return call._replace(folder=call.folder.parents[1] / "libraries" / call.folder.name)


def _compare(calls: Sequence[Call], folder: Path) -> None:
    assert calls
    of_modules = run_in_node(calls, folder)
    of_libraries = run_calls([_in_c(call) for call in calls], folder)
    different = []
    for call, found, expected in zip(calls, of_modules, of_libraries, strict=True):
        assert len(found) == len(expected)
        for i, (x, y) in enumerate(zip(found, expected, strict=True)):
            if not have_same_bits(x, y):
                different.append((call.symbol, call.sizes, i, x, y))
    assert not different, different


def _check_models(names: tuple[str, ...], folder: Path) -> None:
    paths = {name: _written(function_of(name, kiln), ONE, name, folder) for name in names}
    _compare([Call(path, name, {}, [ONE]) for name, path in paths.items() if path], folder)


def test_models(tmp_path: Path) -> None:
    _check_models(QUICK, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_all_models(tmp_path: Path) -> None:
    _check_models(tuple(name for name in MODELS if name not in QUICK), tmp_path)


def _check_sized(names: tuple[str, ...], folder: Path) -> None:
    write = functools.partial(_written, folder=folder)
    _compare([call for _, call in sized_calls(names, write)], folder)


def test_sized(tmp_path: Path) -> None:
    _check_sized(QUICK_SIZED, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_all_sized(tmp_path: Path) -> None:
    _check_sized(tuple(name for name in PROGRAMS if name not in QUICK_SIZED), tmp_path)
