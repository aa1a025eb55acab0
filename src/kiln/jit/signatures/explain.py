"""Why a call was traced again: how its signature differs from the nearest earlier one.

Signatures are made in `signature.py`, which names their parts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from kiln._runtime import Listed
from kiln.base.lazy import tree_mismatches
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import options, options_of_key
from kiln.base.source import current_source, definition_of, name_of
from kiln.execution.compilation import on_recompile
from kiln.execution.dumping import log
from kiln.jit.signatures.argument_binding import in_tree_of
from kiln.jit.signatures.parameters import argument_name, parameter_name
from kiln.jit.signatures.static_values import ByEquality

LONGEST_TEXT = 60


class Difference(NamedTuple):
    """A difference between two signatures: for `argument`, `old` became `new`."""

    argument: str
    reason: str
    old: str
    new: str

    def __str__(self) -> str:
        subject = f"argument {self.argument}" if self.reason in _OF_ARGUMENTS else self.reason
        if self.reason in ("options", "static value"):
            subject = f"{self.reason} {self.argument}"
        return f"{subject}: {self.old} before, {self.new} now"


_OF_ARGUMENTS = ("shape", "dtype", "weak type", "structure")


class Record:
    """One trace, or one program compiled again, and the reason.

    `argument` is the path of the argument that differs from the nearest earlier call, `reason` one
    of: shape, dtype, weak type, static value, structure, options, mapped axes; first call, new
    function (its code has been traced before, for another function object), closure (it holds
    values of an outer transformation, so its program cannot be kept), evicted (the executable was
    evicted from the cache). `source` is the user's file:line. `differences` has all of them.
    `traced_at` and `compiled_at` are when both began, by `time.perf_counter`.
    """

    def __init__(
        self,
        function: str,
        definition: str,
        differences: tuple[Difference, ...],
        source: str,
        trace_seconds: float = 0.0,
        compile_seconds: float = 0.0,
        traced_at: float = 0.0,
        compiled_at: float = 0.0,
    ) -> None:
        self.function = function
        self.definition = definition
        self.differences = differences
        self.source = source
        self.trace_seconds = trace_seconds
        self.compile_seconds = compile_seconds
        self.traced_at = traced_at
        self.compiled_at = compiled_at

    def __repr__(self) -> str:
        return f"Record({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    @property
    def argument(self) -> str:
        """The path of the argument that changed; empty if the reason is not an argument."""
        return self.differences[0].argument

    @property
    def reason(self) -> str:
        """The reason."""
        return self.differences[0].reason

    @property
    def old(self) -> str:
        """What the nearest earlier call had there."""
        return self.differences[0].old

    @property
    def new(self) -> str:
        """What this call has there."""
        return self.differences[0].new

    @property
    def seconds(self) -> float:
        """What tracing and compiling took."""
        return self.trace_seconds + self.compile_seconds

    def __str__(self) -> str:
        reasons = "\n  ".join(map(reason_text, self.differences))
        return f"{self.definition}, called at {self.source}:\n  {reasons}"


def reason_text(difference: Difference) -> str:
    """Return a reason as a sentence."""
    if difference.old or difference.new:
        return str(difference)
    return _SENTENCES.get(difference.reason, difference.reason)


_SENTENCES = {
    "first call": "never seen function",
    "new function": "a new function object with the code of one that was traced before",
    "closure": "the function closes over values of an outer transformation",
    "evicted": "its executable had made room for others (option executable_cache_mb)",
}


def only(reason: str) -> tuple[Difference, ...]:
    """Return a reason that is not a difference between two calls."""
    return (Difference("", reason, "", ""),)


class Naming(NamedTuple):
    """How messages name the arguments of a call that are not static.

    `places` holds the numbers of the positional ones, or their names.
    """

    fun: Callable[..., Any]
    places: Sequence[int | str]
    leaves: Sequence[str]


def differences(seen: Sequence[Any], key: Any, naming: Naming) -> tuple[Difference, ...]:
    """Return how a signature differs from the nearest of those seen, the latest if several."""
    if not seen:
        return only("first call")
    found = min((_between(old, key, naming) for old in reversed(seen)), key=_distance)
    return found or only("closure")


def _distance(found: tuple[Difference, ...]) -> tuple[int, int]:
    # If structures differ, nothing is known about the leaves.
    return sum(d.reason == "structure" for d in found), len(found)


def _between(old: Any, new: Any, naming: Naming) -> tuple[Difference, ...]:
    found: list[Difference] = []
    found += _of_structure(old, new, naming)
    if not found and old.avals != new.avals:
        for name, a, b in zip(naming.leaves, old.avals, new.avals, strict=True):
            found += [Difference(name, reason, _type(a), _type(b)) for reason in _of_types(a, b)]
    if old.statics != new.statics:
        found += _of_statics(old.statics, new.statics, naming)
    if old.options != new.options:
        before, now = options_of_key(old.options), options_of_key(new.options)
        found += [
            Difference(name, "options", str(before[name]), str(now[name]))
            for name in now
            if before[name] != now[name]
        ]
    if old.axes != new.axes:
        found.append(Difference("", "mapped axes", _short(old.axes), _short(new.axes)))
    return tuple(found)


def _of_types(a: Any, b: Any) -> list[str]:
    found = [
        reason
        for reason, part in (("shape", "shape"), ("dtype", "dtype"), ("weak type", "weak_type"))
        if getattr(a, part) != getattr(b, part)
    ]
    # A number and an array of another dtype differ in weak type too, which would only distract.
    if "weak type" in found and len(found) > 1:
        found.remove("weak type")
    return found if found or a == b else ["type"]


def _of_structure(old: Any, new: Any, naming: Naming) -> Iterator[Difference]:
    before, now = in_tree_of(old.tree).key, in_tree_of(new.tree).key
    for path, a, b, _ in tree_mismatches.differences(before, now, ()):
        yield Difference(argument_name(naming.fun, path, naming.places), "structure", a, b)


def _of_statics(old: Any, new: Any, naming: Naming) -> Iterator[Difference]:
    before, now = (dict(statics.values) if statics else {} for statics in (old, new))
    for place in {**before, **now}:
        if before.get(place) != now.get(place):
            texts = [static_text(x[place]) if place in x else "not given" for x in (before, now)]
            yield Difference(parameter_name(naming.fun, place), "static value", *texts)
    if before == now and old and new and old.positional != new.positional:
        counts = (str(statics.positional) for statics in (old, new))
        yield Difference("", "positional arguments", *counts)


def _type(aval: Any) -> str:
    return str(aval) + (" (weak type)" if aval.weak_type else "")


def static_text(key: Any) -> str:
    """Return the static value of a key of `static_key`, as text."""
    return _short(_Text(_static_text(key)))


def _static_text(key: Any) -> str:
    if not isinstance(key, tuple):
        return repr(key.value if isinstance(key, ByEquality) else key)
    if not key or not isinstance(key[0], type):
        # The arguments of a partial.
        return f"({', '.join(map(_static_text, key))})"
    kind, *rest = key
    if kind is float:
        return repr(float.fromhex(rest[0]))
    if kind is complex:
        return f"{_static_text(rest[0])}+{_static_text(rest[1])}j"
    if issubclass(kind, np.generic) and not issubclass(kind, np.flexible):
        if isinstance(rest[0], str):
            return rest[0]
        dtype = kind if len(rest) == 1 else rest[1]
        return f"{kind.__name__}({np.frombuffer(rest[0], dtype)[0]})"
    if kind is type(None) or kind in (int, str, bool, bytes):
        return repr(rest[0])
    parts = rest[0] if isinstance(rest[0], (tuple, frozenset)) else rest
    try:
        inner = ", ".join(map(_static_text, parts))
    except (TypeError, AttributeError):
        inner = ", ".join(map(repr, parts))
    return f"({inner})" if kind is tuple else f"{kind.__name__}({inner})"


class _Text(str):
    __slots__ = ()
    __repr__ = str.__str__


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 3] + "..."


# Listeners.


_collectors: list[list[Record]] = []


def _note_recompile(name: str, seconds: float) -> None:
    for records in tuple(_collectors):
        source = str(current_source())
        now = time.perf_counter()
        again = Record(name, name, only("evicted"), source, 0.0, seconds, now, now - seconds)
        records.append(again)


on_recompile(_note_recompile)


def explain_recompiles() -> AbstractContextManager[list[Record]]:
    """Collect the reasons why functions are traced and programs recompiled, on any thread.

    Yields a list that grows by one `Record` per trace; after a warm-up it should stay empty.

    Example:
        >>> f = kiln.jit(lambda x: x * 2)
        >>> with kiln.explain_recompiles() as records:
        ...     f(jnp.ones(3)), f(jnp.ones(4))
        (Array([2., 2., 2.], dtype=float32), Array([2., 2., 2., 2.], dtype=float32))
        >>> records[-1].reason
        'shape'
    """
    return Listed(_collectors, [])


def record(fun: Callable[..., Any], why: Callable[[], tuple[Difference, ...]]) -> Record | None:
    """Report to all listeners that a function is about to be traced; None if there are none."""
    wanted = options().explain
    if not wanted and not _collectors:
        return None
    made = Record(name_of(fun), definition_of(fun), why(), str(current_source()))
    made.traced_at = time.perf_counter()
    for collector in tuple(_collectors):
        collector.append(made)
    if wanted:
        log("TRACING %s", made)
    return made
