"""Programs with a named axis: traced once, the numbers of NumPy for every size."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base.options.config import override
from kiln.execution.compilation import on_compile
from tests.programs.sized import PROGRAMS, Sized

SIZES = (5, 1, 0, 8)


def table(n: int) -> np.ndarray:
    return np.random.RandomState(n).randn(n, 3).astype(np.float32)


def check(
    name: str, program: Sized, engine: str, sizes: tuple[int, ...] = SIZES, **options: Any
) -> None:
    traces: list[Any] = []

    def counted(x: Any) -> Any:
        traces.append(x.shape)
        return program.kiln(x)

    f = kiln.jit(counted, abstracted_axes=({0: "n"},), **options)
    with override(engine=engine), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in sizes:
            if n < program.least:
                continue
            x = table(n)
            found, expected = kiln.tree.leaves(f(x)), kiln.tree.leaves(program.numpy(x))
            assert len(found) == len(expected)
            for a, b in zip(found, expected, strict=True):
                assert a.shape == np.shape(b), n
                np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5, err_msg=f"n = {n}")
    # A table without rows may need a program of its own: whatever takes a row of it.
    assert len(traces) <= 1 + ((0, 3) in traces), traces
    assert traces[0][0] == kiln.ir.sizes.size.symbol("n")


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_trace_and_the_numbers_of_numpy(name: str) -> None:
    check(name, PROGRAMS[name], "reference")


# A program is compiled once for all sizes, and once more for 0.
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_trace_and_one_code_on_the_native_engine(name: str) -> None:
    compiled: list[str] = []
    stop = on_compile(lambda name, seconds: compiled.append(name))
    try:
        check(name, PROGRAMS[name], "native", (5, 1, 8, 33, 130))
        counted = [each for each in compiled if each == "counted"]
        assert len(counted) == 1
        check(name, PROGRAMS[name], "native", (0, 5))
    finally:
        stop()


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_code_with_checks(name: str) -> None:
    compiled: list[str] = []
    stop = on_compile(lambda name, seconds: compiled.append(name))
    try:
        check(name, PROGRAMS[name], "native", (5, 1, 33, 130), check="nan,index")
    except FloatingPointError:
        # So is it without names.
        with override(engine="native"), pytest.raises(FloatingPointError):
            for n in (5, 1, 33, 130):
                kiln.jit(lambda x: PROGRAMS[name].kiln(x), check="nan")(table(n))
    finally:
        stop()
    assert compiled.count("counted") == 1


# XLA compiles a program for each size.
@pytest.mark.parametrize("sizes", [SIZES[:2], pytest.param(SIZES, marks=pytest.mark.full)], ids=len)
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_trace_on_xla(name: str, sizes: tuple[int, ...]) -> None:
    check(name, PROGRAMS[name], "xla", sizes)
