"""Clients for programs that call Python, one per level of nested callbacks.

While its callbacks run, such a program occupies threads of its client, and one of the device's
slots for running programs. Programs run by a callback must not wait for either. So the client of
all other programs never runs one with callbacks, and a program called in a callback runs one level
deeper than the calling program, on another client. A level waits only for deeper ones: there is no
deadlock.

When results are computed, they are moved to the first client, which shares their memory: calls of
programs with callbacks are synchronous.
"""

from __future__ import annotations

from kiln.base.errors import three_lines
from kiln.base.process.forks import in_child, new_rlock
from kiln.base.source import current_source
from kiln.engines.xla.runtime.client import Client, second_cpu_client

DEEPEST = 16
"""The maximum number of levels, each with the threads of a client."""

_clients: list[Client] = []
_lock = new_rlock()
in_child(_clients.clear)


def client_of_level(level: int) -> Client:
    """Return the client for programs with callbacks at a level of nesting.

    Raises: RecursionError if callbacks are nested too deeply.
    """
    if level >= DEEPEST:
        raise RecursionError(
            three_lines(
                f"a call of a program with callbacks at {current_source()}",
                f"callbacks are nested {level} deep; each level needs its own threads",
                "end the recursion, or write it as a loop (lax.while_loop)",
            )
        )
    with _lock:
        while len(_clients) <= level:
            _clients.append(second_cpu_client())
        return _clients[level]
