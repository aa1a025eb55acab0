"""Where programs that call Python run: on clients of their own, one for each level.

Such a program holds threads of its client, and one of the places that a device has for programs,
while its callbacks run. What a callback runs must therefore wait for neither. So the client of all
other programs never runs one with callbacks; and one that is called in a callback runs a level
deeper than the program around it, on another client. Whatever a level waits for is deeper: nothing
waits for itself.

Results are brought to the first client, which shares their memory, when they are computed: calls of
programs with callbacks return at their end.
"""

from __future__ import annotations

from kiln.base.errors import three_lines
from kiln.base.process.forks import in_child, new_rlock
from kiln.base.source import current_source
from kiln.engines.xla.runtime.client import Client, second_cpu_client

DEEPEST = 16
"""Levels, of which each has the threads of a client."""

_clients: list[Client] = []
_lock = new_rlock()
in_child(_clients.clear)


def client_of_level(level: int) -> Client:
    """Return the client on which programs with callbacks run, in so many callbacks.

    Raises: RecursionError if they are too many.
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
