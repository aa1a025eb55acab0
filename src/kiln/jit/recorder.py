"""Recorders: how the program of a signature met for the first time is made.

`PlainRecorder` is the rule: trace the function, unless one of the same content was traced. Where
axes have names (`sized.py`) or numbers come with every call (`late.py`) another recorder stands
before it.
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
from kiln.jit.explain import Naming
from kiln.jit.signature import Arguments, Signature
from kiln.jit.tracing import trace


class Recorder(Protocol):
    """Makes the programs of one wrapper."""

    def record(self, signature: Signature, call: Arguments, table: Recordings) -> Recording:
        """Return the program of a signature that the table of the function does not have."""
        ...

    def forget(self) -> None:
        """Start again, as after `clear_caches`."""
        ...

    def count(self, entries: int) -> int:
        """Return how many programs a wrapper with so many entries has."""
        ...


class PlainRecorder:
    """Traces a function once per signature.

    `options` are those of the wrapper that change programs. With `static_result` the function
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
        """Return the program of a signature; `seen` are those traced before, if not the table's.

        Raises: RecompilationError if there were too many traces.
        """
        tree, avals, _, options, axes = signature
        content = self._content(signature, call)
        key = (tree, avals, options, axes, self._options)
        found = find(key, content)
        if found is not None:
            return found
        fun, names, history = self.fun, call.names(), table.history
        naming = Naming(fun, call.places, names)
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
                names,
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
        """Count traces from 0 again."""
        self._traces = 0

    def count(self, entries: int) -> int:
        """Return how many programs a wrapper with so many entries has."""
        return entries
