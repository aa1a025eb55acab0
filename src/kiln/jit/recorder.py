"""Recorders: how the program for a new signature is made.

`PlainRecorder` traces the function, unless one of the same content was traced before. Other
recorders extend it for named axes (`sized.py`) and for numbers that calls supply (`late.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kiln.content.by_content import is_plain
from kiln.content.fingerprint import Content, content_of
from kiln.core.arrays.read_tracking import tracking_reads
from kiln.ir.sizes.assumptions import collecting
from kiln.jit.cache import Recordings, find, share
from kiln.jit.entry import Recording
from kiln.jit.signatures.argument_binding import Named
from kiln.jit.signatures.signature import Arguments, Signature, Subject
from kiln.jit.tracing import trace


class Recorder(Protocol):
    """Makes recordings."""

    def record(
        self, subject: Subject, signature: Signature, call: Arguments, table: Recordings
    ) -> Recording:
        """Return the recording for a signature that is not in the function's table."""
        ...

    def forget(self) -> None:
        """Reset, as after `clear_caches`."""
        ...

    def count(self, entries: int) -> int:
        """Return the number of programs of a wrapper with this many entries."""
        ...


class PlainRecorder:
    """Traces functions once per signature; more than `max_traces` traces are an error."""

    def __init__(self, max_traces: int | None = None) -> None:
        self._max_traces = max_traces
        self._traces = 0

    def record(
        self,
        subject: Subject,
        signature: Signature,
        call: Arguments,
        table: Recordings,
        seen: Iterable[Signature] | None = None,
    ) -> Recording:
        """Return the recording for a signature; `seen` are those traced, by default the table's.

        Raises: RecompilationError if there were too many traces.
        """
        content = _content(subject, signature, call)
        kind = subject.kind_of(signature)
        found = find(kind, content)
        if found is not None:
            return found
        fun, naming, history = subject.fun, call.naming(), table.history
        before = list(table if seen is None else seen)
        if self._max_traces is not None:
            if self._traces >= self._max_traces:
                raise history.too_many(self._max_traces, before, signature, naming)
            self._traces += 1
        record, start = history.begin(before, signature, naming)
        operands = content.operands if content is not None else ()
        with tracking_reads(operands) as tracker, collecting() as assumed:
            made = trace(
                fun,
                lambda leaves: call.apply(fun, leaves),
                signature.avals,
                naming.leaves,
                static=subject.static_result,
            )
        made.assumed = frozenset(assumed)
        made.record = record
        history.end(signature, naming, record, start)
        return share(kind, content, tracker, made)

    def forget(self) -> None:
        """Restart the count of traces."""
        self._traces = 0

    def count(self, entries: int) -> int:
        """Return the number of programs of a wrapper with this many entries."""
        return entries


UNLIMITED = PlainRecorder()
"""The recorder of all wrappers without a limit of traces."""


def _content(subject: Subject, signature: Signature, call: Arguments) -> Content | None:
    """Return the content of the function and of the static arguments of a call."""
    if subject.static_result or not is_plain(signature.tree, Named):
        return None
    if signature.statics == ():
        return content_of(subject.fun)
    return content_of((subject.fun, call.positional, *call.statics))
