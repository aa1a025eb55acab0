"""What a compiled program exchanges between devices, read from its text.

XLA's text names each collective operation, its operands and its groups of devices, and for loops of
known length how often they run. From these follow the bytes that each device hands over in a step.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "collective-permute", "all-to-all")
BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s32": 4, "u32": 4, "f32": 4, "f64": 8}

_COMPUTATION = re.compile(r"^(?:ENTRY )?%([\w.\-]+) \(.*\{$")
_COLLECTIVE = re.compile(rf"^\s+(?:ROOT )?%\S+ = (.*?) ({'|'.join(KINDS)})(?:-start)?\(")
_SHAPE = re.compile(r"\b([a-z]+[0-9]*)\[([0-9,]*)\]")
_GROUPS = re.compile(r"(?:replica_groups|source_target_pairs)=\{(\{[0-9,{}]*\})\}")
_IOTA = re.compile(r"replica_groups=\[([0-9,]+)\]<=\[([0-9,]+)\](?:T\(([0-9,]+)\))?")
_WHILE = re.compile(r" while\(.*body=%([\w.\-]+).*\"known_trip_count\":\{\"n\":\"([0-9]+)\"")
_CALLED = re.compile(r"(?:calls|to_apply|true_computation|false_computation|body)=%([\w.\-]+)")


@dataclasses.dataclass(frozen=True)
class Collective:
    """Exchanges of one kind along some axes: how often in a step, how many bytes each time."""

    kind: str
    axes: tuple[str, ...]
    size: int
    times: int
    nbytes: int

    @property
    def total(self) -> int:
        """The bytes of the operands of a step, on one device."""
        return self.times * self.nbytes


def _integers(text: str) -> list[int]:
    return [int(n) for n in re.findall("[0-9]+", text)]


def _nbytes(types: str) -> int:
    return sum(BYTES[dtype] * math.prod(_integers(shape)) for dtype, shape in _SHAPE.findall(types))


def _groups(line: str) -> list[list[int]]:
    if written := _GROUPS.search(line):
        return [_integers(group) for group in re.findall(r"\{[0-9,]*\}", written[1])]
    if iota := _IOTA.search(line):
        shape, dims = _integers(iota[1]), _integers(iota[2])
        ids = numpy.arange(math.prod(dims)).reshape(dims)
        if iota[3]:
            ids = ids.transpose(_integers(iota[3]))
        return [[int(n) for n in group] for group in ids.reshape(shape)]
    raise ValueError(f"a collective operation without groups: {line}")


def _axes(groups: Iterable[Sequence[int]], mesh: Mapping[str, int]) -> tuple[str, ...]:
    # Those along which members of one group differ.
    shape = tuple(mesh.values())
    varying = numpy.zeros(len(shape), bool)
    for group in groups:
        places = numpy.array(numpy.unravel_index(list(group), shape))
        varying |= (places != places[:, :1]).any(1)
    return tuple(name for name, varies in zip(mesh, varying, strict=True) if varies)


def collectives(text: str, mesh: Mapping[str, int]) -> list[Collective]:
    """Return what one device exchanges in a run of the program, equal ones added up.

    Devices are numbered row by row over `mesh`, a mapping from axis names to sizes.

    Raises: ValueError for a loop with collective operations whose length is not in the text.
    """
    lines: dict[str, list[str]] = {}
    entry = inside = ""
    for line in text.splitlines():
        if begun := _COMPUTATION.match(line):
            inside = begun[1]
            lines[inside] = []
            entry = inside if line.startswith("ENTRY") else entry
        elif inside:
            lines[inside].append(line)

    found: dict[tuple[str, tuple[str, ...], int, int], int] = {}

    def visit(name: str, times: int) -> None:
        for line in lines[name]:
            if operation := _COLLECTIVE.match(line):
                groups = _groups(line)
                size = max(map(len, groups))
                # A group of one exchanges nothing.
                if size > 1:
                    key = (operation[2], _axes(groups, mesh), size, _nbytes(operation[1]))
                    found[key] = found.get(key, 0) + times
                continue
            if loop := _WHILE.search(line):
                visit(loop[1], times * int(loop[2]))
                continue
            for called in _CALLED.findall(line):
                if " while(" in line and exchanges(called):
                    raise ValueError(f"a loop whose length is not known: {line.strip()[:200]}")
                visit(called, times)

    def exchanges(name: str) -> bool:
        return any(
            _COLLECTIVE.match(line) or any(exchanges(n) for n in _CALLED.findall(line))
            for line in lines[name]
        )

    visit(entry, 1)
    return [
        Collective(kind, axes, size, times, nbytes)
        for (kind, axes, size, nbytes), times in sorted(found.items())
    ]
