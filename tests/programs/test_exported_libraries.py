"""Programs that jax exported become libraries: C computes the bits that kiln computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
from kiln import export
from kiln.base.options.config import override
from tests.differential.exported_programs import PROGRAMS
from tests.differential.oracle import Answer, compare
from tests.differential.test_exported import loaded
from tests.programs.c_driver import COMPILER, Call, have_same_bits, run_calls
from tests.programs.library_cases import sized_calls
from tests.programs.sized import PROGRAMS as SIZED

pytest.importorskip("flatbuffers")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

QUICK_SIZED = tuple(sorted(SIZED)[:3])
"""Programs that kiln exports with a named size, in `make test`."""
WRITTEN = ("module", "loops", "layers", "draws", "order", "pools", "sized")


def test_c_computes_the_same_bits(tmp_path: Path) -> None:
    # Seconds: seven programs are compiled, into libraries as well, and one in C.
    calls, expected = [], []
    for name in WRITTEN:
        program, answer = loaded(name)
        args = PROGRAMS[name].args
        # Examples make a program with named sizes a library for theirs.
        made = export.library(program, *args, name=f"of_{name}", path=tmp_path / name, shared=False)
        calls.append(Call(Path(made.path), f"of_{name}", {}, list(args)))
        with override(engine="native"):
            expected.append(([np.asarray(x) for x in program.call(*args)], answer, name))
    for found, (own, answer, name) in zip(run_calls(calls, tmp_path), expected, strict=True):
        assert all(have_same_bits(x, y) for x, y in zip(found, own, strict=True)), name
        assert not compare(Answer(answer.types, tuple(found)), answer, PROGRAMS[name].tolerance)


@pytest.mark.parametrize("name", [pytest.param("sized", marks=pytest.mark.full), "counted"])
def test_named_sizes_are_arguments(name: str, tmp_path: Path) -> None:
    calls, expected = [], []
    program, _ = loaded(name)
    made = export.library(program, name=f"of_{name}", path=tmp_path, shared=False)
    count = len(program.in_avals)
    for b in (1, 4, 9):
        args = [np.linspace(-1, 1 + i, 5 * b, dtype=np.float32) for i in range(count)]
        args = [x.reshape(b, 5) for x in args]
        calls.append(Call(Path(made.path), f"of_{name}", {"b": b}, args))
        expected.append([np.asarray(x) for x in program.call(*args)])
    for found, wanted, call in zip(run_calls(calls, tmp_path), expected, calls, strict=True):
        for x, y in zip(found, wanted, strict=True):
            assert x.dtype == y.dtype
            np.testing.assert_allclose(x, y, 1e-5, 1e-5, err_msg=f"{call.symbol} {call.sizes}")


def _check_exported(names: Sequence[str], folder: Path) -> None:
    """Check libraries of programs that kiln exported with a named size, beside kiln's calls."""
    loaded_again = {}

    def write(run: Callable[..., Any], struct: Any, symbol: str) -> Path:
        stored = export.export(kiln.jit(run))(struct).serialize()
        program = loaded_again[symbol] = export.deserialize(stored)
        made = export.library(program, name=symbol, path=folder / symbol, blas=True, shared=False)
        return Path(made.path)

    calls = [call for _, call in sized_calls(names, write)]
    assert len({call.symbol for call in calls}) == len(names)
    for found, call in zip(run_calls(calls, folder), calls, strict=True):
        jitted = kiln.jit(loaded_again[call.symbol].call, abstracted_axes=("n",))
        wanted = [np.asarray(y) for y in kiln.tree.leaves(jitted(*call.values))]
        for x, y in zip(found, wanted, strict=True):
            assert x.shape == y.shape, (call.symbol, call.sizes)
            assert have_same_bits(x, y), (call.symbol, call.sizes, x, y)


def test_programs_that_kiln_exported(tmp_path: Path) -> None:
    _check_exported(QUICK_SIZED, tmp_path)


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_all_programs_that_kiln_exported(tmp_path: Path) -> None:
    _check_exported([name for name in SIZED if name not in QUICK_SIZED], tmp_path)
