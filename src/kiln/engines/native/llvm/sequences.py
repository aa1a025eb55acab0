"""The steps of a long program as a table, which the extension runs (`_runtime/abi/sequence.cc`).

Code for a step, which only calls a function, would take longer to compile than to run.
"""

from __future__ import annotations

from kiln.base.records import Record
from kiln.engines.native.llvm.writer import Sizes
from kiln.engines.native.loop_ir.extents import Grain
from kiln.ir.sizes.size import Dim

MOST_BUFFERS = 64
"""A step with more is emitted as code."""
_WHERE = "{ i32, i32, i64, ptr }"
_STEP = "{ ptr, ptr, i64, i64, i64, i64 }"
FROM_CALL = -(1 << 63)
"""The grain of a kernel whose numbers the call supplies, from number `count` on."""


class Where(Record):
    """The location of a buffer, by space: 0 operand, 1 result, 2 workspace, 3 constant."""

    space: int
    number: int = 0
    offset: Dim = 0
    constant: str = "null"

    def text(self, sizes: Sizes) -> str:
        """Return it as an element of a table."""
        return (
            f"{_WHERE} {{ i32 {self.space}, i32 {self.number}, i64 {_number(self.offset, sizes)}, "
            f"ptr {self.constant} }}"
        )


class Step(Record):
    """A call: of a function on a range, in chunks of a grain unless that is 0, or of a kernel."""

    function: str
    buffers: list[Where]
    count: Dim = 0
    grain: int | Grain = 0
    numbers: str = "null"


def _number(n: Dim | Grain, sizes: Sizes) -> int:
    """Return a number as tables encode it: one that a call supplies is -1 - its index."""
    if isinstance(n, int):
        return n
    return -1 - sizes.place(n)


def tables(name: str, steps: list[Step], sizes: Sizes) -> list[str]:
    """Return the tables of steps: those called `name`, and the locations of their buffers.

    Numbers that a call must supply are added to `sizes`.
    """
    listed: list[str] = []
    places: list[str] = []
    for step in steps:
        listed.append(
            f"{_STEP} {{ ptr @{step.function}, ptr {step.numbers}, "
            f"i64 {_number(step.count, sizes)}, i64 {_number(step.grain, sizes)}, "
            f"i64 {len(places)}, i64 {len(step.buffers)} }}"
        )
        places += [where.text(sizes) for where in step.buffers]
    return [_table(name, _STEP, listed), _table(f"{name}.places", _WHERE, places)]


def _table(name: str, kind: str, elements: list[str]) -> str:
    listed = ", ".join(elements)
    return f"{name} = internal constant [{len(elements)} x {kind}] [{listed}], align 8"


def call_of(name: str, count: int) -> str:
    """Return the call that runs the steps of a table."""
    return f"call i32 @kiln_sequence(ptr %call, ptr {name}, i64 {count}, ptr {name}.places)"
