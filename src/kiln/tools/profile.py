"""Where the time of a program goes: `kiln profile`."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kiln import monitoring
from kiln.api.arrays import FROM_DEVICE, TO_DEVICE
from kiln.base.files.writing import write_text
from kiln.base.lazy import json
from kiln.base.main_program import status_of
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import config
from kiln.core.engines.memory_text import size_text
from kiln.core.processes.peers import peers
from kiln.engines.native.reports.profiling import Profile, count_text, profiles, time_text
from kiln.execution.fallbacks import Fallback, explain_fallbacks
from kiln.jit.signatures.explain import Record, explain_recompiles
from kiln.tools import explain, figures, flame, limits, processes, run, tables, trace_events
from kiln.tools.command_line import WrongUse
from kiln.tools.samples import Samples, sampled

HELP = "a program, then the time of its lines and operations"
EXAMPLES = """\
examples:
  kiln profile train.py --epochs 1             run the program, then print tables
  kiln profile --trace train.json train.py     a trace for https://ui.perfetto.dev
  kiln profile --flame train.svg train.py      a flame graph of its Python functions
  kiln profile --roofline roof.svg train.py    its operations below the machine's limits
  kiln profile --json train.py >profile.json   for scripts; the program prints to standard error
  kiln launch -n 4 -m kiln profile --processes --trace train.json train.py    one trace of four

Flags of kiln are written before the program; what follows it is the program's.
"""
MOST_ROWS = 20


class Profiled(NamedTuple):
    """What was measured while a program ran; `begin` is a time of `time.perf_counter`."""

    words: Sequence[str]
    status: int
    begin: float
    seconds: float
    profiles: list[Profile]
    records: list[Record]
    fallbacks: list[Fallback]
    transfers: list[trace_events.Span]
    samples: Samples
    limits: limits.Limits
    operations_of_xla: Sequence[trace_events.Span] = ()


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, the program and its arguments."""
    parser.add_argument("--json", action="store_true", help="print JSON, and nothing else")
    parser.add_argument("--trace", metavar="FILE", help="write a trace for Perfetto")
    parser.add_argument("--flame", metavar="FILE", help="write a flame graph, as SVG")
    parser.add_argument("--roofline", metavar="FILE", help="write a roofline, as SVG")
    parser.add_argument(
        "--processes",
        action="store_true",
        help="with --trace, of a program of several processes: one trace of all, and a table of "
        "their collectives",
    )
    run.arguments(parser)


def command(given: argparse.Namespace) -> int:
    """Run a program in this process, print the report, and return the program's exit status."""
    run.check(given)
    for path in (given.trace, given.flame, given.roofline):
        check_file(path)
    if given.processes and given.trace is None:
        wrong = "--processes joins the traces of all processes, and there is no --trace"
        raise WrongUse(wrong, "write --processes --trace trace.json")
    program = explain.program_of(given)
    with explain.output_to_stderr() if given.json else contextlib.nullcontext():
        found = profiled(program, [given.program, *given.arguments], given.processes)
    title = " ".join(found.words)
    texts: list[tuple[str | None, Callable[[], str]]] = [
        (None if given.processes else given.trace, lambda: json.dumps(trace_of(found))),
        (given.flame, lambda: flame.flame(found.samples.stacks, title)),
        (given.roofline, lambda: flame.roofline(operations(found), found.limits, title)),
    ]
    for path, text in texts:
        if path is not None:
            written(path, text())
    others = peers() if given.processes else None
    merged = trace_of(found) if given.processes else None
    if merged is not None and others is not None:
        merged = processes.joined(Path(given.trace), others, merged)
        if merged is None:
            # Process 0 prints the tables.
            return found.status
    if merged is not None:
        written(given.trace, json.dumps(merged))
    if given.json:
        print(json.dumps(as_json(found), indent=2))
    else:
        show(found)
        if merged is not None:
            show_collectives(merged)
    return found.status


def profiled(program: Callable[[], None], words: Sequence[str], with_xla: bool = False) -> Profiled:
    """Run a program with instrumented programs and return what was measured.

    With `with_xla` the operations that XLA runs are recorded too.
    """
    # Before the program runs, so that the limits are those of a machine that does nothing else.
    found = limits.measured()
    before = {id(each) for each in profiles()}
    config.update("profile", True)
    nothing = contextlib.nullcontext[list[trace_events.Span]]([])
    try:
        with (
            explain_recompiles() as records,
            explain_fallbacks() as fallbacks,
            _transfers() as transfers,
            sampled() as samples,
            processes.recorded() if with_xla else nothing as spans,
        ):
            begin = time.perf_counter()
            status = status_of(program)
            seconds = time.perf_counter() - begin
    finally:
        # The report at the end of the process is that of KILN_PROFILE.
        config.update("profile", False)
    ran = [each for each in profiles() if id(each) not in before]
    kept = (ran, list(records), list(fallbacks), transfers, samples, found)
    return Profiled(words, status, begin, seconds, *kept, spans)


@contextlib.contextmanager
def _transfers() -> Iterator[list[trace_events.Span]]:
    """Collect the transfers that the program requests."""
    found: list[trace_events.Span] = []

    def note(event: str, start: float, end: float, **shown: Any) -> None:
        if event in (TO_DEVICE, FROM_DEVICE):
            name = event.rpartition("/")[2]
            found.append(trace_events.Span(name, "transfer", start, end, shown))

    monitoring.register_event_time_span_listener(note)
    try:
        yield found
    finally:
        # The program may have removed all listeners.
        with contextlib.suppress(AssertionError):
            monitoring.unregister_event_time_span_listener(note)


