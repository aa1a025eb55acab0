"""Where the time of a program's first calls goes: `kiln explain`."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kiln.base.lazy import LazyModule, json
from kiln.base.main_program import run_file, run_module, status_of
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import config
from kiln.execution import disk_cache
from kiln.execution.fallbacks import Fallback, explain_fallbacks
from kiln.jit.history import REMEDIES
from kiln.jit.signatures.explain import Record, explain_recompiles, reason_text
from kiln.tools import run, tables

# Importing the package makes `import jax` import kiln.
finder = LazyModule("kiln.as_jax.finder")
door = LazyModule("kiln.as_jax.__main__")

HELP = "a program, then what was compiled more than once, and why"
EXAMPLES = """\
examples:
  kiln explain train.py --epochs 1         run the program, then print tables
  kiln explain train.py 2>/dev/null        without what it writes to standard error
  kiln explain --json train.py >why.json   for scripts; the program prints to standard error
  kiln explain --as-jax -m pytest tests    of programs for JAX

Flags of kiln are written before the program; what follows it is the program's.
"""

_OTHER_REMEDIES = {
    "new function": "jit the function once: not in a loop, nor in a function that is called again",
    "closure": "pass the values that it closes over as arguments",
    "evicted": "raise the option executable_cache_mb",
}
_HOW = "look at kiln.explain_recompiles()"
_MOST_FUNCTIONS = 20
_MOST_REASONS = 8
"""The most rows of the table of functions; those of one function in the table of reasons."""
_FIRST = "first call"
_KILN = str(Path(disk_cache.__file__).parents[2])


class Report(NamedTuple):
    """What happened while a program ran."""

    words: Sequence[str]
    status: int
    seconds: float
    records: list[Record]
    fallbacks: list[Fallback]
    hits: int
    misses: int


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, the program and its arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else")
    run.arguments(parser)


def command(given: argparse.Namespace) -> int:
    """Run a program in this process, print the report, and return the program's exit status."""
    run.check(given)
    program = program_of(given)
    with output_to_stderr() if given.json else contextlib.nullcontext():
        report = explained(program, [given.program, *given.arguments])
    if given.json:
        print(json.dumps(as_json(report), indent=2))
    else:
        show(report)
    return report.status


def program_of(given: argparse.Namespace) -> Callable[[], None]:
    """Apply the flags, and return what runs the program."""
    os.environ.update(run.environment(given))
    # kiln has read the environment already.
    for name, value in run.changed_options(given).items():
        config.update(name, value)
    if not sys.flags.safe_path:
        # The folder of the command, or the current one for `python -m kiln`.
        sys.path.pop(0)
    if given.as_jax:
        finder.install(linen=given.linen)
        words = [*["-m"] * given.module, given.program, *given.arguments]
        program: Callable[[], None] = functools.partial(
            door.run_program, words, {"--linen"} if given.linen else set()
        )
        return program
    return functools.partial(
        run_module if given.module else run_file, given.program, given.arguments
    )


@contextlib.contextmanager
def output_to_stderr() -> Iterator[None]:
    """Redirect standard output, of processes that the program starts too."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def explained(program: Callable[[], None], words: Sequence[str]) -> Report:
    """Run a program and return what happened."""
    counts = disk_cache.counts
    hits, misses = counts.hits, counts.misses
    start = time.perf_counter()
    with explain_recompiles() as records, explain_fallbacks() as fallbacks:
        status = status_of(program)
    seconds = time.perf_counter() - start
    found = (list(records), list(fallbacks), counts.hits - hits, counts.misses - misses)
    return Report(words, status, seconds, *found)


def as_json(report: Report) -> dict[str, Any]:
    """Return a report as JSON."""
    return {
        "program": [*report.words],
        "status": report.status,
        "seconds": report.seconds,
        "functions": [
            {
                "function": records[0].function,
                "definition": records[0].definition,
                "traces": len(records),
                "trace_seconds": sum(record.trace_seconds for record in records),
                "compile_seconds": sum(record.compile_seconds for record in records),
            }
            for records in by_function(report.records)
        ],
        "recompiled": [
            {
                "function": record.function,
                "definition": record.definition,
                "called_at": record.source,
                "reason": record.reason,
                "argument": record.argument,
                "old": record.old,
                "new": record.new,
                "seconds": record.seconds,
                "remedy": remedy(record),
            }
            for record in report.records
            if record.reason != _FIRST
        ],
        "fallbacks": [
            {"program": fallback.name, "reason": fallback.reason, "count": count}
            for fallback, count in Counter(report.fallbacks).most_common()
        ],
        "cache": {"hits": report.hits, "misses": report.misses},
    }


def by_function(records: Sequence[Record]) -> list[list[Record]]:
    """Return the records of each function; the function that took most time comes first."""
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.definition, []).append(record)
    return sorted(found.values(), key=lambda group: -sum(record.seconds for record in group))


def remedy(record: Record) -> str:
    """Return what to write instead."""
    return REMEDIES.get(record.reason) or _OTHER_REMEDIES.get(record.reason, _HOW)


def show(report: Report) -> None:
    """Print a report for people."""
    functions = by_function(report.records)
    print(f"{' '.join(report.words)}: {report.seconds:.2f} s, exit status {report.status}")
    if functions:
        rows = [_times(records) for records in functions[:_MOST_FUNCTIONS]]
        columns = ("function", "traces", "traced", "compiled")
        tables.show("time of first calls (with that of the functions they call)", columns, rows)
    if len(functions) > _MOST_FUNCTIONS:
        print(f"  and {len(functions) - _MOST_FUNCTIONS} more functions")
    again = [[each for each in records if each.reason != _FIRST] for records in functions]
    for records in filter(None, again):
        _show_reasons(records)
    if not any(again):
        print("no function was compiled more than once")
    if report.fallbacks:
        counted = Counter(report.fallbacks).most_common()
        reasons = [(each.name, str(count), each.reason) for each, count in counted]
        title = "compiled by XLA instead of the native engine"
        tables.show(title, ("program", "programs", "why"), reasons)
    else:
        print("no program fell back to XLA")
    print(f"cache on disk: {report.hits} programs found, {report.misses} not found")


def _times(records: Sequence[Record]) -> tuple[str, str, str, str]:
    traced = sum(record.trace_seconds for record in records)
    compiled = sum(record.compile_seconds for record in records)
    return short(records[0].definition), str(len(records)), _ms(traced), _ms(compiled)


def _show_reasons(records: Sequence[Record]) -> None:
    rows = [
        ("; ".join(map(reason_text, record.differences)), short(record.source))
        for record in records[:_MOST_REASONS]
    ]
    tables.show(f"compiled again: {short(records[0].definition)}", ("why", "called at"), rows)
    if len(records) > _MOST_REASONS:
        print(f"  and {len(records) - _MOST_REASONS} more times")
    for advice in dict.fromkeys(map(remedy, records)):
        print(f"  {advice}")


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


def short(place: str) -> str:
    """Return a place without the current folder, or that of kiln."""
    return place.replace(f"{_KILN}{os.sep}", "").replace(f"{os.getcwd()}{os.sep}", "")
