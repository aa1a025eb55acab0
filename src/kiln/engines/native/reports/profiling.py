"""KILN_PROFILE: the cost of the statements of programs, by nest and by line of the user's code.

Programs compiled with the option `profile` are instrumented. When the process ends, all
measurements are printed to stderr, and the first runs are written as a trace for Perfetto and
Chrome.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from kiln.base.files.writing import folder_for, write_text
from kiln.base.lazy import heapq, json
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import options
from kiln.base.source import Source, place_of
from kiln.core.engines.memory_text import size_text
from kiln.engines.native.llvm.measuring import Measured, Measurements
from kiln.engines.native.loop_ir.products import matrix_of
from kiln.engines.native.loop_ir.statements import Blocked, Function, Nest, Statement, walk
from kiln.engines.native.loop_ir.text import headings
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.sizes.size import Size

MOST_LINES = 20
"""The number of lines listed: those that took longest."""

_profiles: list[Profile] = []


class Cost(NamedTuple):
    """What a statement cost without the statements inside it, and the lines that it computes.

    Each line has its part of the cost; together they are 1.
    """

    measured: Measured
    seconds: float
    bytes: float
    flops: float
    lines: dict[Source | None, float]


class Profile:
    """The measurements of one program, over all calls with any sizes of its named axes.

    `llvm` is the text of the instrumented code, once it is generated.
    """

    def __init__(
        self, function: Function, sizes: Sequence[str] = (), jaxpr: Jaxpr | None = None
    ) -> None:
        self.name = function.name
        self.function = function
        self.jaxpr = jaxpr
        self.llvm = ""
        self._called = f"{self.name}, for all sizes of {', '.join(sizes)}" if sizes else self.name
        self.measurements = Measurements(function)
        self.headings = headings(function)
        if not _profiles:
            atexit.register(report)
        _profiles.append(self)

    def measured(self) -> list[Measured]:
        """Return the cost of each statement."""
        return self.measurements.measured()

    def seconds(self) -> float:
        """Return the cost of all statements."""
        return sum(each.seconds for each in self.measured() if each.depth == 0)

    def costs(self) -> list[Cost]:
        """Return the cost of each statement, without that of the statements inside it."""
        found = []
        measured = self.measured()
        for i, each in enumerate(measured):
            inside = [0.0, 0.0, 0.0]
            for other in measured[i + 1 :]:
                if other.depth <= each.depth:
                    break
                if other.depth == each.depth + 1:
                    parts = (other.seconds, other.bytes, other.flops)
                    inside = [x + y for x, y in zip(inside, parts, strict=True)]
            own = (each.seconds, each.bytes, each.flops)
            seconds, touched, flops = (max(x - y, 0.0) for x, y in zip(own, inside, strict=True))
            lines = lines_computed(each.statement)
            total = sum(lines.values())
            shares = {source: work / total for source, work in lines.items()}
            found.append(Cost(each, seconds, touched, flops, shares))
        return found

    def by_line(self) -> dict[str, float]:
        """Return the seconds of each line; those of a nest are divided by instruction counts."""
        found: defaultdict[str, float] = defaultdict(float)
        for cost in self.costs():
            for source, share in cost.lines.items():
                found[place_of(source)] += cost.seconds * share
        return found

    def table(self) -> str:
        """Return the measurements as text."""
        total = self.seconds() or 1e-12
        measured = self.measured()
        calls = max([each.runs for each in measured], default=0)
        if measured:
            calls = measured[0].runs
        lines = [
            f"{self._called}: {time_text(total)} in {calls} calls",
            "      time  share      runs   per run   bytes/s    flop/s  statement",
        ]
        for each in measured:
            per_run = each.seconds / each.runs if each.runs else 0.0
            rate = 1 / each.seconds if each.seconds else 0.0
            lines.append(
                f"{time_text(each.seconds):>10} {each.seconds / total:6.1%} {each.runs:9} "
                f"{time_text(per_run):>9} {size_text(round(each.bytes * rate)):>9} "
                f"{count_text(each.flops * rate):>9}  "
                f"{'  ' * each.depth}{self.heading(each.statement)}"
            )
        lines.append("by line:")
        for place, seconds in heapq.nlargest(
            MOST_LINES, self.by_line().items(), key=lambda item: item[1]
        ):
            lines.append(f"{time_text(seconds):>10} {seconds / total:6.1%}  {place}")
        return "\n".join(lines)

    def heading(self, statement: Statement) -> str:
        """Describe a statement in one line."""
        return f"{self.headings[statement]}  {', '.join(places_of(statement))}"

    def places(self, statement: Statement) -> list[str]:
        """Return the lines of the user's code that a statement computes."""
        return places_of(statement)

    def trace_events(self, track: int) -> list[dict[str, Any]]:
        """Return the first runs of the statements in Chrome's trace format."""
        pid = os.getpid()
        made: list[dict[str, Any]] = [
            {
                "ph": "M",
                "name": "thread_name",
                "pid": pid,
                "tid": track,
                "args": {"name": f"{self.name} ({track})"},
            }
        ]
        statements = self.measurements.statements
        for event in self.measurements.events():
            statement = statements[event.statement][0]
            made.append(
                {
                    "ph": "X",
                    "name": self.headings[statement],
                    "cat": self.name,
                    "pid": pid,
                    "tid": track,
                    "ts": event.start / 1e3,
                    "dur": (event.end - event.start) / 1e3,
                    "args": {
                        "lines": places_of(statement),
                        "flops": event.flops,
                        "bytes": event.bytes,
                    },
                }
            )
        return made


