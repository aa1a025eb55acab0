"""The native engine compiles all of the models, the examples, and the rows of the suite."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

import kiln
import kiln.numpy
from benchmarks import harness
from benchmarks.suite.collection import ROWS
from benchmarks.suite.row import KINDS
from kiln.base.options.config import override
from tests.programs.models import MODELS

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("name", MODELS)
def test_no_model_needs_xla(name: str) -> None:
    with kiln.explain_fallbacks() as records:
        MODELS[name](kiln)
    assert records == []


@pytest.mark.parametrize("kind", KINDS)
def test_no_row_of_the_suite_needs_xla(kind: str) -> None:
    library = harness.load("kiln")
    for row in ROWS:
        if row.kind != kind:
            continue
        work = row.build(*row.tiny)

        def program(*args: Any, work: Any = work) -> Any:
            return work.program(library, *args)

        with override(enable_x64=row.x64), kiln.explain_fallbacks() as records:
            kiln.jit(program, **work.jit).lower(*work.arguments).compile()
        assert records == [], row.name


@pytest.mark.full
@pytest.mark.parametrize("name", ["char_transformer", "digits", "digits_cnn"])
def test_no_example_needs_xla(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(EXAMPLES)
    with kiln.explain_fallbacks() as records:
        importlib.import_module(name).train(1)
    assert records == []


@pytest.mark.full
def test_the_tutorial_needs_no_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    # The tutorial's blocks import kiln as jax, which later tests compare with.
    for name, module in (("jax", kiln), ("jax.numpy", kiln.numpy)):
        monkeypatch.setitem(sys.modules, name, module)
    with kiln.explain_fallbacks() as records:
        importlib.import_module("tutorial").main()
    assert records == []
