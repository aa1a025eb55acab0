"""A program's lines beside what is compiled from them, in one HTML file: `kiln explore`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kiln.base.lazy import html, json
from kiln.base.source import Source
from kiln.engines.native.llvm.assembly import disassemble
from kiln.engines.native.llvm.generation import effort_for
from kiln.engines.native.loop_ir.statements import Statement
from kiln.engines.native.loop_ir.text import lines_of
from kiln.engines.native.reports.profiling import Profile, lines_computed
from kiln.ir.printing import printer
from kiln.jit.signatures.explain import Record, reason_text
from kiln.tools import explain, figures, profile, run, trace_events

HELP = "a program, then its lines beside its jaxprs, loops and assembly, as one HTML file"
EXAMPLES = """\
examples:
  kiln explore train.py                  run the program, then write kiln_explorer.html
  kiln explore -o page.html train.py 3   in another file; 3 is the program's argument

The file needs no server and no network. Flags of kiln are written before the program.
"""
_PAGE = Path(__file__).with_name("explorer.html")
_DATA = "__DATA__"
_MOST_PROGRAMS = 30
"""Those that took longest."""
_MOST_ASSEMBLY = 20_000
_NUMBER = re.compile(r"\s(?:mov\w*\s+\$(-?\d+)|xorl\s+%esi), %[er]si$")
_PART = re.compile(r"\b(nest\d+)\b")
_LABEL = re.compile(r"([A-Za-z_]\w*):")
_MEASURED = "kiln_measured"

Row = tuple[str, list[str]]
"""A line of text, and the keys of the lines of the program that it belongs to."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, the program and its arguments."""
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="kiln_explorer.html", help="what is written"
    )
    run.arguments(parser)


def command(given: argparse.Namespace) -> int:
    """Run a program in this process, write the page, and return the program's exit status."""
    run.check(given)
    profile.check_file(given.output)
    found = profile.profiled(explain.program_of(given), [given.program, *given.arguments])
    profile.written(given.output, page(found))
    print(f"{given.output}: open it in a browser")
    return found.status


def page(found: profile.Profiled) -> str:
    """Return the page of a run."""
    # `</script>` in a string would end the script.
    data = json.dumps(as_json(found)).replace("</", "<\\/")
    text = _PAGE.read_text(encoding="utf-8")
    text = text.replace("__TITLE__", html.escape(" ".join(found.words)))
    return text.replace(_DATA, data)


def as_json(found: profile.Profiled) -> dict[str, Any]:
    """Return what the page shows."""
    lines = [each for each in figures.lines(found.profiles, found.limits) if each.source]
    ran = sorted(found.profiles, key=lambda each: -each.seconds())[:_MOST_PROGRAMS]
    programs = [_program(each) for each in ran]
    return {
        "program": " ".join(found.words),
        "seconds": found.seconds,
        "status": found.status,
        "in_programs": sum(each.seconds() for each in found.profiles),
        "first_calls": trace_events.first_calls(found.records),
        "files": _files(lines, programs),
        "costs": {
            _key(each.source): [each.seconds, each.bytes, each.flops, each.part] for each in lines
        },
        "programs": programs,
        "left_out": len(found.profiles) - len(ran),
        "memory": [[at - found.begin, size] for at, size in found.samples.memory if size],
        "records": [_recorded(each, found.begin) for each in found.records],
        "fallbacks": [[each.name, each.reason] for each in found.fallbacks],
    }


def _program(found: Profile) -> dict[str, Any]:
    measured = found.measured()
    return {
        "name": found.name,
        "seconds": found.seconds(),
        "calls": measured[0].runs if measured else 0,
        "jaxpr": _jaxpr(found),
        "loops": [(text, _keys(owner)) for text, owner in lines_of(found.function)],
        "assembly": _assembly(found),
    }


def _jaxpr(found: Profile) -> list[Row]:
    if found.jaxpr is None:
        return []
    rows = printer.lines_of(found.jaxpr)
    return [(text, _of([eqn.source] if eqn is not None else [])) for text, eqn in rows]


def _assembly(found: Profile) -> list[Row]:
    text = disassemble(found.llvm, codegen=effort_for(found.function)).splitlines()
    statements = [each for each, _ in found.measurements.statements]
    owners = owners_of(text, len(statements))
    rows = zip(text[:_MOST_ASSEMBLY], owners, strict=False)
    return [
        (line.expandtabs(8), _keys(statements[owner] if owner is not None else None))
        for line, owner in rows
    ]


def owners_of(assembly: Sequence[str], count: int) -> list[int | None]:
    """Return the number of the statement of each line of instrumented code, of `count` statements.

    A statement ends at the call that records its cost, whose second argument is its number. A
    function that runs parts of a nest belongs to the statement that refers to it.
    """
    owners: list[int | None] = [None] * len(assembly)
    parts: dict[str, int] = {}
    function, begin, number = "", 0, None
    for i, line in enumerate(assembly):
        label = _LABEL.match(line)
        if label:
            function, begin, number = label[1], i + 1, None
        elif line.startswith(".Lfunc_end"):
            function = ""
        if function != "kiln_entry":
            continue
        found = _NUMBER.search(line)
        if found:
            number = int(found[1] or 0)
        if _MEASURED not in line or number is None:
            continue
        # The number of a statement inside a loop is inverted.
        owner = number if number >= 0 else ~number
        if owner < count:
            for at in range(begin, i + 1):
                owners[at] = owner
                for part in _PART.findall(assembly[at]):
                    parts.setdefault(part, owner)
        begin, number = i + 1, None
    function = ""
    for i, line in enumerate(assembly):
        label = _LABEL.match(line)
        if label:
            function = label[1]
        elif line.startswith(".Lfunc_end"):
            function = ""
        if function in parts:
            owners[i] = parts[function]
    return owners


def _keys(statement: Statement | None) -> list[str]:
    return _of(lines_computed(statement)) if statement is not None else []


def _of(sources: Iterable[Source | None]) -> list[str]:
    return [*dict.fromkeys(_key(source) for source in sources if source is not None)]


def _key(source: Source | None) -> str:
    return f"{source.file}:{source.line}" if source is not None else ""


def _files(lines: Iterable[figures.Line], programs: Iterable[dict[str, Any]]) -> list[Any]:
    """Return the files of the lines, those that took longest first: name and lines."""
    keys = [_key(line.source) for line in lines]
    keys += [key for each in programs for kind in ("jaxpr", "loops") for key in _all(each[kind])]
    names = dict.fromkeys(key.rpartition(":")[0] for key in keys)
    return [[name, explain.short(name), text] for name in names for text in _text_of(name)]


def _all(rows: Iterable[Row]) -> Iterator[str]:
    return (key for _, keys in rows for key in keys)


def _text_of(name: str) -> Iterator[list[str]]:
    """Yield the lines of a file, if there is one: code may have been typed."""
    try:
        yield Path(name).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return


def _recorded(record: Record, begin: float) -> dict[str, Any]:
    return {
        "function": record.function,
        "definition": explain.short(record.definition),
        "at": record.traced_at - begin,
        "seconds": record.seconds,
        "called_at": explain.short(record.source),
        "why": "; ".join(map(reason_text, record.differences)),
        "first": record.reason == "first call",
        "remedy": "" if record.reason == "first call" else explain.remedy(record),
    }
