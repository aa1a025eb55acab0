"""Several processes as one program, by jaxlib's coordination service and its Gloo collectives.

Process 0 hosts the service. jaxlib aborts processes that miss a heartbeat; here its timeout is
years, and `core/processes/peers.py` monitors the processes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

from jaxlib import _jax

from kiln.base.errors import JaxRuntimeError, three_lines
from kiln.base.process.lifetimes import never_freed
from kiln.core.processes.joining import JoinRequest
from kiln.core.processes.lifelines import listener
from kiln.engines.xla.runtime.binding import XlaError, failed
from kiln.engines.xla.runtime.relay import Relay, reach

T = TypeVar("T")

NEVER_S = 10**8
RPC_S = 20
REACH_S = 20.0

_current: Coordination | None = None


class Coordination:
    """The connection to the other processes: a shared key-value store, and barriers.

    Freeing what is jaxlib's would wait for other processes; in a forked child it would end them,
    by disconnecting on the connections of the parent.
    """

    def __init__(self, request: JoinRequest, port: int) -> None:
        self.request = request
        own_address = reach(request.host, port, REACH_S)
        if own_address is None:
            raise JaxRuntimeError(
                three_lines(
                    f"distributed.initialize in process {request.index} of {request.count}",
                    f"the processes have met, and {request.host} cannot be reached at port {port}",
                    "allow connections between the processes at all ports",
                )
            )
        relay = Relay(request.host, port)
        self._client = never_freed(
            _jax.get_distributed_runtime_client(
                f"127.0.0.1:{relay.port}",
                request.index,
                rpc_timeout=RPC_S,
                init_timeout=NEVER_S,
                shutdown_timeout=max(1, round(request.shutdown_timeout)),
                heartbeat_timeout=NEVER_S,
                shutdown_on_destruction=False,
                use_compression=True,
            )
        )
        self._call("meeting other processes", self._client.connect)
        self._preemption: Any = None
        self._collectives = _jax.make_gloo_tcp_collectives(
            distributed_client=self._client, hostname=own_address
        )

    def of_client(self) -> dict[str, Any]:
        """Return the arguments for jaxlib's client of the devices."""
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

    def set_first(self, key: str, value: str) -> bool:
        """Write an entry unless it exists; tell whether this call has written it."""
        try:
            self._client.key_value_set(key, value, False)
        except XlaError as error:
            if "ALREADY_EXISTS" in str(error):
                return False
            failed(error, "writing for other processes")
        return True

    def set_bytes(self, key: str, value: bytes) -> None:
        """Write an entry of bytes."""
        write = self._client.key_value_set_bytes
        self._call("writing for other processes", write, key, value, True)

    def bytes_of(self, key: str) -> bytes | None:
        """Return an entry of bytes; None if there is none."""
        try:
            return bytes(self._client.key_value_try_get_bytes(key))
        except XlaError as error:
            if "NOT_FOUND" in str(error):
                return None
            failed(error, "reading from other processes")

    def wait(self, key: str, seconds: float) -> str | None:
        """Return an entry once it exists; None on a timeout."""
        try:
            found: str = self._client.blocking_key_value_get(key, max(1, round(1000 * seconds)))
        except XlaError as error:
            if "DEADLINE_EXCEEDED" in str(error):
                return None
            failed(error, "reading from other processes")
        return found

    def delete(self, key: str) -> None:
        """Remove an entry."""
        self._call("writing for other processes", self._client.key_value_delete, key)

    def barrier(self, name: str, seconds: float) -> None:
        """Wait until all processes have arrived; each name may be used once."""
        wait = self._client.wait_at_barrier
        self._call("waiting for other processes", wait, name, max(1, round(1000 * seconds)))

    def is_preempted_at(self, step: int) -> bool:
        """Tell whether a process was asked to end, and all stop at this step.

        The first call makes SIGTERM such a request. May block until all processes agree on a step.
        """
        if self._preemption is None:
            self._preemption = never_freed(_jax.create_preemption_sync_manager())
            self._call("listening for SIGTERM", self._preemption.initialize, self._client)
        return bool(self._preemption.reached_sync_point(step))

    def close(self, *, orderly: bool) -> None:
        """Disconnect: all processes have ended, or this one cannot wait for them."""
        if orderly:
            with contextlib.suppress(XlaError):
                self._client.shutdown()


def host(request: JoinRequest) -> int:
    """Start the service in this process and return its port."""
    name = request.bind_host
    # jaxlib does not report if it could not listen: it crashes later.
    with listener(name, 0, request.count) as free:
        port = int(free.getsockname()[1])
    never_freed(
        _jax.get_distributed_runtime_service(
            f"[{name}]:{port}" if ":" in name else f"{name}:{port}",
            request.count,
            heartbeat_timeout=NEVER_S,
            cluster_register_timeout=NEVER_S,
            shutdown_timeout=max(1, round(request.shutdown_timeout)),
            recoverable=True,
        )
    )
    return port


def connect(request: JoinRequest, port: int) -> Coordination:
    """Connect this process to the service; blocks until all processes do."""
    global _current
    _current = Coordination(request, port)
    return _current


def of_client() -> dict[str, Any]:
    """Return the arguments for jaxlib's client of the devices, if there are other processes."""
    return _current.of_client() if _current is not None else {}