def check_file(path: str | None) -> None:
    """Check that a file can be written, before the program runs. Raises: WrongUse."""
    folder = os.path.dirname(path or "")
    if folder and not os.path.isdir(folder):
        wrong = f"{path} cannot be written: there is no folder {folder}"
        raise WrongUse(wrong, f"mkdir -p {folder}, or name a file in another folder")


def written(path: str, text: str) -> None:
    """Write a file. Raises: WrongUse if that is impossible."""
    try:
        write_text(path, text)
    except OSError as error:
        raise WrongUse(f"{path} cannot be written: {error}", "name a file in a folder") from None


def trace_of(found: Profiled) -> dict[str, Any]:
    """Return the trace of a run."""
    return trace_events.trace(
        found.profiles,
        found.records,
        found.transfers,
        found.samples,
        found.begin,
        found.operations_of_xla,
    )


def operations(found: Profiled) -> list[figures.Operation]:
    """Return the operations of a run, those that took longest first."""
    return figures.operations(found.profiles, found.limits)


def as_json(found: Profiled) -> dict[str, Any]:
    """Return a profile as JSON; times are in seconds."""
    lines = figures.lines(found.profiles, found.limits)
    return {
        "program": [*found.words],
        "status": found.status,
        "seconds": found.seconds,
        "in_programs": sum(each.seconds() for each in found.profiles),
        "in_first_calls": trace_events.first_calls(found.records),
        "limits": {
            "flops_per_second": dict(found.limits.flops),
            "bytes_per_second": {str(size): x for size, x in found.limits.bytes.items()},
        },
        "lines": [
            {
                "file": each.source.file if each.source else None,
                "line": each.source.line if each.source else None,
                "function": each.source.function if each.source else None,
                "runs": each.runs,
                "seconds": each.seconds,
                "flops": each.flops,
                "bytes": each.bytes,
                "part_of_limit": each.part,
            }
            for each in lines
        ],
        "operations": [
            {
                "program": each.program,
                "operation": each.name,
                "lines": [*each.places],
                "runs": each.runs,
                "seconds": each.seconds,
                "flops": each.flops,
                "bytes": each.bytes,
                "part_of_limit": each.part,
                "bound": each.bound,
            }
            for each in operations(found)
        ],
        "fallbacks": [{"program": each.name, "reason": each.reason} for each in found.fallbacks],
    }


def show(found: Profiled) -> None:
    """Print a profile for people."""
    inside = sum(each.seconds() for each in found.profiles)
    first = trace_events.first_calls(found.records)
    print(f"{' '.join(found.words)}: {found.seconds:.2f} s, exit status {found.status}")
    print(f"{time_text(inside)} in compiled programs, {time_text(first)} tracing and compiling")
    peak = ", ".join(f"{x / 1e9:.0f} G {name}/s" for name, x in found.limits.flops.items())
    moved = ", ".join(
        f"{size_text(round(x))}/s of {size_text(size)}" for size, x in found.limits.bytes.items()
    )
    print(f"this machine's limits: {peak}; {moved}")
    lines = figures.lines(found.profiles, found.limits)
    if not lines:
        print("no program ran on the native engine")
    total = inside or 1.0
    figures_of = ("time", "share", "runs", "flops", "bytes", "of limit")
    _table("by line", (*figures_of, "line"), [_line(each, total) for each in lines])
    columns = (*figures_of, "bound by", "operation")
    _table("by operation", columns, [_operation(each, total) for each in operations(found)])
    names = [*dict.fromkeys(each.name for each in found.fallbacks)]
    if names:
        print(f"not measured, since the native engine does not compile them: {', '.join(names)}")


def show_collectives(trace: dict[str, Any]) -> None:
    """Print what the collectives of all processes exchange, and how long they take."""
    columns = ("bytes", "devices", "runs", "least", "most", "last", "collective")
    cells = [
        (
            size_text(row.nbytes),
            str(row.size),
            str(row.runs),
            time_text(row.least),
            time_text(row.most),
            str(row.last),
            f"{row.program}: {row.name}",
        )
        for row in processes.rows(trace)
    ]
    if not cells:
        print("no collective ran")
        return
    _table("collectives: bytes on a device, mean time of a run by process", columns, cells)
    total, both = processes.overlap(trace)
    print(f"{both / total if total else 0.0:.0%} of their time the same process computed")


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        tables.show(title, columns, rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        print(f"  and {len(rows) - MOST_ROWS} more")


def _cells(each: figures.Line | figures.Operation, total: float) -> tuple[str, ...]:
    return (
        time_text(each.seconds),
        f"{each.seconds / total:.1%}",
        str(each.runs),
        count_text(each.flops),
        size_text(round(each.bytes)),
        f"{each.part:.0%}",
    )


def _line(each: figures.Line, total: float) -> tuple[str, ...]:
    return (*_cells(each, total), explain.short(each.place))


def _operation(each: figures.Operation, total: float) -> tuple[str, ...]:
    name = f"{each.program}: {each.name}"
    return (*_cells(each, total), each.bound, name)