def profiles() -> list[Profile]:
    """Return the profiles of the programs that ran."""
    return [each for each in _profiles if any(found.runs for found in each.measured())]


def trace() -> dict[str, Any]:
    """Return the runs of all measured programs as a trace for Perfetto and Chrome."""
    found = [profile.trace_events(track) for track, profile in enumerate(_profiles, 1)]
    return {"displayTimeUnit": "ns", "traceEvents": [event for each in found for event in each]}


def report() -> None:
    """Print the measurements of all programs, and write the trace, if the option is still on."""
    if not options().profile:
        return
    ran = profiles()
    if not ran:
        return
    path = os.path.join(options().dump_dir or os.getcwd(), f"kiln_profile_{os.getpid()}.json")
    texts = [each.table() for each in sorted(ran, key=lambda each: -each.seconds())]
    sys.stderr.write("\n\n".join(["--- kiln profile", *texts]) + "\n")
    try:
        with folder_for(os.path.dirname(path)):
            write_text(path, json.dumps(trace()))
        sys.stderr.write(f"\ntrace for https://ui.perfetto.dev: {path}\n")
    except OSError as error:
        sys.stderr.write(f"\nno trace was written: {error}\nset KILN_DUMP_DIR to another folder\n")


def lines_computed(statement: Statement) -> dict[Any, float]:
    """Return the lines of the user's code that a statement computes, and the work of each."""
    match statement:
        case Nest():
            return dict(statement.lines)
        case Blocked():
            # A point of a product with this many terms, and a point of its epilogue.
            matrix = matrix_of(statement.product)
            assert matrix is not None
            found = {statement.product.source: float(matrix.terms)}
            nests = [each for each in walk([statement.epilogue]) if isinstance(each, Nest)]
            for source, work in [item for nest in nests for item in nest.lines.items()]:
                found[source] = found.get(source, 0.0) + work
            return found
    return {statement.source: 1.0}


def places_of(statement: Statement) -> list[str]:
    """Return the lines of the user's code that a statement computes."""
    return list(dict.fromkeys(map(place_of, lines_computed(statement))))


def time_text(seconds: float) -> str:
    """Return a time in the largest unit of which there is at least one."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def count_text(number: float | Size) -> str:
    """Return a number with at most three digits, in thousands, millions or more; or by names."""
    if isinstance(number, Size):
        return str(number)
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g} {unit}"
    return f"{number:.3g}"
