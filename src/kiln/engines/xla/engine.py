"""The xla engine: programs compiled by XLA through jaxlib, run on the devices of one platform."""

from __future__ import annotations

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.peers import JoinRequest, Link
from kiln.engines.xla import coordination
from kiln.engines.xla.client import has_started
from kiln.engines.xla.compiler import XlaCompiler
from kiln.engines.xla.effects import Effects
from kiln.engines.xla.memory import XlaMemory


class XlaEngine:
    """Runs programs by XLA."""

    name = "xla"

    def __init__(self, platform: str = "cpu") -> None:
        self._effects = Effects()
        self.memory = XlaMemory(platform)
        self.compiler = XlaCompiler(platform, self._effects)

    def join(self, request: JoinRequest) -> Link:
        """Make this process one of several; before the devices are used.

        Raises: RuntimeError if they have been; JaxRuntimeError if the others do not come.
        """
        if has_started():
            raise RuntimeError(
                three_lines(
                    f"distributed.initialize at {current_source()}",
                    "distributed.initialize must be called before any computation or question that "
                    "makes the devices, and they have been made",
                    "call it first, before kiln.devices(), kiln.device_put and programs",
                )
            )
        return coordination.connect(request)

    def barrier(self) -> None:
        """Wait until every program with effects has ended; raise the first failure."""
        self._effects.barrier()


def make_engine() -> XlaEngine:
    """Return the engine."""
    return XlaEngine()
