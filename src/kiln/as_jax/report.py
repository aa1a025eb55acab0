"""Which names of jax a program touched, and which of them kiln lacks.

Present names are seen by giving kiln's modules a class that notes each reading from outside kiln;
this happens only between `start_report` and the end of the process, as it costs time.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

_touched: dict[str, set[str]] = {}
_missed: dict[str, int] = {}
_reporting = False


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


def record_missed(name: str) -> None:
    """Note the use of a name that kiln does not have."""
    _missed[name] = _missed.get(name, 0) + 1


def report() -> str:
    """Return the report as text: touched names by module, then missing names with their uses."""
    lines = []
    for module, names in sorted(_touched.items()):
        if names:
            lines.append(f"{module}: {' '.join(sorted(names))}")
    if not _missed:
        lines.append("missing: nothing that was used")
    for name, uses in sorted(_missed.items(), key=lambda item: (-item[1], item[0])):
        lines.append(f"missing: {name} (used {uses} times)")
    return "\n".join(lines)
