"""The xla engine: programs compiled by XLA through jaxlib, run on the devices of one platform."""

from __future__ import annotations

from kiln.engines.xla.compiler import XlaCompiler
from kiln.engines.xla.launches.effects import Effects
from kiln.engines.xla.runtime import coordination
from kiln.engines.xla.runtime.client import has_started
from kiln.engines.xla.runtime.memory import XlaMemory


class XlaEngine:
    """Runs programs by XLA."""

    name = "xla"

    def __init__(self, platform: str = "cpu") -> None:
        self._effects = Effects()
        self.memory = XlaMemory(platform)
        self.compiler = XlaCompiler(platform, self._effects)

    has_devices = staticmethod(has_started)
    host = staticmethod(coordination.host)
    connect = staticmethod(coordination.connect)

    def barrier(self) -> None:
        """Wait until all programs with effects have ended; raise the first failure."""
        self._effects.barrier()


def make_engine() -> XlaEngine:
    """Return the engine."""
    return XlaEngine()
