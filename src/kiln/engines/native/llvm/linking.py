"""Loads object files, linked with the kernels of the runtime, without LLVM.

A cached program needs nothing else from this folder.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from kiln import _runtime
from kiln.engines.native.llvm import target as targets
from kiln.engines.native.llvm.target import Target

ENTRY = "kiln_entry"
"""The symbol of the entry point."""


class Code:
    """Code in memory; its address is valid while this object lives."""

    __slots__ = ("_owner", "address")

    def __init__(self, owner: Any, address: int) -> None:
        self._owner = owner
        self.address = address

    def __repr__(self) -> str:
        return f"Code(0x{self.address:x})"


@functools.cache
def symbols() -> dict[str, int]:
    """Return the addresses of the kernels of the runtime."""
    return _runtime.native_symbols()


def linked(image: bytes, entry: str) -> Code | None:
    """Load an object file; None if it is of a kind that the runtime does not link.

    Raises RuntimeError if the object lacks the symbol `entry`, or needs an undefined one.
    """
    found = _runtime.link_object(image, entry, symbols())
    if isinstance(found, str):
        return None
    address, owner = found
    return Code(owner, address)


@functools.cache
def host_target() -> Target:
    """Return the microarchitecture level to compile for: KILN_TARGET, or else the host CPU's.

    Raises ValueError on a name of no level that it runs, RuntimeError on an unknown processor.
    """
    processor = os.uname().machine.replace("arm64", "aarch64"), _runtime.processor_features()
    forced = os.environ.get("KILN_TARGET")
    return targets.forced(forced, *processor) if forced else targets.best(*processor)
