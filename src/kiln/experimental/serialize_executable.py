"""Compiled functions as bytes, for the same release of kiln and the same type of CPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import PyTreeDef
from kiln.core.engines.engine import Placement
from kiln.jit.stages.compiled import Compiled
from kiln.jit.stages.stored_compiled import compiled_from, from_bytes, stored_form, to_bytes

_BACKENDS = (None, "cpu")


@api_boundary
def serialize(compiled: Compiled) -> tuple[bytes, PyTreeDef, PyTreeDef]:
    """Return a compiled function as bytes, and the structures of its arguments and results.

    Raises: ValueError for a program with callbacks to Python, or that is compiled for all sizes.

    Example:
        >>> from kiln.experimental import serialize_executable as executables
        >>> stored = executables.serialize(kiln.jit(jnp.sin).lower(jnp.zeros(2)).compile())
        >>> executables.deserialize_and_load(*stored)(jnp.zeros(2))
        Array([0., 0.], dtype=float32)
    """
    return to_bytes(stored_form(compiled)), compiled.in_tree, compiled.out_tree


@api_boundary
def deserialize_and_load(
    serialized: bytes,
    in_tree: PyTreeDef,
    out_tree: PyTreeDef,
    backend: Any = None,
    execution_devices: Sequence[Any] | None = None,
) -> Compiled:
    """Return the compiled function that `serialize` stored.

    The bytes must be trusted: they contain machine code, and unpickling them may run arbitrary
    code. `execution_devices` are the devices to run on instead of those it was compiled for.

    Raises: ValueError for other bytes or structures, or another number of devices; JaxRuntimeError
        for another build of kiln or of jaxlib, or another type of CPU.
    """
    stored = from_bytes(serialized)
    asked = f"deserialize_and_load of {stored.name} at {current_source()}"
    if backend not in _BACKENDS and getattr(backend, "platform", backend) != "cpu":
        raise ValueError(
            three_lines(asked, f"there is no backend {backend!r} here", "leave the backend out")
        )
    if execution_devices is not None:
        stored = dataclasses.replace(stored, place=_on(asked, stored.place, execution_devices))
    return compiled_from(stored, in_tree, out_tree)


def _on(asked: str, place: Placement | None, devices: Sequence[Any]) -> Placement | None:
    """Return the placement of a program on other devices."""
    wanted = tuple(devices)
    if place is None and len(wanted) == 1 and wanted[0].id == 0:
        return None
    if place is not None and (
        place.devices == wanted or (len(place.devices), len(wanted)) == (1, 1)
    ):
        return dataclasses.replace(place, devices=wanted)
    count = 1 if place is None else len(place.devices)
    raise ValueError(
        three_lines(
            asked,
            f"it was compiled for {count} device{'s' * (count > 1)} "
            f"({'the default' if place is None else list(place.devices)}), and cannot run on "
            f"{list(wanted)}",
            "leave execution_devices out, or compile the function for these",
        )
    )
