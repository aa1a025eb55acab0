"""Portable artifacts as modules of MLIR, in this process or, run as a script, in one of its own.

StableHLO's parser is not safe with damaged bytes: it may end the process. The script reads what
`../untrusted.py` sends it, and imports jaxlib alone, so that it starts soon. Each message either
way is its length in 8 bytes, and its bytes: first the script's `sys.path` as JSON, then artifacts;
the answer to an artifact is what is wrong with it, empty for nothing.
"""

from __future__ import annotations

import importlib
import json
import struct
import sys
from typing import Any, BinaryIO

LENGTH = struct.Struct("<Q")


def new_context() -> Any:
    """Return a context of MLIR with the dialects of artifacts, and those of their modules."""
    ir = importlib.import_module("jaxlib.mlir.ir")
    extension = importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext")
    registry = ir.DialectRegistry()
    extension.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for name in ("stablehlo", "chlo", "sdy"):
        importlib.import_module(f"jaxlib.mlir.dialects.{name}").register_dialect(context)
    return context


def read(stored: bytes, context: Any) -> Any:
    """Return the module of an artifact.

    Raises: jaxlib's error for other bytes.
    """
    artifacts = importlib.import_module("jaxlib._jax").mlir
    return artifacts.deserialize_portable_artifact(stored, context)


def _fault(stored: bytes, context: Any) -> str:
    """Return what is wrong with an artifact, after doing with it all that its user will."""
    ir = importlib.import_module("jaxlib.mlir.ir")
    try:
        module = read(stored, context)
        module.operation.verify()
        ir.Module.parse(str(module), context)
    except Exception as error:  # noqa: BLE001, jaxlib raises many classes
        return " ".join(str(error).split()) or type(error).__name__
    return ""


def _message(source: BinaryIO) -> bytes | None:
    begin = source.read(LENGTH.size)
    return source.read(LENGTH.unpack(begin)[0]) if len(begin) == LENGTH.size else None


def _serve(source: BinaryIO, target: BinaryIO) -> None:
    places = _message(source)
    assert places is not None
    sys.path[:] = json.loads(places)
    context = new_context()
    while (stored := _message(source)) is not None:
        answer = _fault(stored, context).encode(errors="replace")
        target.write(LENGTH.pack(len(answer)) + answer)
        target.flush()


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)
