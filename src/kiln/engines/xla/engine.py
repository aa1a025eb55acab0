"""The xla engine: programs compiled by XLA through jaxlib.

Puts together the parts: `module.lower` writes StableHLO, `client` compiles and runs it. Programs
with effects are wrapped so that ordered ones follow each other and `barrier` can wait for all.
"""

from __future__ import annotations

import atexit
import collections
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base.errors import JaxRuntimeError, three_lines
from kiln.core.engine import Program
from kiln.engines.xla import client as runtime
from kiln.engines.xla.client import Buffer, Device
from kiln.engines.xla.lowerings import LOWERINGS
from kiln.engines.xla.module import Lowered, lower


class XlaExecutable(runtime.Loaded):
    """A compiled program. Calling it runs it; results may still be on their way."""

    __slots__ = ("lowered",)

    def __init__(self, raw: Any, handlers: Sequence[Any], name: str, lowered: Lowered) -> None:
        super().__init__(raw, handlers, name)
        self.lowered = lowered

    def as_text(self, stage: str) -> str:
        """Return the program before (`stablehlo`) or after (`hlo`) XLA's optimizations.

        Raises: ValueError for another stage.
        """
        if stage == "stablehlo":
            return self.lowered.text
        if stage == "hlo":
            return str(self.raw.get_hlo_text())
        raise ValueError(
            three_lines(
                f"as_text({stage!r}) of {self.name}",
                "the xla engine has no such stage",
                "use 'stablehlo' or 'hlo'",
            )
        )

    def cost_analysis(self) -> dict[str, float]:
        """Return XLA's estimates, such as `flops` and `bytes accessed`."""
        return dict(self.raw.cost_analysis())

    def memory_analysis(self) -> Any:
        """Return XLA's memory use: `argument_size_in_bytes`, `temp_size_in_bytes`, ..."""
        return self.raw.get_compiled_memory_stats()

    def size_in_bytes(self) -> int:
        """Return roughly the memory XLA holds for the program."""
        return runtime.client().resident_size(self.raw)

    def serialize(self) -> bytes:
        """Return the program as bytes, for this version of jaxlib and this kind of processor.

        Raises: ValueError for programs that call Python functions.
        """
        if self.lowered.callbacks:
            raise ValueError(
                three_lines(
                    f"serialize() of {self.name}",
                    f"the program calls {len(self.lowered.callbacks)} Python functions, which "
                    "cannot be written down",
                    "compile it in the process that runs it",
                )
            )
        return runtime.client().serialize(self.raw)


class EffectfulExecutable(XlaExecutable):
    """A program with effects: its first result is a token, by which the engine waits for it."""

    __slots__ = ("_effects",)

    def __init__(
        self, raw: Any, handlers: Sequence[Any], name: str, lowered: Lowered, effects: Effects
    ) -> None:
        super().__init__(raw, [runtime.client().token_handler(), *handlers], name, lowered)
        self._effects = effects

    def __call__(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """Enqueue the program, after earlier ones if it has ordered effects."""
        effects = self._effects
        if not self.lowered.ordered:
            token, *outs = super().__call__(buffers)
            effects.add(token)
            return outs
        # Held while the program is enqueued, not while it runs to its end. Small programs do run
        # inside, and their callbacks may come back here on the same thread: hence reentrant.
        with effects.lock:
            token, *outs = super().__call__([effects.take_order(), *buffers])
            effects.order = token
        effects.add(token)
        return outs


class Effects:
    """The programs with effects that may still be running, and the order among them."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.order: Buffer | None = None
        self._running: collections.deque[Buffer] = collections.deque()
        self._running_lock = threading.Lock()
        self._failures: list[Exception] = []
        atexit.register(self._settle)

    def take_order(self) -> Buffer:
        """Return the token of the last ordered program; a new one if that program failed."""
        found, self.order = self.order, None
        if found is None or (runtime.is_ready(found) and _failure(found) is not None):
            return runtime.client().put(np.zeros((0,), np.bool_))
        return found

    def add(self, token: Buffer) -> None:
        """Remember a running program, and forget those that have ended."""
        running = self._running
        with self._running_lock:
            running.append(token)
            ended = []
            while len(running) > 1 and runtime.is_ready(running[0]):
                ended.append(running.popleft())
        for token in ended:
            self._finish(token)

    def _finish(self, token: Buffer) -> None:
        failure = _failure(token)
        if failure is not None:
            self._failures.append(failure)

    def _settle(self) -> None:
        """Wait for all: callbacks must not run while the interpreter is being taken down."""
        while True:
            with self._running_lock:
                if not self._running:
                    return
                token = self._running.popleft()
            self._finish(token)

    def barrier(self) -> None:
        """Wait until every program with effects has ended; raise the first failure."""
        self._settle()
        failures, self._failures = self._failures, []
        if failures:
            raise failures[0]


def _failure(token: Buffer) -> Exception | None:
    try:
        runtime.wait(token)
    except JaxRuntimeError as error:
        return error
    return None


class XlaEngine:
    """Runs programs by XLA."""

    name = "xla"
    host_memory = False

    def __init__(self) -> None:
        self._effects = Effects()

    def devices(self) -> Sequence[Device]:
        """Return the devices of this process."""
        return runtime.client().devices

    def put(self, value: np.ndarray) -> Buffer:
        """Copy host data into a new buffer."""
        return runtime.client().put(value)

    def adopt(self, value: np.ndarray) -> Buffer:
        """Make a buffer of host memory nobody will write again; shared if 64-byte aligned."""
        return runtime.client().put(value, share=True)

    def get(self, buffer: Buffer) -> np.ndarray:
        """Wait for a buffer and return a read-only view of its data."""
        return runtime.get(buffer)

    def wait(self, buffer: Buffer) -> None:
        """Block until a buffer's data is there; raise what went wrong while it was computed."""
        runtime.wait(buffer)

    def is_ready(self, buffer: Buffer) -> bool:
        """Tell whether a buffer's data is there."""
        return runtime.is_ready(buffer)

    def delete(self, buffer: Buffer) -> None:
        """Free a buffer."""
        runtime.delete(buffer)

    def pointer(self, buffer: Buffer) -> int:
        """Return the address of a buffer's first element."""
        return runtime.pointer(buffer)

    def barrier(self) -> None:
        """Wait until every program with effects has ended."""
        self._effects.barrier()

    def lower(self, program: Program) -> str:
        """Return the program as StableHLO."""
        return lower(program.jaxpr, program.name, LOWERINGS).text

    def compile(self, program: Program) -> XlaExecutable:
        """Compile a program.

        Raises: UnsupportedPrimitive; JaxRuntimeError for what XLA refuses.
        """
        lowered = lower(program.jaxpr, program.name, LOWERINGS)
        here = runtime.client()
        raw = here.compile(
            lowered.text,
            name=program.name,
            settings=program.compiler_options,
            callbacks=lowered.callbacks,
        )
        handlers = [here.handler(aval) for aval in program.jaxpr.out_avals]
        if lowered.effects:
            return EffectfulExecutable(raw, handlers, program.name, lowered, self._effects)
        return XlaExecutable(raw, handlers, program.name, lowered)


def make_engine() -> XlaEngine:
    """Return the engine."""
    return XlaEngine()
