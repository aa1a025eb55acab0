"""The private modules of JAX that libraries import.

`jax._src` is not a public interface, and kiln does not reimplement it. Some of its names are public
ones under another path, which libraries use: these resolve. All others are placeholders, which
raise when they are used.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

from kiln.as_jax.missing import MissingModule, MissingName, asked_for
from kiln.as_jax.names import is_module
from kiln.as_jax.private_functions import COMPUTED, FUNCTIONS, GONE

_PUBLIC = {
    "jax._src.ad_util": ("jax.interpreters.ad", "jax.lax", "jax.extend.core.primitives"),
    "jax._src.api": ("jax",),
    "jax._src.array": ("jax",),
    "jax._src.api_util": ("jax.api_util",),
    "jax._src.basearray": ("jax.typing", "jax"),
    "jax._src.callback": ("jax", "jax.interpreters.mlir", "jax.experimental"),
    "jax._src.checkify": ("jax.experimental.checkify",),
    "jax._src.config": ("jax",),
    "jax._src.core": (
        *(
            "jax.core",
            "jax.extend.core",
            "jax.errors",
            "jax.experimental.hijax",
            "jax.ref",
            "jax",
            "jax.experimental",
        ),
    ),
    "jax._src.custom_derivatives": ("jax.custom_derivatives",),
    "jax._src.debugger": ("jax.debug",),
    "jax._src.debugging": ("jax.debug",),
    "jax._src.dtypes": ("jax.dtypes",),
    "jax._src.effects": ("jax.extend.core", "jax.interpreters.mlir", "jax.experimental.hijax"),
    "jax._src.flatten_util": ("jax.flatten_util",),
    "jax._src.hijax": ("jax.experimental.hijax",),
    "jax._src.interpreters.ad": ("jax.interpreters.ad",),
    "jax._src.interpreters.batching": ("jax.interpreters.batching",),
    "jax._src.interpreters.mlir": ("jax.interpreters.mlir",),
    "jax._src.interpreters.partial_eval": ("jax.interpreters.partial_eval",),
    "jax._src.interpreters.pxla": ("jax.interpreters.pxla",),
    "jax._src.export._export": ("jax.export",),
    "jax._src.lax": ("jax.lax",),
    "jax._src.lax.control_flow": ("jax.lax",),
    "jax._src.lax.lax": ("jax.lax",),
    "jax._src.lax.parallel": ("jax.lax",),
    "jax._src.lax.slicing": ("jax.lax",),
    "jax._src.layout": ("jax.experimental.layout",),
    "jax._src.linear_util": ("jax.extend.linear_util",),
    "jax._src.literals": (),
    "jax._src.mesh": ("jax.sharding",),
    "jax._src.mesh_utils": ("jax.experimental.mesh_utils",),
    "jax._src.named_sharding": ("jax.sharding",),
    "jax._src.nn.functions": ("jax.nn",),
    "jax._src.numpy": ("jax.numpy",),
    "jax._src.numpy.lax_numpy": ("jax.numpy",),
    "jax._src.pallas.core": ("jax.experimental.pallas",),
    "jax._src.pallas.pallas_call": ("jax.experimental.pallas",),
    "jax._src.pallas.primitives": ("jax.experimental.pallas",),
    "jax._src.partition_spec": ("jax.sharding",),
    "jax._src.pjit": ("jax.experimental.pjit", "jax"),
    "jax._src.random": ("jax.random",),
    "jax._src.shard_map": ("jax",),
    "jax._src.sharding_impls": ("jax.sharding",),
    "jax._src.source_info_util": ("jax.extend.source_info_util",),
    "jax._src.state.indexing": ("jax.experimental.pallas",),
    "jax._src.state.types": ("jax.ref",),
    "jax._src.tree_util": ("jax.tree_util",),
    "jax._src.typing": ("jax.typing",),
    "jax._src.xla_bridge": ("jax.extend.backend",),
}

_KNOWN = (*_PUBLIC, *FUNCTIONS, *COMPUTED)


class PrivateModule(MissingModule):
    """A module below `jax._src`: public names under another path, and placeholders."""

    def __getattr__(self, name: str) -> Any:
        inner = f"{self.__name__}.{name}"
        if name.startswith("__") or inner in GONE:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if _public(inner) or any(
            known == inner or known.startswith(f"{inner}.") for known in _KNOWN
        ):
            return importlib.import_module(inner)
        if name in COMPUTED.get(self.__name__, {}):
            return COMPUTED[self.__name__][name]()
        own = FUNCTIONS.get(self.__name__, {})
        if name in own:
            return own[name]
        placeholder = None
        for public in _public(self.__name__):
            found = getattr(importlib.import_module(public), name, None)
            if isinstance(found, ModuleType):
                # Its private names are placeholders, too: a module of kiln does not replace jax's.
                return importlib.import_module(inner)
            if isinstance(found, MissingName):
                placeholder = found
            elif found is not None:
                return found
        return asked_for(f"{self.__name__}.{name}") if placeholder is None else placeholder


def _public(name: str) -> tuple[str, ...]:
    """Return the public modules whose names a private module provides.

    An unlisted module provides those of the public module of the same name, if it exists.
    """
    if name in _PUBLIC:
        return _PUBLIC[name]
    namesake = name.replace("._src", "", 1)
    return (namesake,) if is_module(namesake) else ()
