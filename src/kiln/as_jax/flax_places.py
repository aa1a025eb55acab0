"""Where kiln has what Flax has: for programs that import `flax.linen` and get `kiln.linen`.

Besides `flax.linen` it replaces what modules are made of and return: scopes, frozen dictionaries,
errors, dataclasses that are pytrees, and what saves them. The rest of Flax stays as it is.
"""

from __future__ import annotations

PLACES = {
    "flax.core": "kiln.linen.core",
    "flax.core.frozen_dict": "kiln.linen.frozen_dict",
    "flax.core.meta": "kiln.linen.metadata",
    "flax.core.scope": "kiln.linen.core",
    "flax.core.spmd": "kiln.linen.spmd",
    "flax.errors": "kiln.linen.errors",
    "flax.linen": "kiln.linen",
    "flax.serialization": "kiln.serialization",
    "flax.struct": "kiln.struct",
    "flax.traverse_util": "kiln.traverse_util",
}


def place_of(name: str) -> str | None:
    """Return the module of kiln in the place of a module of Flax; None if that is Flax's own.

    The module may not exist, if kiln has nothing of the kind.
    """
    if name in PLACES:
        return PLACES[name]
    for package in ("flax.linen", "flax.core"):
        if name.startswith(package + "."):
            return PLACES[package] + name.removeprefix(package)
    return None
