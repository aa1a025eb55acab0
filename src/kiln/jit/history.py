"""The traces of a function: why each happened, one warning about too many, the limit."""

from __future__ import annotations

import collections
import time
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.errors import RecompilationError, RecompilationWarning, three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import options
from kiln.base.source import current_source, definition_of, is_internal, name_of
from kiln.base.weak import WeakSet
from kiln.jit.signatures.explain import Difference, Naming, Record, differences, only, record

REMEMBERED = 16
"""How many of the last signatures are examined to find what keeps changing."""

REMEDIES = {
    "shape": "pad to a few sizes, or name the axis with abstracted_axes",
    "dtype": "convert the argument to one dtype before the call",
    "weak type": "always pass an array, or always a number: jnp.float32(2.0) is not 2.0",
    "static value": "make it an ordinary argument, unless shapes or Python control flow need it",
    "structure": "pass containers of one structure",
    "options": "set options once, outside of loops",
}
"""What to do about a reason to trace again."""


class CacheInfo(NamedTuple):
    """What a jitted function has cost so far, and what is cached.

    Hits are not counted, since a counter would cost time on every call. `misses` are calls that did
    not find an entry; another wrapper of the function may have had the program already. `bytes` is
    the estimated size of the `executables` that are loaded.
    """

    misses: int
    traces: int
    entries: int
    executables: int
    bytes: int
    trace_seconds: float
    compile_seconds: float


class History:
    """The traces of one function under one set of options."""

    __slots__ = (
        "_at_once",
        "_has_warned",
        "_recent",
        "compile_seconds",
        "misses",
        "trace_seconds",
        "traces",
    )

    def __init__(self) -> None:
        self.misses = 0
        self.traces = 0
        self.trace_seconds = 0.0
        self.compile_seconds = 0.0
        self._has_warned = False
        # How many traces of the same signature other threads made at the same time.
        self._at_once = 0
        # With their ends, and without the function, which must be able to die.
        self._recent: list[tuple[Any, Sequence[int | str], Sequence[str], float]] = []

    def why(self, seen: Sequence[Any], key: Any, naming: Naming) -> tuple[Difference, ...]:
        """Return why a signature has to be traced; `seen` are those traced before."""
        recent = [old for old, *_ in self._recent]
        if not seen and not recent and _is_known_code(naming.fun):
            return only("new function")
        return differences([*seen, *recent], key, naming)

    def begin(self, seen: Sequence[Any], key: Any, naming: Naming) -> tuple[Record | None, float]:
        """Record the start of a trace; return its record, if one is requested, and the time."""
        made = record(naming.fun, lambda: self.why(seen, key, naming))
        return made, time.perf_counter()

    def end(self, key: Any, naming: Naming, made: Record | None, start: float) -> None:
        """Record the successful end of a trace, and warn if there were too many."""
        now = time.perf_counter()
        seconds = now - start
        self.traces += 1
        self._at_once += any(ended > start and old == key for old, _, _, ended in self._recent)
        self.trace_seconds += seconds
        if made is not None:
            made.trace_seconds = seconds
        self._recent.append((key, naming.places, naming.leaves, now))
        del self._recent[:-REMEMBERED]
        if self.traces == 1:
            _remember_code(naming.fun)
        enough = options().trace_warning
        if 0 < enough <= self.traces - self._at_once and not self._has_warned:
            self._has_warned = True
            self._warn(naming.fun)

    def _warn(self, fun: Callable[..., Any]) -> None:
        code = _code_of(fun)
        if code is not None and is_internal(code.co_filename):
            return
        source = current_source()
        text = self.advice(fun)
        file, line = (source.file, source.line) if source else ("kiln", 0)
        warnings.warn_explicit(text, RecompilationWarning, file, line)

    def advice(self, fun: Callable[..., Any]) -> str:
        """Say which argument keeps changing, and what to do about it."""
        asked = f"{definition_of(fun)}, called at {current_source()}"
        found: list[Difference] = []
        seen: list[Any] = []
        for key, places, leaves, _ in list(self._recent):
            if seen:
                found += differences(seen, key, Naming(fun, places, leaves))
            seen.append(key)
        if not found:
            return three_lines(asked, f"it was traced {self.traces} times", "look at its arguments")
        counts = collections.Counter((d.argument, d.reason) for d in found)
        (argument, reason), _ = counts.most_common(1)[0]
        texts = [d for d in found if (d.argument, d.reason) == (argument, reason)]
        values = list(dict.fromkeys([texts[0].old, *(d.new for d in texts)]))
        shown = ", ".join(values if len(values) <= 4 else [*values[:3], "...", values[-1]])
        what = f"argument {argument} keeps changing its {reason}" if argument else reason
        return three_lines(
            asked,
            f"it was traced {self.traces} times: {what}: {shown}",
            REMEDIES.get(reason, "look at kiln.explain_recompiles()"),
        )

    def too_many(
        self, limit: int, seen: Sequence[Any], key: Any, naming: Naming
    ) -> RecompilationError:
        """Return the error for a function traced more often than its `max_traces`."""
        found = self.why(seen, key, naming)
        texts = "; ".join(map(str, found))
        remedy = REMEDIES.get(found[0].reason, "call it with arguments of the same types")
        return RecompilationError(
            three_lines(
                f"call of {definition_of(naming.fun)} at {current_source()}",
                f"{name_of(naming.fun)} was traced {limit} times already and max_traces={limit}, "
                f"but this call differs from the nearest earlier one: {texts}",
                f"{remedy}; or raise max_traces",
            )
        )


def _code_of(fun: Callable[..., Any]) -> types.CodeType | None:
    code = getattr(fun, "__code__", None)
    return code if isinstance(code, types.CodeType) else None


_codes: WeakSet[types.CodeType] = WeakSet()


def _remember_code(fun: Callable[..., Any]) -> None:
    code = _code_of(fun)
    if code is not None:
        _codes.add(code)


def _is_known_code(fun: Callable[..., Any]) -> bool:
    code = _code_of(fun)
    return code is not None and code in _codes
