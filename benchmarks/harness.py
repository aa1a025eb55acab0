"""Times the same work in several libraries side by side, in one process.

A `Case` has one sampler per column; a sampler does the work once or often and returns seconds per
piece of work. Columns take turns within every round and change places from round to round, so a
slow spell of the machine meets all of them. What counts is the median and the minimum over rounds.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import statistics
import time
import timeit
from collections.abc import Callable, Mapping
from typing import Any

Sampler = Callable[[], float]

clock: Callable[[], float] = time.perf_counter
"""What `repeated` measures by."""

SHORTEST_SAMPLE_S = 0.005
FEWEST_SAMPLES = 3


@dataclasses.dataclass(frozen=True)
class Library:
    """A library under test: `root.jit`, `np.sin`. All columns run the same program text."""

    name: str
    module: str
    root: Any
    np: Any


def load(name: str) -> Library:
    """Import a library and its NumPy-like namespace; `again=jax` is jax in a column `again`."""
    label, _, module = name.rpartition("=")
    root, np = importlib.import_module(module), importlib.import_module(f"{module}.numpy")
    return Library(label or module, module, root, np)


@dataclasses.dataclass(frozen=True)
class Case:
    """One line of a table: what is timed, and how, in each column."""

    name: str
    samplers: Mapping[str, Sampler]
    rounds: int = 20


@dataclasses.dataclass(frozen=True)
class Timing:
    """Seconds per piece of work, over the rounds."""

    median_s: float
    min_s: float
    samples: int

    @classmethod
    def of(cls, samples_s: list[float]) -> Timing:
        """Summarize samples."""
        return cls(statistics.median(samples_s), min(samples_s), len(samples_s))


@dataclasses.dataclass(frozen=True)
class Row:
    """A measured case."""

    name: str
    columns: Mapping[str, Timing]

    def ratio(self, first: str, second: str) -> float | None:
        """Return how many times longer `first` takes than `second`, by medians."""
        if first not in self.columns or second not in self.columns:
            return None
        return self.columns[first].median_s / self.columns[second].median_s


def measure(
    case: Case, at_most: int | None = None, budget_s: float | None = None, rest_s: float = 0.0
) -> Row:
    """Run the rounds of a case, or `at_most` so many.

    With `rest_s` there is a rest before each sample, and then one that is not counted, after which
    the threads and caches are the column's own again. A column that has used `budget_s` seconds
    sits out the remaining rounds, but the first three.
    """
    rounds = min(case.rounds, at_most or case.rounds)
    names = list(case.samplers)
    samples: dict[str, list[float]] = {name: [] for name in names}
    spent = dict.fromkeys(names, 0.0)
    for name in names:
        case.samplers[name]()  # Warms caches and calibrates; not counted.
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            if budget_s is not None and number >= FEWEST_SAMPLES and spent[name] >= budget_s:
                continue
            with _no_collection():
                if rest_s:
                    time.sleep(rest_s)
                    case.samplers[name]()
                start = time.perf_counter()
                samples[name].append(case.samplers[name]())
                spent[name] += time.perf_counter() - start
    return Row(case.name, {name: Timing.of(times) for name, times in samples.items()})


class _no_collection:
    """Keep the garbage collector out of a sample; collect before it instead."""

    def __enter__(self) -> None:
        gc.collect()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        gc.enable()


def repeated(call: Callable[[], Any], finish: Callable[[Any], Any]) -> Sampler:
    """Return a sampler of `call`, repeated until the clock is fine enough.

    `finish` waits for the last result, inside the sample.
    """
    state = {"number": 1}

    def run(number: int) -> float:
        result = None
        start = clock()
        for _ in range(number):
            result = call()
        finish(result)
        return clock() - start

    def sample() -> float:
        elapsed = run(state["number"])
        while elapsed < SHORTEST_SAMPLE_S / 2 and state["number"] < 1 << 20:
            state["number"] = max(
                state["number"] * 2,
                int(state["number"] * SHORTEST_SAMPLE_S / max(elapsed, 1e-7)),
            )
            elapsed = run(state["number"])
        return elapsed / state["number"]

    return sample


def timed(
    statement: str, names: Mapping[str, Any], shortest_s: float = SHORTEST_SAMPLE_S
) -> Sampler:
    """Return a sampler of a statement as it stands, without a function around it.

    The first sample finds out how often it is repeated to last `shortest_s`.
    """
    timer = timeit.Timer(statement, globals=dict(names))
    state = {"number": 0}

    def sample() -> float:
        if not state["number"]:
            # The first run is often several times slower than the others.
            timer.timeit(1)
            number, elapsed = 1, timer.timeit(1)
            while elapsed < shortest_s / 4:
                number *= 4
                elapsed = timer.timeit(number)
            state["number"] = max(1, round(number * shortest_s / elapsed))
        return timer.timeit(state["number"]) / state["number"]

    return sample


def once(prepare: Callable[[], Any], work: Callable[[Any], Any]) -> Sampler:
    """Return a sampler that does `work` a single time on something freshly prepared."""

    def sample() -> float:
        subject = prepare()
        start = time.perf_counter()
        work(subject)
        return time.perf_counter() - start

    return sample
