"""Finding tracers that outlive their trace, at its end, and what holds them.

Only with `check_tracer_leaks`, since the search walks over all objects of the process.
"""

from __future__ import annotations

import contextlib
import gc
import types
from collections.abc import Iterator
from typing import Any

from kiln.base.errors import UnexpectedTracerError, three_lines
from kiln.base.options.config import options
from kiln.base.source import shown_file
from kiln.core.ref import Ref
from kiln.core.trace import Trace, Tracer

_DEPTH = 4
"""The number of containers that are searched for a name that the user knows."""


def check_leaks(trace: Trace) -> None:
    """Look for tracers of a trace that has ended, if the option is set.

    Raises: UnexpectedTracerError with the line where one was made, and what holds it.
    """
    if not options().check_tracer_leaks or not _tracers_of(trace):
        return
    gc.collect()
    left = _tracers_of(trace)
    if not left:
        return
    tracer = left[0]
    kind, origin = "tracer", ""
    if isinstance(tracer, Ref):
        kind, origin = "reference", f", made at {tracer.source}" if tracer.source else ""
    else:
        origin = trace.origin(tracer)
    others = f", and {len(left) - 1} others" if len(left) > 1 else ""
    with _nothing_frozen():
        held = _holder(tracer, {id(left)}, _DEPTH)
    raise UnexpectedTracerError(
        three_lines(
            f"Leaked trace: a {kind} of type {tracer.aval}{origin} {trace.describe()}"
            f" is kept after the end of the transformation{others}",
            f"it is held by {held}",
            "return the value from the function instead of storing it",
        )
    )


def _tracers_of(trace: Trace) -> list[Tracer | Ref]:
    found = [x for x in gc.get_referrers(trace) if isinstance(x, (Tracer, Ref))]
    # A reference with a content may outlive its trace.
    return [x for x in found if x.owner is trace and getattr(x, "variable", x) is not None]


@contextlib.contextmanager
def _nothing_frozen() -> Iterator[None]:
    """Unfreeze frozen objects: holders are found only among those the collector tracks."""
    frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    try:
        yield
    finally:
        if frozen:
            gc.freeze()


def _holder(x: Any, ours: set[int], depth: int) -> str:
    """Describe the most informative holder of an object."""
    holders = [r for r in gc.get_referrers(x) if id(r) not in ours and not _is_ours(r)]
    ours = ours | {id(holders), id(x)}
    for r in holders:
        named = _named(r, x, ours)
        if named:
            return named
    for r in holders:
        if depth and isinstance(r, (list, tuple, set, frozenset, dict)):
            return f"{_place_in(r, x)} held by {_holder(r, ours, depth - 1)}"
    return f"an object of type {type(holders[0]).__name__}" if holders else "an unknown object"


def _is_ours(r: Any) -> bool:
    """Tell whether a reference comes from this search, or from the tracer itself."""
    if isinstance(r, types.FrameType):
        return r.f_globals is globals()
    return isinstance(r, Trace)


def _named(r: Any, x: Any, ours: set[int]) -> str:
    """Return the name by which a holder refers to an object; "" if it has none."""
    if isinstance(r, types.FrameType):
        name = next((k for k, v in r.f_locals.items() if v is x), "?")
        code = r.f_code
        at = f"{shown_file(code.co_filename)}:{r.f_lineno}"
        return f"the local variable {name} of {code.co_name} at {at}"
    if isinstance(r, types.CellType):
        for f in gc.get_referrers(r):
            cells = getattr(f, "__self__", f)
            if isinstance(cells, tuple):
                cells = next((g for g in gc.get_referrers(cells) if _is_function(g)), None)
            if _is_function(cells) and r in (cells.__closure__ or ()):
                name = cells.__code__.co_freevars[cells.__closure__.index(r)]
                return f"the closure variable {name} of {cells.__qualname__}"
        return ""
    if isinstance(r, dict):
        key = next((k for k, v in r.items() if v is x), None)
        for owner in gc.get_referrers(r):
            if isinstance(owner, types.ModuleType):
                return f"the global {key} of the module {owner.__name__}"
            if getattr(owner, "__dict__", None) is r:
                return f"the attribute {key} of an object of type {type(owner).__name__}"
        return ""
    if isinstance(r, (list, tuple, set, frozenset, Tracer)) or id(r) in ours:
        return ""
    names = [*getattr(r, "__dict__", {}), *getattr(type(r), "__slots__", ())]
    attribute = next((n for n in names if getattr(r, n, None) is x), None)
    if attribute is None:
        return ""
    return f"the attribute {attribute} of an object of type {type(r).__name__}"


def _is_function(f: Any) -> bool:
    return isinstance(f, types.FunctionType)


def _place_in(r: Any, x: Any) -> str:
    if isinstance(r, dict):
        key = next((k for k, v in r.items() if v is x), None)
        return f"the key {key!r} of a dict"
    if isinstance(r, (list, tuple)):
        index = next((i for i, v in enumerate(r) if v is x), None)
        return f"the item {index} of a {type(r).__name__}"
    return f"a {type(r).__name__}"
