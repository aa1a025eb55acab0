"""The counterparts of Flax's modules: for programs whose `flax.linen` is `kiln.linen`.

Besides `flax.linen` these replace what modules consist of and return: scopes, frozen dictionaries,
errors, pytree dataclasses, and their serialization. The rest of Flax is unchanged.
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
    """Return the module of kiln that replaces a module of Flax; None if none does.

    The module need not exist: kiln may lack a counterpart.
    """
    if name in PLACES:
        return PLACES[name]
    for package in ("flax.linen", "flax.core"):
        if name.startswith(package + "."):
            return PLACES[package] + name.removeprefix(package)
    return None
