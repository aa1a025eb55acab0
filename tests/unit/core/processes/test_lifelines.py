"""The connections among processes."""

from __future__ import annotations

import queue
import socket
from typing import Any

from kiln.core.processes.lifelines import Lifelines


def test_process_0_passes_on_what_the_others_say() -> None:
    heard: list[queue.Queue[Any]] = [queue.Queue() for _ in range(3)]

    def made(index: int) -> Lifelines:
        def hear(rank: int, message: Any) -> None:
            if message["kind"] != "beat":
                heard[index].put((rank, message["kind"]))

        return Lifelines(index, 60.0, hear, lambda rank: heard[index].put(rank), lambda: None)

    hub, *others = map(made, range(3))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    hub.listen(3, "127.0.0.1", port)
    assert hub.absent() == [1, 2]
    for other in others:
        assert other.connect(3, "127.0.0.1", port, 10.0) == ""
    assert hub.wait_for_all(10.0)
    others[0].send({"kind": "left"})
    # Relayed together with those of others, so that the sender gets its own, too.
    assert [heard[rank].get(timeout=10) for rank in range(3)] == [(1, "left")] * 3
    hub.send({"kind": "failed"})
    assert heard[1].get(timeout=10) == heard[2].get(timeout=10) == (0, "failed")
    others[1]._lines[0].connection.shutdown(socket.SHUT_RDWR)
    assert heard[0].get(timeout=10) == 2
