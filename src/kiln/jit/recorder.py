"""Recorders: how the program for a new signature is made.

`PlainRecorder` traces the function, unless one of the same content was traced before. Other
recorders extend it for named axes (`sized.py`) and for numbers that calls supply (`late.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol

from kiln.content.by_content import is_plain
from kiln.content.fingerprint import Content, content_of
from kiln.core.watching import watched
from kiln.ir.assumptions import collecting
from kiln.jit.argument_binding import Named
from kiln.jit.cache import Recordings, find, share
from kiln.jit.entry import Recording
from kiln.jit.signature import Arguments, Signature
from kiln.jit.tracing import trace


class Recorder(Protocol):
    """Makes the programs of one wrapper."""

    def record(self, signature: Signature, call: Arguments, table: Recordings) -> Recording:
        """Return the recording for a signature that is not in the function's table."""
        ...

    def forget(self) -> None:
        """Start again, as after `clear_caches`."""
        ...

    def count(self, entries: int) -> int:
        """Return how many programs a wrapper with this many entries has."""
        ...


class PlainRecorder:
    """Traces a function once per signature.

    `options` are those of the wrapper that affect programs. With `static_result` the function
    returns a pair of arrays and Python values. More than `max_traces` traces are an error.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        options: Hashable,
        *,
        static_result: bool = False,
        max_traces: int | None = None,
    ) -> None:
        self.fun = fun
        self._options = options
        self._static_result = static_result
        self._max_traces = max_traces
        self._traces = 0

    def record(
        self,
        signature: Signature,
        call: Arguments,
        table: Recordings,
        seen: Iterable[Signature] | None = None,
    ) -> Recording:
        """Return the recording for a signature; `seen` are those traced, by default the table's.

        Raises: RecompilationError if there were too many traces.
        """
        tree, avals, _, options, axes = signature
        content = self._content(signature, call)
        key = (tree, avals, options, axes, self._options)
        found = find(key, content)
        if found is not None:
            return found
        fun, naming, history = self.fun, call.naming(), table.history
        before = list(table if seen is None else seen)
        if self._max_traces is not None and self._traces >= self._max_traces:
            raise history.too_many(self._max_traces, before, signature, naming)
        record, start = history.begin(before, signature, naming)
        operands = content.operands if content is not None else ()
        with watched(operands) as watch, collecting() as assumed:
            made = trace(
                fun,
                lambda leaves: call.apply(fun, leaves),
                avals,
                naming.leaves,
                static=self._static_result,
            )
        made.assumed = frozenset(assumed)
        made.record = record
        self._traces += 1
        history.end(signature, naming, record, start)
        return share(key, content, watch, made)

    def _content(self, signature: Signature, call: Arguments) -> Content | None:
        """Return the content of the function and of the static arguments of a call."""
        if self._static_result or not is_plain(signature.tree, Named):
            return None
        if signature.statics == ():
            return content_of(self.fun)
        return content_of((self.fun, call.positional, *call.statics))

    def forget(self) -> None:
        """Restart the count of traces."""
        self._traces = 0

    def count(self, entries: int) -> int:
        """Return how many programs a wrapper with this many entries has."""
        return entries
