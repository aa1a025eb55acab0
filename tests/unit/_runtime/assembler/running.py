"""Functions of LLVM IR, compiled by the assembler of the extension and by LLVM."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import pytest

from kiln import _runtime
from kiln.engines.native.llvm import assembly, target
from kiln.engines.native.llvm.generation import LEVELS

OPERAND_BYTES = 4096
"""How much memory `operand` returns."""
EPILOGUE = """
attributes #0 = { nounwind }
!0 = !{!"branch_weights", i32 1, i32 4000}
"""

_HOST = assembly.host_target().name
LEVELS_HERE = LEVELS[: LEVELS.index(_HOST) + 1] if _HOST in LEVELS else ()
"""The levels whose code this processor runs: the older ones too."""

needs_level = pytest.mark.skipif(
    not LEVELS_HERE, reason=f"the assembler writes code for {' and '.join(LEVELS)}"
)


def assembled(text: str, level: str = _HOST) -> bytes:
    """Return the object of a module; the text must be understood."""
    found = _runtime.assemble_text(text + EPILOGUE, level)
    assert isinstance(found, bytes), f"{level}: {found}\n{text}"
    return found


def refusal(text: str, level: str = LEVELS[0]) -> str:
    """Return why a module is not understood."""
    found = _runtime.assemble_text(text + EPILOGUE, level)
    assert isinstance(found, str), "the text is understood"
    return found


def images(text: str, level: str) -> dict[str, bytes]:
    """Return the objects of a module for a level, by each generator."""
    theirs = assembly.assemble(text + EPILOGUE, target.named(level))
    return {"kiln": assembled(text, level), "llvm": theirs}


def results(
    text: str, operands: Sequence[np.ndarray], size: int, level: str
) -> dict[str, np.ndarray]:
    """Return the bytes that `void @run(ptr %out, ptr %x0, ...)` writes, by each generator."""
    found = {}
    for name, image in images(text, level).items():
        code = assembly.load(image, "run")
        # What lies beyond must stay as it is.
        out = np.full(size + 64, 0xA5, np.uint8)
        held = [np.ascontiguousarray(x) for x in operands]
        run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (1 + len(held)))(code.address)
        run(out.ctypes.data, *[x.ctypes.data for x in held])
        assert (out[size:] == 0xA5).all(), name
        found[name] = out[:size]
    return found


def assert_same(
    text: str,
    operands: Sequence[np.ndarray],
    size: int,
    levels: Sequence[str] = LEVELS_HERE,
) -> np.ndarray:
    """Check that both generators write the same bytes for all levels, and return them."""
    for level in levels:
        found = results(text, operands, size, level)
        np.testing.assert_array_equal(found["kiln"], found["llvm"], f"{level}\n{text}")
    return found["kiln"]


def operand(rng: np.random.Generator) -> np.ndarray:
    """Return memory that is read as numbers of any type: ordinary ones, special ones, any bits."""
    parts = [
        rng.normal(size=OPERAND_BYTES // 16).astype(np.float32) * 50,
        rng.integers(0, 256, OPERAND_BYTES // 4).astype(np.uint8),
        rng.normal(size=OPERAND_BYTES // 32) * 50,
        np.tile(np.asarray([0, -0.0, np.inf, -np.inf, np.nan, 3e9, -3e9, 1e30], np.float32), 32),
    ]
    raw = b"".join(np.ascontiguousarray(p).tobytes() for p in parts)
    return np.resize(np.frombuffer(raw, np.uint8), OPERAND_BYTES).copy()
