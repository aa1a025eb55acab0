"""The steps of a long program as a table, which the extension runs (`_runtime/sequence.cc`).

Code for a step, which only calls a function, would take longer to be compiled than to run.
"""

from __future__ import annotations

import dataclasses

MOST_BUFFERS = 64
"""A step with more is written as code."""
_WHERE = "{ i32, i32, i64, ptr }"
_STEP = "{ ptr, ptr, i64, i64, i64, i64 }"


@dataclasses.dataclass(frozen=True)
class Where:
    """Where a buffer lies: the number of an operand (space 0) or a result (1), in the workspace
    (2), or in a constant (3)."""

    space: int
    number: int = 0
    offset: int = 0
    constant: str = "null"

    def text(self) -> str:
        """Return it as an element of a table."""
        return (
            f"{_WHERE} {{ i32 {self.space}, i32 {self.number}, i64 {self.offset}, "
            f"ptr {self.constant} }}"
        )


@dataclasses.dataclass(frozen=True)
class Step:
    """A call: of a function on a range, in chunks of a grain unless that is 0, or of a kernel."""

    function: str
    buffers: list[Where]
    count: int = 0
    grain: int = 0
    numbers: str = "null"


def tables(name: str, steps: list[Step]) -> list[str]:
    """Return the tables of steps: those called `name`, and the places of their buffers."""
    listed: list[str] = []
    places: list[str] = []
    for step in steps:
        listed.append(
            f"{_STEP} {{ ptr @{step.function}, ptr {step.numbers}, i64 {step.count}, "
            f"i64 {step.grain}, i64 {len(places)}, i64 {len(step.buffers)} }}"
        )
        places += [where.text() for where in step.buffers]
    return [_table(name, _STEP, listed), _table(f"{name}.places", _WHERE, places)]


def _table(name: str, kind: str, elements: list[str]) -> str:
    listed = ", ".join(elements)
    return f"{name} = internal constant [{len(elements)} x {kind}] [{listed}], align 8"


def call_of(name: str, count: int) -> str:
    """Return the call that runs the steps of a table."""
    return f"call i32 @kiln_sequence(ptr %call, ptr {name}, i64 {count}, ptr {name}.places)"
