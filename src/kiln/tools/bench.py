"""Times of jitted functions: `kiln bench`."""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from kiln.api.arrays import block_until_ready
from kiln.api.jit import jit
from kiln.base.lazy import json
from kiln.base.named_tuples import NamedTuple
from kiln.tools import tables
from kiln.tools.command_line import WrongUse

HELP = "the functions of a file that are named bench_*, timed as jitted calls"
EXAMPLES = """\
examples:
  kiln bench layers.py             each function: first call, median and minimum of calls
  kiln bench layers.py attention   only functions with `attention` in their names
  kiln bench --json layers.py      the same for scripts

The arguments of a function are the defaults of its parameters:

  def bench_product(a=jnp.ones((512, 512))):
      return a @ a
"""

PREFIX = "bench_"
SECONDS = 0.5
_FEWEST = 5


class Timing(NamedTuple):
    """The times of a function, in seconds: its first call, and those of later ones."""

    name: str
    first: float
    calls: list[float]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="how long each function is called"
    )
    parser.add_argument("file", help="a Python file")
    parser.add_argument("part", nargs="?", default="", help="a part of the functions' names")


def command(given: argparse.Namespace) -> int:
    """Time the functions and print a table; return the exit status."""
    found = functions(given.file, given.part)
    timings = [timed(name, call, given.seconds) for name, call in found.items()]
    if given.json:
        print(json.dumps([as_json(timing) for timing in timings], indent=2))
    else:
        columns = ("function", "first call", "median", "minimum", "calls")
        tables.show(f"{given.file}, jitted", columns, [*map(_row, timings)])
    return 0


def functions(path: str, part: str = "") -> dict[str, Callable[[], Any]]:
    """Return the functions of a file that are to be timed, by their names.

    Raises: WrongUse if there is no such file, or no such function in it; whatever the file raises.
    """
    found = {name: fun for name, fun in _loaded(path).items() if name.startswith(PREFIX)}
    chosen = {name: _call(fun) for name, fun in found.items() if part in name}
    if not chosen:
        what = (
            f"{', '.join(found)} have no {part!r}" if found else f"no function begins with {PREFIX}"
        )
        raise WrongUse(what, f"define one: def {PREFIX}square(x=jnp.arange(9.0)): return x * x")
    return chosen


def _loaded(path: str) -> dict[str, Any]:
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise WrongUse(f"{path} is not a Python file", "name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return vars(module)


def _call(fun: Any) -> Callable[[], Any]:
    given = []
    for parameter in inspect.signature(fun).parameters.values():
        if parameter.default is parameter.empty:
            raise WrongUse(
                f"the parameter {parameter.name} of {fun.__name__} has no default to be passed",
                f"give it one: {parameter.name}=jnp.arange(9.0)",
            )
        given.append(parameter.default)
    jitted = jit(fun)
    return lambda: block_until_ready(jitted(*given))


def timed(name: str, call: Callable[[], Any], seconds: float) -> Timing:
    """Call a function for this long, and at least a few times."""
    first, *calls = _durations(call, seconds)
    return Timing(name, first, calls)


def _durations(call: Callable[[], Any], seconds: float) -> Iterator[float]:
    # The second call still prepares what later ones reuse.
    yield _duration(call)
    call()
    end, made = time.perf_counter() + seconds, 0
    while made < _FEWEST or time.perf_counter() < end:
        yield _duration(call)
        made += 1


def _duration(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def as_json(timing: Timing) -> dict[str, Any]:
    """Return a timing as JSON; times are in seconds."""
    return {
        "function": timing.name,
        "first_call": timing.first,
        "median": statistics.median(timing.calls),
        "minimum": min(timing.calls),
        "calls": len(timing.calls),
    }


def _row(timing: Timing) -> tuple[str, ...]:
    found = as_json(timing)
    times = [_text(found[name]) for name in ("first_call", "median", "minimum")]
    return (timing.name, *times, str(found["calls"]))


def _text(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{1e6 * seconds:.2f} us"
