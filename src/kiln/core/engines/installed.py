"""Which engines can be loaded: kiln installs NumPy and LLVM, but jaxlib only as an extra."""

from __future__ import annotations

import importlib.util

from kiln.base.errors import MissingEngine, three_lines
from kiln.base.source import current_source

_LIBRARIES = {"xla": "jaxlib"}
"""What engines need that kiln does not install by itself."""
INSTALL_XLA = 'pip install "kiln[xla]"'

_installed: dict[str, bool] = {}


def is_installed(name: str) -> bool:
    """Tell whether the library that an engine needs is installed; it is not imported."""
    found = _installed.get(name)
    if found is None:
        library = _LIBRARIES.get(name)
        found = library is None or importlib.util.find_spec(library) is not None
        _installed[name] = found
    return found


def require_installed(name: str, asked: str) -> None:
    """Raise MissingEngine, saying what was asked, if an engine's library is not installed."""
    if is_installed(name):
        return
    raise MissingEngine(
        three_lines(
            f"{asked} at {current_source()}",
            f"the {name} engine needs {_LIBRARIES[name]}, which is not installed; without it "
            "programs run on the first CPU device of one process",
            INSTALL_XLA,
        )
    )
