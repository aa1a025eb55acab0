"""How compiled code checks values as it computes them, records failed checks, and stops for them.

A thread whose check fails stores the number of the site in `Call::found`, if it is greater than the
stored one: sites are numbered backwards in program order, so the first site wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from kiln.engines.native.llvm.instructions import instruction, type_text
from kiln.engines.native.llvm.writer import Writer
from kiln.engines.native.loop_ir.checks import FAULTED, WITHIN
from kiln.engines.native.loop_ir.scalars import Value

_FOUND = 6
"""The number of `found` among the fields of `Call`."""
_INDEX, _ITERATION = 1, 2
"""Where the fields of `Fault` are, in units of eight bytes."""


class Watch:
    """The sites of one function."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count

    def number(self, site: int) -> int:
        """Return the number recorded for a site."""
        return self.count - site

    def note(self, w: Writer, number: str, index: str | None) -> None:
        """Emit code that records a number, unless it is 0, and the offending index."""
        found = _found(w)
        before = w.emit(f"atomicrmw umax ptr {found}, i32 {number} monotonic")
        if index is None:
            return
        place = w.emit(f"getelementptr i64, ptr {found}, i64 {_INDEX}")
        kept = w.emit(f"load atomic i64, ptr {place} monotonic, align 8")
        is_first = w.emit(f"icmp ult i32 {before}, {number}")
        value = w.emit(f"select i1 {is_first}, i64 {index}, i64 {kept}")
        w.do(f"store atomic i64 {value}, ptr {place} monotonic, align 8")

    def stop(self, w: Writer, iteration: str) -> None:
        """Emit code that returns from the program if a check failed, in an iteration or -1."""
        found = _found(w)
        site = w.emit(f"load i32, ptr {found}, align 8")
        failed = w.emit(f"icmp ne i32 {site}, 0")
        bad, after = w.label("found"), w.label("done")
        w.do(f"br i1 {failed}, label %{bad}, label %{after}")
        w.begin(bad)
        place = w.emit(f"getelementptr i64, ptr {found}, i64 {_ITERATION}")
        w.do(f"store i64 {iteration}, ptr {place}, align 8")
        w.do(f"ret i32 {FAULTED}")
        w.begin(after)


def _found(w: Writer) -> str:
    field = w.emit(f"getelementptr i64, ptr %call, i64 {_FOUND}")
    return w.emit(f"load ptr, ptr {field}, align 8")


class Lanes(Protocol):
    """The interface of `Frame`, the place in a function, that checks use."""

    w: Writer
    watch: Watch | None
    width: int
    mask: str | None

    @property
    def is_vector(self) -> Mapping[Value, bool]:
        """Which values have a lane for each element of a vector."""

    def operand(self, x: Value, width: int) -> str:
        """Return the register of a value with this many lanes."""

    def wide_integer(self, name: str, dtype: str, width: int) -> str:
        """Return an integer as an i64."""

    def when(
        self,
        condition: str,
        values: list[str],
        carried: list[tuple[str, str]],
        then: Callable[[], list[str]],
    ) -> list[str]:
        """Write a block that runs if a condition holds."""


def watched(frame: Lanes, x: Value, width: int) -> str:
    """Return the first operand of a check, after code that records the sites where it fails."""
    w, watch = frame.w, frame.watch
    assert watch is not None
    value = x.operands[0]
    name = frame.operand(value, width)
    if x.op == WITHIN:
        (site,) = x.attr
        greatest = frame.operand(x.operands[1], width)
        # As unsigned numbers, negative ones are the greatest.
        flags = frame.w.emit(f"icmp ugt {type_text(value.dtype, width)} {name}, {greatest}")
        outside = _any(frame, flags, width)

        def note() -> list[str]:
            index = _first(frame, value, name, flags, width)
            number = w.emit(f"select i1 {outside}, i32 {watch.number(site)}, i32 0")
            watch.note(w, number, index)
            return []

        frame.when(outside, [], [], note)
        return name

    def note_all() -> list[str]:
        for y, site in zip(x.operands, x.attr, strict=True):
            wide = frame.width if frame.is_vector[y] else 1
            some = _any(frame, _nans(frame, y, wide), wide)
            watch.note(w, w.emit(f"select i1 {some}, i32 {watch.number(site)}, i32 0"), None)
        return []

    frame.when(_any(frame, _nans(frame, value, width), width), [], [], note_all)
    return name


def _nans(frame: Lanes, x: Value, width: int) -> str:
    """Return which lanes are nan."""
    name = frame.operand(x, width)
    node = x.scope.node("ne", "i1", (x, x))
    return instruction(frame.w, node, [name, name], width)


def _any(frame: Lanes, flags: str, width: int) -> str:
    """Return whether the flag of an active lane is set."""
    if width == 1:
        return flags
    w, kind = frame.w, f"<{width} x i1>"
    if frame.mask is not None:
        flags = w.emit(f"and {kind} {flags}, {frame.mask}")
    return w.emit(f"call i1 @llvm.vector.reduce.or.v{width}i1({kind} {flags})")


def _first(frame: Lanes, x: Value, name: str, flags: str, width: int) -> str:
    """Return the first index that is out of bounds, as an i64."""
    w = frame.w
    if width > 1:
        if frame.mask is not None:
            flags = w.emit(f"and <{width} x i1> {flags}, {frame.mask}")
        lane = w.emit(
            f"call i32 @llvm.experimental.cttz.elts.i32.v{width}i1(<{width} x i1> {flags}, i1 true)"
        )
        name = w.emit(f"extractelement {type_text(x.dtype, width)} {name}, i32 {lane}")
    return frame.wide_integer(name, x.dtype, 1)
