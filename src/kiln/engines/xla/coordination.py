"""Several processes as one program, by jaxlib's coordination service and its Gloo collectives.

Process 0 hosts the service. jaxlib ends processes that miss a heartbeat; here it waits for years,
and `core/peers.py` looks after the processes.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any, TypeVar

from jaxlib import _jax

from kiln.base.errors import JaxRuntimeError, three_lines
from kiln.base.source import current_source
from kiln.core.peers import JoinRequest
from kiln.engines.xla.apart import apart
from kiln.engines.xla.binding import XlaError, failed
from kiln.engines.xla.relay import Relay, reach

T = TypeVar("T")

NEVER_S = 10**8
RPC_S = 20

_current: Coordination | None = None
_kept: list[Any] = []
"""What would wait for other processes if it were freed."""


class Coordination:
    """The connection to the other processes: a store that all share, and barriers."""

    def __init__(self, request: JoinRequest) -> None:
        self.request = request
        host, port = address_of(request.address)
        self.host = host
        self._service: Any = None
        if request.index == 0:
            self._service = _service(request)
        own_address = reach(host, port, request.initialization_timeout)
        if own_address is None:
            raise _unreachable(request, "nobody listens there")
        relay = Relay(host, port)
        self._client = _jax.get_distributed_runtime_client(
            f"127.0.0.1:{relay.port}",
            request.index,
            rpc_timeout=RPC_S,
            init_timeout=max(1, round(request.initialization_timeout)),
            shutdown_timeout=max(1, round(request.shutdown_timeout)),
            heartbeat_timeout=NEVER_S,
            shutdown_on_destruction=False,
            use_compression=True,
        )
        _kept.append((self._client, self._service))
        try:
            apart(self._client.connect, must_end=False)
        except XlaError as error:
            raise _unreachable(request, _reason(error)) from None
        self._collectives = _jax.make_gloo_tcp_collectives(
            distributed_client=self._client, hostname=own_address
        )

    def of_client(self) -> dict[str, Any]:
        """Return what jaxlib's client of the devices is made with."""
        return {
            "distributed_client": self._client,
            "node_id": self.request.index,
            "num_nodes": self.request.count,
            "collectives": self._collectives,
        }

    def _call(self, doing: str, call: Callable[..., T], *args: Any) -> T:
        try:
            return call(*args)
        except XlaError as error:
            failed(error, doing)

    def set(self, key: str, value: str) -> None:
        """Write an entry."""
        self._call("writing for other processes", self._client.key_value_set, key, value, True)

    def directory(self, prefix: str) -> dict[str, str]:
        """Return the entries whose keys begin so."""
        found = self._call("reading from other processes", self._client.key_value_dir_get, prefix)
        return dict(found)

    def barrier(self, name: str, seconds: float) -> None:
        """Wait until all processes are here; each name once."""
        wait = self._client.wait_at_barrier
        self._call("waiting for other processes", wait, name, max(1, round(1000 * seconds)))

    def close(self, *, orderly: bool) -> None:
        """Leave: all processes have come to their ends, or this one cannot wait for them."""
        if orderly:
            with contextlib.suppress(XlaError):
                self._client.shutdown()


def address_of(text: str) -> tuple[str, int]:
    """Return the host and the port of an address.

    Raises: ValueError.
    """
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not host:
        raise ValueError(
            three_lines(
                f"distributed.initialize with coordinator_address={text!r} at {current_source()}",
                "an address is a host and a port",
                "write coordinator_address='10.0.0.1:1234'",
            )
        )
    return host.strip("[]"), int(port)


def connect(request: JoinRequest) -> Coordination:
    """Connect this process to the others, once."""
    global _current
    _current = Coordination(request)
    return _current


def of_client() -> dict[str, Any]:
    """Return what jaxlib's client of the devices is made with, if there are other processes."""
    return _current.of_client() if _current is not None else {}


def _service(request: JoinRequest) -> Any:
    host, port = address_of(request.bind_address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # jaxlib does not say why it could not.
        with socket.create_server((host, port), family=family):
            pass
        return _jax.get_distributed_runtime_service(
            request.bind_address,
            request.count,
            heartbeat_timeout=NEVER_S,
            cluster_register_timeout=max(1, round(request.initialization_timeout)),
            shutdown_timeout=max(1, round(request.shutdown_timeout)),
            recoverable=True,
        )
    except (OSError, XlaError) as error:
        raise JaxRuntimeError(
            three_lines(
                f"distributed.initialize: process 0 listens at {request.bind_address}",
                _reason(error),
                "choose another port in coordinator_address, the same in all processes",
            )
        ) from None


def _reason(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _unreachable(request: JoinRequest, reason: str) -> JaxRuntimeError:
    return JaxRuntimeError(
        three_lines(
            f"distributed.initialize: process {request.index} of {request.count} meets the others "
            f"at {request.address}",
            f"they were not all there within {request.initialization_timeout:g} seconds: {reason}",
            "start all processes with the same coordinator_address and num_processes, each with "
            "its own process_id",
        )
    )
