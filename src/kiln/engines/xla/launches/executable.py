"""Compiled programs: running them, their text and statistics.

Programs with effects are wrapped so that ordered ones run in sequence and `barrier` can wait for
all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import _runtime
from kiln.base.errors import JaxRuntimeError, three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.core.engines.engine import Program
from kiln.engines.xla.launches.effects import Effects
from kiln.engines.xla.launches.serialized_launches import launching_of
from kiln.engines.xla.launches.shared_launches import SharedLauncher
from kiln.engines.xla.runtime.binding import XlaError, failed
from kiln.engines.xla.runtime.buffers import Buffer
from kiln.engines.xla.runtime.client import Client
from kiln.engines.xla.runtime.host_operands import sharer, staged_operands
from kiln.engines.xla.stablehlo.callbacks import level
from kiln.engines.xla.stablehlo.module import LoweredModule
from kiln.ir.shardings.sharding import Sharding


def _explain(error: BaseException, name: str) -> None:
    if isinstance(error, (XlaError, ValueError)):
        failed(error, f"running {name}")


_runtime.set_explain_failure(_explain)


class XlaExecutable(_runtime.Launcher):
    """A compiled program. A call enqueues it; results may not be computed yet."""

    final_stage = "hlo"
    __slots__ = ("_client", "lowered", "raw", "shardings", "stored_size")

    def __init__(
        self,
        client: Client,
        raw: Any,
        handlers: Sequence[Any],
        name: str,
        lowered: LoweredModule,
        shardings: Sequence[Sharding],
        staged: Program | None = None,
    ) -> None:
        execute, handlers = raw.execute_sharded, list(handlers)
        if staged is None:
            super().__init__(execute, handlers, name)
        else:
            types, share = staged_operands(staged), sharer(staged, client)
            super().__init__(execute, handlers, name, types, share)
        if client.is_divided or len(raw.local_devices()) > 1:
            launching = launching_of(client, raw, name, lowered.callbacks)
            self._execute, self._launch_lock, self._launches_alone, self._runs_alone = launching
        self._calls_host = bool(lowered.callbacks)
        self._client = client
        self.raw = raw
        self.lowered = lowered
        self.shardings = shardings
        # Of its bytes, once they were written or read: to write them takes a while.
        self.stored_size: int | None = None

    def share(self, group: Sequence[int], digest: str) -> None:
        """Make later runs run together with the other processes of a group."""
        self._launch_lock = None
        self._execute = SharedLauncher(
            self.raw, self.name, self.lowered.callbacks, self._client.launch_lock, group, digest
        )

    def out_shardings(self) -> Sequence[Sharding]:
        """Return the shardings of the results; only for a program with a placement."""
        return self.shardings

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
        """Return an estimate of the memory that XLA holds for the program."""
        calls_host = bool(self.lowered.callbacks)
        return self._client.resident_size(self.raw, self.stored_size, calls_host=calls_host)

    def runtime_executable(self) -> Any:
        """Return jaxlib's executable."""
        return self.raw

    def serialize(self) -> bytes:
        """Return the program as bytes, for this version of jaxlib and this type of CPU.

        Raises: ValueError for programs that call Python functions; JaxRuntimeError for those that
            XLA cannot serialize.
        """
        if self.lowered.callbacks:
            raise ValueError(
                three_lines(
                    f"serialize() of {self.name}",
                    f"the program calls {len(self.lowered.callbacks)} Python functions, which "
                    "cannot be serialized",
                    "compile it in the process that runs it",
                )
            )
        try:
            stored = self._client.serialize(self.raw)
        except XlaError as error:
            failed(error, f"serialize() of {self.name}")
        self.stored_size = len(stored)
        return stored


class Levels(NamedTuple):
    """The parameters of a program that calls Python for running on the client of a level.

    `home` holds its operands, sharded by `given`, and its results; `make` compiles it for a level.
    """

    home: Client
    given: Sequence[Sharding | None]
    make: Callable[[int], XlaExecutable]


