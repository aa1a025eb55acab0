"""The protocol by which an engine joins processes into one program.

Apart from `peers.py`, because every process knows engines and few have peers.
"""

from __future__ import annotations

from typing import Protocol

from kiln.base.records import Record


class JoinRequest(Record):
    """The rank of this process, where it meets the others, and the token that authenticates it."""

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

    def delete(self, key: str) -> None:
        """Remove an entry."""
        ...

    def directory(self, prefix: str) -> dict[str, str]:
        """Return the entries whose keys have a prefix."""
        ...

    def barrier(self, name: str, seconds: float) -> None:
        """Wait until all processes have arrived; each name may be used once.

        Raises: JaxRuntimeError on a timeout.
        """
        ...

    def close(self, *, orderly: bool) -> None:
        """Leave. If not `orderly`, do not notify the peers or wait for anything."""
        ...


class Connector(Protocol):
    """What connects processes that have met: the engine that runs their programs."""

    def host(self, request: JoinRequest) -> int:
        """As process 0, start what the others connect to, and return its port."""
        ...

    def connect(self, request: JoinRequest, port: int) -> Link:
        """Connect to what process 0 has started; waits for all processes."""
        ...
