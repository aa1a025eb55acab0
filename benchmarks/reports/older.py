"""Another release of JAX, in a process of another interpreter, as a column of its own.

The process is this module, run by that interpreter. It measures there what this process asks for,
so that both releases take turns.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import harness
from benchmarks.reports.collection import ROWS
from benchmarks.suite.measuring import as_numpy
from benchmarks.suite.peers import ArrayLibrary, Peer, Prepared, leaves
from benchmarks.suite.row import Row, Work

ROOT = Path(__file__).parents[2]
ASK_VERSION = "import importlib.metadata as m; print(m.version('jax'))"


@dataclasses.dataclass(frozen=True)
class Remote(Prepared):
    """A call in the other process."""

    ask: Callable[..., Any]

    def run(self) -> Any:
        """Call once, and wait; return the leaves of the result, as NumPy's arrays."""
        return self.ask("run")

    def sampler(self, result: Any, waiting: bool, shortest_s: float) -> harness.Sampler:
        """Return a sampler that measures in the other process."""
        self.ask("sampler", waiting, shortest_s)
        return lambda: float(self.ask("sample"))


class OlderJax(Peer):
    """JAX as another interpreter has it."""

    package = "jax"
    in_this_process = False

    def __init__(self, interpreter: str) -> None:
        self.interpreter = interpreter
        command = [interpreter, "-c", ASK_VERSION]
        version = subprocess.run(command, check=True, capture_output=True, text=True)
        self.name = f"jax {version.stdout.strip()}"

    def load(self) -> None:
        """Start the process."""
        kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        self._process = subprocess.Popen(
            [self.interpreter, "-m", __name__],
            cwd=ROOT,
            env=kept,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._ask("load")

    def _ask(self, *message: Any) -> Any:
        sent, received = self._process.stdin, self._process.stdout
        assert sent is not None
        assert received is not None
        pickle.dump(message, sent)
        sent.flush()
        worked, found = pickle.load(received)
        if not worked:
            raise RuntimeError(found)
        return found

    def prepare(self, row: Row, work: Work) -> Prepared | None:
        """Return the row's program, built in the other process at the same size."""
        self._ask("prepare", row.name, work.size)
        return Remote({}, False, self._ask)


class _Served:
    """What the other process holds."""

    def __init__(self) -> None:
        self.library = ArrayLibrary("jax")

    def load(self) -> None:
        self.jax = importlib.import_module("jax")
        self.library.load()

    def prepare(self, name: str, size: Any) -> None:
        row = next(row for row in ROWS if row.name == name)
        self.jax.config.update("jax_enable_x64", row.x64)
        self.jax.config.update("jax_threefry_partitionable", True)
        call = self.library.prepare(row, row.build(*size))
        assert call is not None
        self.call: Prepared = call

    def run(self) -> list[Any]:
        self.result = self.call.run()
        return [as_numpy(leaf) for leaf in leaves(self.result)]

    def sampler(self, waiting: bool, shortest_s: float) -> None:
        self.timed = self.call.sampler(self.result, waiting, shortest_s)

    def sample(self) -> float:
        return self.timed()


def serve() -> None:
    """Answer requests until the other side closes."""
    received, sent = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # What libraries print must not get between the answers.
    os.dup2(2, 1)
    served = _Served()
    while True:
        try:
            name, *message = pickle.load(received)
        except EOFError:
            return
        try:
            answer: tuple[bool, Any] = (True, getattr(served, name)(*message))
        # What fails there is the result of the row here.
        except Exception as error:  # noqa: BLE001
            answer = (False, f"{type(error).__name__}: {error}")
        pickle.dump(answer, sent)
        sent.flush()


if __name__ == "__main__":
    serve()