class CallingExecutable(XlaExecutable):
    """A program that calls pure Python functions; it runs on the client of the caller's level.

    Without levels it runs on the given client: so do programs over several processes.
    """

    __slots__ = ("_deeper", "_effects", "_levels")

    def __init__(
        self,
        client: Client,
        raw: Any,
        handlers: Sequence[Any],
        name: str,
        lowered: LoweredModule,
        shardings: Sequence[Sharding],
        effects: Effects,
        levels: Levels | None,
    ) -> None:
        super().__init__(client, raw, handlers, name, lowered, shardings)
        self._effects = effects
        self._levels = levels
        self._deeper: dict[int, XlaExecutable] = {}

    def __call__(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """Run the program."""
        run = self._at(level())
        outs = _launch(run, self._lent(run, buffers))
        if outs:
            self._effects.watch(outs[0])
        return self._brought(run, outs)

    def _at(self, depth: int) -> XlaExecutable:
        if depth == 0 or self._levels is None:
            return self
        found = self._deeper.get(depth)
        if found is None:
            # If two threads compile it, the first result is used.
            found = self._deeper.setdefault(depth, self._levels.make(depth))
        return found

    def _lent(self, run: XlaExecutable, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """Return the operands as buffers of the client that runs the program."""
        if self._levels is None:
            return buffers
        adopted, home = run._client.adopted, self._levels.home
        return [adopted(x, home, s) for x, s in zip(buffers, self._levels.given, strict=True)]

    def _brought(self, run: XlaExecutable, outs: Sequence[Buffer]) -> Sequence[Buffer]:
        """Wait for results and return them as buffers of the first client."""
        if self._levels is None:
            return outs
        try:
            for out in outs:
                _runtime.block_until_ready(out)
        except XlaError as error:
            failed(error, f"running {self.name}")
        adopted = self._levels.home.adopted
        return [adopted(x, run._client, s) for x, s in zip(outs, self.shardings, strict=True)]


class EffectfulExecutable(CallingExecutable):
    """A program with effects: the engine waits for its first result, a token."""

    __slots__ = ("_everywhere",)

    def __init__(
        self,
        client: Client,
        raw: Any,
        handlers: Sequence[Any],
        name: str,
        lowered: LoweredModule,
        shardings: Sequence[Sharding],
        effects: Effects,
        levels: Levels | None,
        everywhere: Sharding | None,
    ) -> None:
        handlers = with_token(client, handlers, everywhere)
        super().__init__(client, raw, handlers, name, lowered, shardings, effects, levels)
        self._everywhere = everywhere

    def __call__(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """Run the program, after earlier ones if it has ordered effects."""
        effects, depth = self._effects, level()
        run = self._at(depth)
        given = self._lent(run, buffers)
        if self.lowered.ordered:
            # Held while the program is enqueued, not while it runs. Small programs do run inside,
            # and the programs of their callbacks take the lock of the next level.
            with effects.locks[depth]:
                token, *outs = _launch(run, [self._order_token(run, depth), *given])
                effects.orders[depth] = token, self._everywhere
        else:
            token, *outs = _launch(run, given)
        effects.add(token, depth)
        try:
            return self._brought(run, outs)
        except JaxRuntimeError:
            # Raised here, and not again by the next barrier.
            effects.forget(token)
            raise

    def _order_token(self, run: XlaExecutable, depth: int) -> Buffer:
        """Return the token of the last ordered program, or a new one."""
        token = self._effects.take_order(depth, self._everywhere)
        if token is None:
            token = run._client.put(np.zeros((0,), np.bool_), self._everywhere)
        return token


def with_token(client: Client, handlers: Sequence[Any], everywhere: Sharding | None) -> list[Any]:
    """Return the handlers of the results of a program with effects."""
    return [client.token_handler(everywhere), *handlers]


_launch = XlaExecutable.__call__
