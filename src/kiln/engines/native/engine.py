"""The native engine: programs as machine code that runs on the calling thread and a thread pool."""

from __future__ import annotations

from kiln.core.arrays.host_memory import HOST_MEMORY
from kiln.core.engines.engine import Compiler, load_module
from kiln.engines.native.executables import stored

_COMPILER = "kiln.engines.native.compiler"


class NativeEngine:
    """Compiles programs for the host CPU."""

    name = "native"
    memory = HOST_MEMORY
    machine = staticmethod(stored.machine)
    to_stored = staticmethod(stored.to_stored)
    from_stored = staticmethod(stored.from_stored)
    when_improved = staticmethod(stored.when_improved)

    _compiler: Compiler | None = None

    @property
    def compiler(self) -> Compiler:
        """The compiler, loaded on first use: stored programs run without it."""
        found = self._compiler
        if found is None:
            # Two threads may both create one: compilers have no state.
            found = self._compiler = load_module(_COMPILER).NativeCompiler()
        return found

    def barrier(self) -> None:
        """Return at once: programs run on the calling thread."""


def make_engine() -> NativeEngine:
    """Return the engine."""
    return NativeEngine()
