"""The native engine: programs as LLVM code that runs on the calling thread and its helpers."""

from __future__ import annotations

from kiln.core.host_memory import HOST_MEMORY
from kiln.engines.native.compiler import NativeCompiler


class NativeEngine:
    """Compiles programs for the processor of the host."""

    name = "native"
    memory = HOST_MEMORY
    compiler = NativeCompiler()

    def barrier(self) -> None:
        """Return at once: programs run on the calling thread."""


def make_engine() -> NativeEngine:
    """Return the engine."""
    return NativeEngine()
