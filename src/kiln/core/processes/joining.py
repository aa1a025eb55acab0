"""The protocol by which an engine joins processes into one program.

A module of its own, because every process imports engines, and few have peers.
"""

from __future__ import annotations

from typing import Protocol

from kiln.base.records import Record


class JoinRequest(Record):
    """The rank of this process, the address where it meets the others, and the shared token."""

    host: str
    port: int
    index: int
    count: int
    bind_host: str
    initialization_timeout: float
    shutdown_timeout: float
    token: str = ""


class Link(Protocol):
    """A key-value store that all processes share."""

    def set(self, key: str, value: str) -> None:
        """Write an entry."""
        ...

    def set_first(self, key: str, value: str) -> bool:
        """Write an entry unless it exists; tell whether this call has written it."""
        ...

    def set_bytes(self, key: str, value: bytes) -> None:
        """Write an entry of bytes."""
        ...

    def bytes_of(self, key: str) -> bytes | None:
        """Return an entry of bytes; None if there is none."""
        ...

    def wait(self, key: str, seconds: float) -> str | None:
        """Return an entry once it exists; None on a timeout."""
        ...

    def delete(self, key: str) -> None:
        """Remove an entry."""
        ...

    def barrier(self, name: str, seconds: float) -> None:
        """Wait until all processes have arrived; each name may be used once.

        Raises: JaxRuntimeError on a timeout.
        """
        ...

    def is_preempted_at(self, step: int) -> bool:
        """Tell whether a process was asked to end, and all stop at this step.

        The first call makes SIGTERM such a request. May block until all processes agree on a step.
        """
        ...

    def close(self, *, orderly: bool) -> None:
        """Disconnect. If not `orderly`, do not notify the peers, and do not wait."""
        ...


class Connector(Protocol):
    """Connects processes that have met: the engine that runs their programs."""

    def host(self, request: JoinRequest) -> int:
        """On process 0, start the service that the others connect to, and return its port."""
        ...

    def connect(self, request: JoinRequest, port: int) -> Link:
        """Connect to the service of process 0; blocks until all processes have."""
        ...
