"""The public names of the release of JAX that kiln follows, stored as data.

`public_names.json` is written by `python -m tests.differential.public_names`, which imports the
real jax.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

DATA = Path(__file__).with_name("public_names.json")


@functools.cache
def public_names() -> dict[str, frozenset[str]]:
    """Return the names of each public module of JAX, by the module's full name."""
    stored = json.loads(DATA.read_text(encoding="utf-8"))
    return {module: frozenset(names) for module, names in stored.items()}


def is_module(name: str) -> bool:
    """Tell whether JAX has a public module of this full name."""
    return name in public_names()


def is_public(module: str, name: str) -> bool:
    """Tell whether a module of JAX has a public name."""
    return name in public_names().get(module, ()) or is_module(f"{module}.{name}")


def has_submodules(name: str) -> bool:
    """Tell whether a module of JAX is a package with public submodules."""
    return any(module.startswith(name + ".") for module in public_names())
