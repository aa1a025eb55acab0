"""What XLA's own interface takes of a call: starting the executable, and arrays for its results.

kiln runs these rows on its XLA engine.

The column `xla` is the least that a call through jaxlib can cost; the rest is the library's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import kiln
import kiln.numpy
from benchmarks.harness import Case, Library, Sampler, repeated
from kiln.base.options.config import override
from kiln.core.arrays.array import buffer_for
from kiln.core.engines.engine import engine
from kiln.engines.xla.runtime.client import client

COUNTS = (1, 10, 100)


def add_one(*xs: Any) -> list[Any]:
    """Add one to every array."""
    return [x + 1 for x in xs]


def alone(count: int) -> Callable[[], Any]:
    """Return the executable's call on buffers that are there."""
    xs = [kiln.numpy.arange(8.0) + i for i in range(count)]
    raw = kiln.jit(add_one).lower(*xs).compile().runtime_executable()
    handlers = [client("cpu").handler(x.aval) for x in xs]
    buffers = [buffer_for(x, engine("xla").memory) for x in xs]
    return lambda: raw.execute_sharded(buffers).consume_with_handlers(handlers)


def whole(lib: Library, count: int) -> Callable[[], Any]:
    """Return the call of the jitted function."""
    f = lib.root.jit(add_one)
    xs = [lib.np.arange(8.0) + i for i in range(count)]
    return lambda: f(*xs)


def _wait(results: Any) -> None:
    for x in results:
        x.block_until_ready()


def cases(libraries: Sequence[Library]) -> Iterator[Case]:
    """Yield the cases, each to be measured before the next is asked for."""
    with override(engine="xla"):
        for count in COUNTS:
            samplers: dict[str, Sampler] = {
                lib.name: repeated(whole(lib, count), _wait) for lib in libraries
            }
            samplers["xla"] = repeated(alone(count), _wait)
            yield Case(f"{count} in and out", samplers, rounds=40)
