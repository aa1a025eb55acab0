"""Every basic operation, on every type, through the assembler and through LLVM."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from kiln import _runtime
from kiln.engines.native.llvm import assembly, target
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES, TYPES, is_float
from tests.unit._runtime.assembler.running import LEVELS_HERE, needs_level
from tests.unit.engines.native.llvm.test_instructions import arguments, build, operations
from tests.unit.engines.native.vectors import EPILOGUE, loop_text

pytestmark = needs_level
FULL = [pytest.mark.full]
WIDTHS = (1, 2, 8, 16, 64)
POINTS = 1024
OLDER = (2, 16)
"""Those that `make test` runs for levels older than the processor's."""
LEFT_TO_LLVM = {"popcount", "mulhi", "div", "rem"}
"""Operations of which some types are not understood."""
LEVELS_AND_WIDTHS = [
    pytest.param(level, width, marks=[] if level == LEVELS_HERE[-1] or width in OLDER else FULL)
    for level in LEVELS_HERE
    for width in WIDTHS
]


def run(image: bytes, xs: list[np.ndarray], dtype: str) -> np.ndarray:
    code = assembly.load(image, "run")
    raw = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (1 + len(xs)))(code.address)
    out = np.zeros(POINTS, NUMPY_TYPES[dtype])
    raw(POINTS, out.ctypes.data, *[x.ctypes.data for x in xs])
    return out


@pytest.mark.parametrize(("level", "width"), LEVELS_AND_WIDTHS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid", "ignore:divide")
def test_operations_agree_with_llvm(dtype: str, width: int, level: str) -> None:
    known = target.named(level)
    for op in operations(dtype):
        if op == "rem" and is_float(dtype):
            continue
        xs, dtypes = arguments(op, dtype, POINTS)
        text, result = loop_text(known, build(op, dtype), dtypes, width)
        image = _runtime.assemble_text(text + EPILOGUE, level)
        if isinstance(image, str):
            assert op in LEFT_TO_LLVM, f"{op}: {image}"
            continue
        found = run(image, xs, result)
        expected = run(assembly.assemble(text + EPILOGUE, known), xs, result)
        if is_float(result):
            np.testing.assert_array_equal(np.isnan(found), np.isnan(expected), op)
            kind = f"u{found.itemsize}"
            there = ~np.isnan(expected)
            found, expected = found[there].view(kind), expected[there].view(kind)
        np.testing.assert_array_equal(found, expected, op)


@pytest.mark.parametrize(("level", "width"), LEVELS_AND_WIDTHS)
@pytest.mark.parametrize("before", TYPES)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid", "ignore:divide")
def test_conversions_agree_with_llvm(before: str, width: int, level: str) -> None:
    known = target.named(level)
    for after in TYPES:
        xs, _ = arguments("not" if before == "i1" else "neg", before, POINTS)
        text, result = loop_text(known, lambda x, after=after: x.convert(after), [before], width)
        image = _runtime.assemble_text(text + EPILOGUE, level)
        assert isinstance(image, bytes), f"{before} to {after}: {image}"
        found = run(image, xs, result)
        expected = run(assembly.assemble(text + EPILOGUE, known), xs, result)
        if is_float(result):
            there = ~np.isnan(expected)
            np.testing.assert_array_equal(there, ~np.isnan(found))
            kind = f"u{found.itemsize}"
            found, expected = found[there].view(kind), expected[there].view(kind)
        np.testing.assert_array_equal(found, expected, f"{before} to {after}")
