"""What process 0 does for many others: their connections, and texts that they exchange through it.

`python -m benchmarks.scale.crowd` measures real connections between two processes: one is process
0, the other pretends to be all others. It prints seconds to authenticate them, and seconds of an
exchange of equal short texts, from the first text until all have the answer.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import socket
import time
from collections.abc import Sequence
from typing import Any

from kiln.core.processes.exchanges import ANSWER, SAID
from kiln.core.processes.handshake import authenticate
from kiln.core.processes.lines import Line, Message
from kiln.core.processes.peers import Peers

COUNTS = (64, 256, 1024, 4096)
ROUNDS = 5
LONGEST_S = 300.0
TOKEN = "secret"


class _First(Peers):
    """Process 0, whose engine needs no others."""

    def wait_for(self, count: int, port: int) -> None:
        """Wait until all have authenticated."""
        self._lifelines.listen(count, "127.0.0.1", port)
        assert self._lifelines.wait_for_all(LONGEST_S)


def _others(count: int, port: int, told: Any) -> None:
    """Pretend to be all processes but the first, as the second process of this benchmark."""
    _allow_files(count)
    end = time.monotonic() + LONGEST_S
    lines: list[Line] = []
    begin = time.perf_counter()
    for rank in range(1, count):
        line = Line(socket.create_connection(("127.0.0.1", port), timeout=LONGEST_S))
        authenticate(line, TOKEN, rank, count, end)
        line.rank = 0
        lines.append(line)
    told.send(time.perf_counter() - begin)
    for _ in range(ROUNDS):
        topic = told.recv()
        begin = time.perf_counter()
        text = {"kind": SAID, "topic": topic, "text": "the same", "group": f"0-{count - 1}"}
        for rank, line in enumerate(lines, 1):
            line.send({"rank": rank, **text})
        for line in lines:
            while not any(message.get("kind") == ANSWER for message in _received(line, end)):
                pass
        told.send(time.perf_counter() - begin)


def _received(line: Line, end: float) -> list[Message]:
    return [line.next(end)]


def _allow_files(count: int) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4 * count + 256), most))


def measured(count: int) -> tuple[float, float]:
    """Return the seconds of the connections of all processes, and the least of an exchange."""
    _allow_files(count)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    first = _First(0, count, LONGEST_S, TOKEN)
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    others = context.Process(target=_others, args=(count, port, there))
    others.start()
    try:
        first.wait_for(count, port)
        connecting, exchanges = here.recv(), []
        for number in range(ROUNDS):
            here.send(f"texts/{number}")
            first.exchange(f"{number}", "the same", "measuring")
            exchanges.append(here.recv())
    finally:
        others.kill()
        first.forget()
    return connecting, min(exchanges)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--counts", default=",".join(map(str, COUNTS)))
    options = parser.parse_args(argv)
    print("| processes | connections | each | exchange | each |\n|---:|---:|---:|---:|---:|")
    for count in map(int, options.counts.split(",")):
        connecting, exchange = measured(count)
        print(
            f"| {count} | {connecting:.2f} s | {1e6 * connecting / count:.0f} µs "
            f"| {1000 * exchange:.1f} ms | {1e6 * exchange / count:.0f} µs |",
            flush=True,
        )


if __name__ == "__main__":
    main()
