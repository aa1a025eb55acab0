"""Which names of jax a program touched, and which of them kiln lacks.

Present names are seen by giving kiln's modules a class that notes each reading from outside kiln;
this happens only between `start_report` and the end of the process, as it costs time. Between
`start_examination` and the end, the lines that asked for a missing name are noted as well, and a
placeholder stands for what comes of it.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source

Places = dict[str, int]
"""By `file:line` of a program: how often it happened there."""


class Refusal(NamedTuple):
    """An option or an argument that kiln has not, or a value that it does not take."""

    what: str
    why: str
    instead: str


_touched: dict[str, set[str]] = {}
_asked: dict[str, Places] = {}
_missed: dict[str, Places] = {}
_refused: dict[Refusal, Places] = {}
_reporting = False
_examining = False


class _Noting(ModuleType):
    """A module that notes which of its public names are read by other packages."""

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_"):
            caller = sys._getframe(1).f_globals.get("__name__") or ""
            if not caller.startswith(("kiln.", "importlib")):
                known = _touched.get(ModuleType.__getattribute__(self, "_kiln_jax_name"))
                if known is not None:
                    known.add(name)
        return ModuleType.__getattribute__(self, name)


def start_report() -> None:
    """Note from now on which names are read, of modules that are not loaded yet."""
    global _reporting
    _reporting = True


def observe(name: str, module: ModuleType) -> None:
    """Note what is read from a module of jax, if a report was asked for."""
    if not _reporting or type(module) is not ModuleType:
        return
    _touched.setdefault(name, set())
    module._kiln_jax_name = name  # type: ignore[attr-defined]
    module.__class__ = _Noting


def start_examination() -> None:
    """Note from now on who asks for what is missing, and go on as far as possible."""
    global _examining
    _examining = True


def examining() -> bool:
    """Tell whether the program goes on with placeholders."""
    return _examining


def record_asked(name: str) -> None:
    """Record that a name that kiln does not have was imported or read, if uses are examined."""
    if _examining:
        _count(_asked.setdefault(name, {}))


def record_missed(name: str) -> None:
    """Note the use of a name that kiln does not have."""
    _count(_missed.setdefault(name, {}))


def record_refusal(refusal: Refusal, place: str = "") -> None:
    """Note an option or an argument that was refused, here or at a place."""
    _count(_refused.setdefault(refusal, {}), place)


def asked() -> dict[str, Places]:
    """Return the missing names that were imported or read, and where."""
    return _asked


def missed() -> dict[str, Places]:
    """Return the missing names that were used, and where."""
    return _missed


def refused() -> dict[Refusal, Places]:
    """Return what else was refused, and where."""
    return _refused


def _count(places: Places, place: str = "") -> None:
    place = place or str(current_source() or "an unknown line")
    places[place] = places.get(place, 0) + 1


def report() -> str:
    """Return the report as text: touched names by module, then missing names with their uses."""
    lines = []
    for module, names in sorted(_touched.items()):
        if names:
            lines.append(f"{module}: {' '.join(sorted(names))}")
    if not _missed:
        lines.append("missing: nothing that was used")
    counted = {name: sum(places.values()) for name, places in _missed.items()}
    for name, uses in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        lines.append(f"missing: {name} (used {uses} times)")
    return "\n".join(lines)
