"""Functions of LLVM IR, compiled by the assembler of the extension and by LLVM."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from kiln import _runtime
from kiln.engines.native.llvm import assembly
from kiln.engines.native.llvm.generation import LEVEL

OPERAND_BYTES = 4096
"""How much memory `operand` returns."""
EPILOGUE = """
attributes #0 = { nounwind }
!0 = !{!"branch_weights", i32 1, i32 4000}
"""

needs_level = pytest.mark.skipif(
    assembly.host_target().name != LEVEL, reason=f"the assembler writes code for {LEVEL}"
)


def assembled(text: str) -> bytes:
    """Return the object of a module; the text must be understood."""
    found = _runtime.assemble_text(text + EPILOGUE)
    assert isinstance(found, bytes), f"{found}\n{text}"
    return found


def refusal(text: str) -> str:
    """Return why a module is not understood."""
    found = _runtime.assemble_text(text + EPILOGUE)
    assert isinstance(found, str), "the text is understood"
    return found


GENERATORS: dict[str, Callable[[str], bytes]] = {
    "kiln": assembled,
    "llvm": lambda text: assembly.assemble(text + EPILOGUE),
}


def results(text: str, operands: Sequence[np.ndarray], size: int) -> dict[str, np.ndarray]:
    """Return the bytes that `void @run(ptr %out, ptr %x0, ...)` writes, by each generator."""
    found = {}
    for name, generator in GENERATORS.items():
        code = assembly.load(generator(text), "run")
        # What lies beyond must stay as it is.
        out = np.full(size + 64, 0xA5, np.uint8)
        held = [np.ascontiguousarray(x) for x in operands]
        run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (1 + len(held)))(code.address)
        run(out.ctypes.data, *[x.ctypes.data for x in held])
        assert (out[size:] == 0xA5).all(), name
        found[name] = out[:size]
    return found


def assert_same(text: str, operands: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Check that both generators write the same bytes, and return them."""
    found = results(text, operands, size)
    np.testing.assert_array_equal(found["kiln"], found["llvm"], text)
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
