"""Programs that were exported and loaded: by the native engine, by XLA, and as they were written.

`python -m benchmarks.exported`. The StableHLO is raised to kiln's primitives once for each loaded
program and its types; a first call includes that. Times of calls are minima over rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import export, lax, random
from kiln.base.options.config import override
from kiln.control.exported_call import expanded
from kiln.core.trace import aval_of
from kiln.export.exported import portable

ROUNDS = 50
_DRAW = np.random.RandomState(0)


class Program(NamedTuple):
    """A function with arguments."""

    function: Callable[..., Any]
    arguments: tuple[np.ndarray, ...]


class Row(NamedTuple):
    """What was measured, in seconds; `written` is a call of the function that was exported."""

    name: str
    raising: float
    first: float
    call: float
    xla_first: float
    xla_call: float
    written: float


def _normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (_DRAW.randn(*shape) * scale).astype(np.float32)


def programs(*, tiny: bool = False) -> dict[str, Program]:
    """Return the programs by name."""
    width, length = (8, 20) if tiny else (256, 20_000)
    weights = [_normal(width, width, scale=width**-0.5) for _ in range(4)]
    cell = _normal(64, 64, scale=0.1)

    def mlp(x: Any) -> Any:
        for w in weights:
            x = kiln.nn.gelu(x @ w)
        return kiln.nn.softmax(x)

    def rnn(xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(h @ cell + x)
            return h, h

        return lax.scan(step, jnp.zeros(64, "float32"), xs)[1]

    def image(x: Any, w: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        return kiln.nn.relu(
            lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)
        )

    size = 8 if tiny else 32
    return {
        "an MLP, 4 x 256, 32 rows": Program(mlp, (_normal(32, width),)),
        "an RNN, 200 steps of 64": Program(rnn, (_normal(200, 64),)),
        "a 3x3 convolution": Program(image, (_normal(4, size, size, 16), _normal(3, 3, 16, 32))),
        "20,000 numbers sorted": Program(jnp.sort, (_normal(length),)),
        "20,000 running sums": Program(jnp.cumsum, (_normal(length),)),
        "20,000 normal numbers": Program(
            lambda data: random.normal(random.wrap_key_data(data), (length,)),
            (np.array([1, 2], np.uint32),),
        ),
    }


def measure(name: str, program: Program, rounds: int = ROUNDS) -> Row:
    """Return the times of a program."""
    stored = export.export(kiln.jit(program.function))(*program.arguments).serialize()
    arguments = [jnp.asarray(x) for x in program.arguments]
    start = time.perf_counter()
    expanded(portable(export.deserialize(stored)), [aval_of(x) for x in arguments])
    raising = time.perf_counter() - start
    times = []
    for engine in ("native", "xla"):
        with override(engine=engine):
            loaded = export.deserialize(stored)
            times += _times(loaded.call, arguments, rounds)
    _, written = _times(kiln.jit(program.function), arguments, rounds)
    return Row(name, raising, *times, written)


def _times(call: Callable[..., Any], arguments: list[Any], rounds: int) -> tuple[float, float]:
    """Return the seconds of a first call, and of later ones."""
    start = time.perf_counter()
    kiln.block_until_ready(call(*arguments))
    first, best = time.perf_counter() - start, float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        kiln.block_until_ready(call(*arguments))
        best = min(best, time.perf_counter() - start)
    return first, best


def table(rows: list[Row]) -> str:
    """Return the table of some rows."""
    lines = [
        "| program | raised | first call | call | first call, XLA | call, XLA | as written |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        whole = [row.raising, row.first, row.call, row.xla_first, row.xla_call, row.written]
        lines.append(f"| {row.name} | {' | '.join(map(_time, whole))} |")
    return "\n".join(lines)


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"


def main() -> None:
    """Measure, and print the table."""
    # Compilers load on first use; code on disk is not counted as a first call.
    with override(cache_dir=""):
        for engine in ("native", "xla"):
            with override(engine=engine):
                kiln.jit(lambda x: jnp.tanh(x @ x).sum())(jnp.ones((40, 40))).block_until_ready()
        print(table([measure(name, program) for name, program in programs().items()]))


if __name__ == "__main__":
    main()
