"""The figures of a profile: costs by operation and by line of the program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kiln.base.named_tuples import NamedTuple
from kiln.base.source import Source, place_of
from kiln.engines.native.loop_ir.buffers import writes
from kiln.engines.native.reports.profiling import Cost, Profile
from kiln.tools.limits import Limits


class Operation(NamedTuple):
    """A statement of a program, over all its runs, without the statements inside it.

    `limit` is the least time that the machine allows, `bound` what it is bound by.
    """

    program: str
    name: str
    depth: int
    places: Sequence[str]
    runs: int
    seconds: float
    flops: float
    bytes: float
    limit: float
    bound: str

    @property
    def part(self) -> float:
        """The part of the machine's limit that it reaches."""
        return min(self.limit / self.seconds, 1.0) if self.seconds else 0.0


class Line(NamedTuple):
    """A line of the program: its part of all operations that compute it."""

    source: Source | None
    runs: int
    seconds: float
    flops: float
    bytes: float
    limit: float

    @property
    def place(self) -> str:
        """FILE:LINE in FUNCTION."""
        return place_of(self.source)

    @property
    def part(self) -> float:
        """The part of the machine's limit that it reaches."""
        return min(self.limit / self.seconds, 1.0) if self.seconds else 0.0


def operations(profiles: Iterable[Profile], limits: Limits) -> list[Operation]:
    """Return the operations of programs, those that took longest first."""
    found = [
        _operation(profile, cost, limits)
        for profile in profiles
        for cost in profile.costs()
        if cost.measured.runs
    ]
    return sorted(found, key=lambda each: -each.seconds)


def _operation(profile: Profile, cost: Cost, limits: Limits) -> Operation:
    each = cost.measured
    limit, bound = _limit(cost, limits)
    return Operation(
        profile.name,
        profile.headings[each.statement],
        each.depth,
        [*dict.fromkeys(map(place_of, cost.lines))],
        each.runs,
        cost.seconds,
        cost.flops,
        cost.bytes,
        limit,
        bound,
    )


def _limit(cost: Cost, limits: Limits) -> tuple[float, str]:
    written = [buffer.dtype for buffer in writes(cost.measured.statement)]
    dtype = written[0] if written else "f32"
    return limits.seconds(dtype, cost.flops, cost.bytes, cost.measured.runs)


def lines(profiles: Iterable[Profile], limits: Limits) -> list[Line]:
    """Return the lines that operations come from, those that took longest first.

    What an operation costs is divided among the lines that were fused into it, by their
    instructions.
    """
    found: dict[tuple[str, int], Line] = {}
    for profile in profiles:
        for cost in profile.costs():
            if not cost.measured.runs:
                continue
            limit, _ = _limit(cost, limits)
            for source, share in cost.lines.items():
                key = (source.file, source.line) if source else ("", 0)
                old = found.get(key) or Line(source, 0, 0.0, 0.0, 0.0, 0.0)
                found[key] = Line(
                    old.source,
                    old.runs + cost.measured.runs,
                    old.seconds + share * cost.seconds,
                    old.flops + share * cost.flops,
                    old.bytes + share * cost.bytes,
                    old.limit + share * limit,
                )
    return sorted(found.values(), key=lambda each: -each.seconds)
