"""How compiled code records failed checks, and stops for them.

A thread whose check fails stores the number of the site in `Call::found`, if it is greater than the
stored one: sites are numbered backwards in program order, so the first site wins.
"""

from __future__ import annotations

from kiln.engines.native.llvm.writer import Writer
from kiln.engines.native.loop_ir.checks import FAULTED

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
