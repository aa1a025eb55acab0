"""Several processes as one program. kiln runs in one process; one process is accepted."""

from __future__ import annotations

from typing import Any

from kiln.base.errors import UnavailableOptionError, three_lines
from kiln.base.source import current_source

__all__ = ["initialize", "is_initialized", "shutdown"]

_initialized = False


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: Any = None,
    **options: Any,
) -> None:
    """Start a program of one process.

    Raises: UnavailableOptionError for more processes, RuntimeError if it was started already.
    """
    global _initialized
    if num_processes is not None and num_processes != 1:
        raise UnavailableOptionError(
            three_lines(
                f"distributed.initialize with num_processes={num_processes} at {current_source()}",
                "kiln runs in one process",
                "leave num_processes out; KILN_NUM_CPU_DEVICES makes several devices",
            )
        )
    if _initialized:
        raise RuntimeError(
            three_lines(
                f"distributed.initialize at {current_source()}",
                "distributed.initialize should only be called once.",
                "call distributed.shutdown() before",
            )
        )
    _initialized = True


def is_initialized() -> bool:
    """Tell whether `initialize` was called."""
    return _initialized


def shutdown() -> None:
    """Undo `initialize`."""
    global _initialized
    _initialized = False
