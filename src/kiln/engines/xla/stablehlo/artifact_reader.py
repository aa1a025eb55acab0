"""Portable artifacts as MLIR modules, in this process or, run as a script, in a separate one.

StableHLO's parser is not safe for damaged bytes: it may crash the process. The script reads
messages from `../untrusted.py`, and imports only jaxlib, so that it starts quickly. Each message,
in both directions, is its length in 8 bytes followed by its bytes: first the script's `sys.path` as
JSON, then artifacts; the reply to an artifact is an error text, empty if it is valid.
"""

from __future__ import annotations

import importlib
import json
import struct
import sys
from typing import Any, BinaryIO

LENGTH = struct.Struct("<Q")


def new_context() -> Any:
    """Return an MLIR context with the dialects of artifacts, and of their modules."""
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
    """Return the error of an artifact, "" if valid, after doing everything that its user will."""
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
