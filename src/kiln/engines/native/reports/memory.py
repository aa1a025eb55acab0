"""The memory report of a program: its buffers, which share memory, and the copies it makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kiln.core.engines.memory_text import peak_of, size_text, summary
from kiln.engines.native.loop_ir.costs import MemoryAnalysis
from kiln.engines.native.loop_ir.extents import estimate
from kiln.engines.native.loop_ir.statements import Buffer, Function, Role
from kiln.engines.native.loop_ir.text import buffer_names
from kiln.ir.sizes.size import Dim
from kiln.ir.sizes.values import evaluate


def memory_report(
    function: Function,
    analysis: MemoryAnalysis,
    offsets: Mapping[Buffer, Dim],
    taken: Sequence[tuple[int, int]],
    sizes: Mapping[str, int],
) -> str:
    """Return a text: three lines, then each buffer by the name it has in the loops.

    `offsets` are those of temporaries in the workspace, `taken` the pairs (result, operand) of
    results in place of donated operands. A fourth line is for `sizes` of named axes.
    """
    names = buffer_names(function)
    outputs = function.outputs
    shared: Dim = sum(
        buffer.nbytes
        for i, buffer in enumerate(outputs)
        if buffer.role is Role.INPUT or buffer in outputs[:i]
    )
    lines = [summary(function.name, analysis, shared)]
    if sizes:
        lines.append(_for_sizes(analysis, shared, sizes))

    def section(title: str, entries: Sequence[tuple[Buffer, str]]) -> None:
        if entries:
            lines.append(f"{title}:")
        for buffer, note in entries:
            kind = f"{names[buffer]}: {buffer.dtype}[{buffer.size}]"
            lines.append(f"  {kind}, {size_text(buffer.nbytes)}{f'; {note}' if note else ''}")

    section("arguments", [(buffer, "") for buffer in function.inputs])
    section("results", _results(function, names, dict(taken)))
    section("temporaries, in the workspace", _temporaries(offsets, names))
    rows = [buffer for buffer in names if buffer.role is Role.ROW]
    section("rows, on the stack of each thread", [(buffer, "") for buffer in rows])
    parts = [buffer for buffer in names if buffer.role is Role.BLOCK]
    section("products, a block of each thread at a time", [(buffer, "") for buffer in parts])
    section("constants", [(b, "") for b in names if b.role is Role.CONST])
    if function.copies:
        lines.append("copies:")
    for copy in function.copies:
        at = f", for {copy.source} in {copy.source.function}" if copy.source else ""
        name = names.get(copy.to, "a buffer that is not needed any more")
        lines.append(f"  {size_text(copy.to.nbytes)} to {name}{at}: {copy.reason}")
    return "\n".join(lines)


def _for_sizes(analysis: MemoryAnalysis, shared: Dim, sizes: Mapping[str, int]) -> str:
    parts = (
        (analysis.argument_size_in_bytes, "of arguments"),
        (analysis.output_size_in_bytes, "of results"),
        (analysis.temp_size_in_bytes, "of workspace"),
        (peak_of(analysis, shared), "at the peak"),
    )
    given = ", ".join([f"{name} = {size}" for name, size in sizes.items()])
    listed = ", ".join([f"{size_text(evaluate(n, sizes))} {what}" for n, what in parts])
    return f"for {given}: {listed}"


def _results(
    function: Function, names: Mapping[Buffer, str], taken: Mapping[int, int]
) -> list[tuple[Buffer, str]]:
    found: list[tuple[Buffer, str]] = []
    for i, buffer in enumerate(function.outputs):
        first = function.outputs.index(buffer)
        if buffer.role is Role.INPUT:
            note = "is the argument itself"
        elif first < i:
            note = f"is result {first} itself"
        elif i in taken:
            note = f"lies where {names[function.inputs[taken[i]]]} was donated"
        else:
            note = ""
        found.append((buffer, note))
    return found


def _temporaries(
    offsets: Mapping[Buffer, Dim], names: Mapping[Buffer, str]
) -> list[tuple[Buffer, str]]:
    """Return the temporaries by offset, each with those that share its memory."""
    # Slots are in the same order for all sizes of named axes.
    placed = sorted(
        ((b, at) for b, at in offsets.items() if b in names), key=lambda x: estimate(x[1])
    )
    found = []
    for buffer, at in placed:
        begin, end = estimate(at), estimate(at + buffer.nbytes)
        others = [
            names[other]
            for other, start in placed
            if other is not buffer
            and estimate(start) < end
            and begin < estimate(start + other.nbytes)
        ]
        shared = f", where {', '.join(others)} is at other times" if others else ""
        found.append((buffer, f"at {at}{shared}"))
    return found
