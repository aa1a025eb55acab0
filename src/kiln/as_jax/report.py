"""Which names of JAX a program used, and which of them kiln lacks.

To observe present names, kiln's modules get a class that records each read from outside kiln; this
costs time, so it happens only after `start_report`. After `start_examination`, the lines that used
a missing name are recorded as well, and the results of such uses are placeholders.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source

Places = dict[str, int]
"""By `file:line` of a program: the number of uses."""


class Refusal(NamedTuple):
    """An option or an argument that kiln does not have, or a value that it does not accept."""

    what: str
    why: str
    instead: str


_used: dict[str, set[str]] = {}
_asked: dict[str, Places] = {}
_missed: dict[str, Places] = {}
_refused: dict[Refusal, Places] = {}
_reporting = False
_examining = False


class _Noting(ModuleType):
    """A module that records which of its public names other packages read."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            caller = sys._getframe(1).f_globals.get("__name__") or ""
            if not caller.startswith(("kiln.", "importlib")):
                known = _used.get(ModuleType.__getattribute__(self, "_kiln_jax_name"))
                if known is not None:
                    known.add(name)
        return ModuleType.__getattribute__(self, name)


def start_report() -> None:
    """Record from now on which names are read, of modules that are not loaded yet."""
    global _reporting
    _reporting = True


def observe(name: str, module: ModuleType) -> None:
    """Record reads from a module of JAX, if a report was requested."""
    if not _reporting or type(module) is not ModuleType:
        return
    _used.setdefault(name, set())
    module._kiln_jax_name = name  # type: ignore[attr-defined]
    module.__class__ = _Noting


def start_examination() -> None:
    """Record from now on uses of missing names, and continue as far as possible."""
    global _examining
    _examining = True


def examining() -> bool:
    """Tell whether the program is being examined: it continues with placeholders."""
    return _examining


def record_asked(name: str) -> None:
    """Record that a missing name was imported or read, if the program is examined."""
    if _examining:
        _count(_asked.setdefault(name, {}))


def record_missed(name: str) -> None:
    """Record the use of a missing name."""
    _count(_missed.setdefault(name, {}))


def record_refusal(refusal: Refusal, place: str = "") -> None:
    """Record an option or an argument that was refused, at the current line or a given place."""
    _count(_refused.setdefault(refusal, {}), place)


def asked() -> dict[str, Places]:
    """Return the missing names that were imported or read, and where."""
    return _asked


def missed() -> dict[str, Places]:
    """Return the missing names that were used, and where."""
    return _missed


def refused() -> dict[Refusal, Places]:
    """Return the refused options and arguments, and where."""
    return _refused


def _count(places: Places, place: str = "") -> None:
    place = place or str(current_source() or "an unknown line")
    places[place] = places.get(place, 0) + 1


def report() -> str:
    """Return the report as text: used names by module, then missing names with their uses."""
    lines = []
    for module, names in sorted(_used.items()):
        if names:
            lines.append(f"{module}: {' '.join(sorted(names))}")
    if not _missed:
        lines.append("missing: nothing that was used")
    counted = {name: sum(places.values()) for name, places in _missed.items()}
    for name, uses in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        lines.append(f"missing: {name} (used {uses} times)")
    return "\n".join(lines)
