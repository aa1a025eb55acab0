"""Libraries with code for several microarchitecture levels: each call runs the best one.

The public functions of a level are internal functions of the library; those of the library call the
ones of the level that the host CPU has (`_runtime/library/level.cc`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kiln.base.records import Record
from kiln.core.engines.linking import LinkedFunction

LEVEL = "kiln_library_level"


class Forwarded(Record):
    """A public function: its name is a base, then an ending; its result and arguments."""

    base: str
    ending: str
    kind: str
    arguments: tuple[str, ...]


def forwarded(
    prefix: str, functions: Sequence[LinkedFunction], *, threads: bool, has_file: bool
) -> list[Forwarded]:
    """Return the public functions of a library."""
    sizes = sorted({name for function in functions for name in function.program.sizes})
    found = [
        Forwarded(prefix, "_create", "ptr", ("i64",)),
        Forwarded(prefix, "_destroy", "void", ("ptr",)),
        Forwarded(prefix, "_error", "ptr", ("i32",)),
        Forwarded(prefix, "_workspace_size", "i64", ("i64",) * len(sizes)),
    ]
    if threads:
        found.append(Forwarded(prefix, "_set_threads", "i32", ("ptr", "i32")))
    if has_file:
        found.append(Forwarded(prefix, "_map_constants", "i32", ("ptr", "ptr")))
    for function in functions:
        own = ("i64",) * len(function.program.sizes)
        arguments = ("ptr", *own, *["ptr"] * len(function.parameters))
        found.append(Forwarded(function.symbol, "", "i32", arguments))
        if function.symbol != prefix:
            found.append(Forwarded(function.symbol, "_workspace_size", "i64", own))
    return found


def dispatch_text(functions: Sequence[Forwarded], levels: Sequence[int]) -> str:
    """Return the module of functions that call those of a level; the first is the lowest."""
    lines = [f"declare hidden i32 @{LEVEL}()"]
    for function in functions:
        kinds = ", ".join(function.arguments)
        lines += [
            f"declare hidden {function.kind} @{name_at(function, level)}({kinds})"
            for level in levels
        ]
    lines += [_choosing(function, levels) for function in functions]
    return "\n".join([*lines, "attributes #0 = { nounwind }"]) + "\n"


def name_at(function: Forwarded, level: int) -> str:
    """Return the name of a public function of a level."""
    return f"{function.base}_v{level}{function.ending}"


def _choosing(function: Forwarded, levels: Sequence[int]) -> str:
    given = ", ".join(f"{kind} %x{i}" for i, kind in enumerate(function.arguments))
    cases = " ".join(f"i32 {level}, label %v{level}" for level in levels[1:])
    lines = [
        f"define {function.kind} @{function.base}{function.ending}({given}) #0 {{",
        f"  %level = call i32 @{LEVEL}()",
        f"  switch i32 %level, label %v{levels[0]} [ {cases} ]",
    ]
    for level in levels:
        call = f"tail call {function.kind} @{name_at(function, level)}({given})"
        lines.append(f"v{level}:")
        if function.kind == "void":
            lines += [f"  {call}", "  ret void"]
        else:
            lines += [f"  %r{level} = {call}", f"  ret {function.kind} %r{level}"]
    return "\n".join([*lines, "}"])
