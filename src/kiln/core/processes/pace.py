"""Stragglers: which process keeps the others waiting, before which program, and for how long.

Programs of several processes end in all of them at about the same time. So each process measures
how long it takes from the end of one to the beginning of the next: clocks need not agree. What is
much is sent to process 0 with the heartbeats, and compared there.
"""

from __future__ import annotations

import collections
import json
import sys
import time

from kiln.base.options.config import options
from kiln.base.source import current_source
from kiln.core.processes.exchanges import read, written
from kiln.core.processes.lines import Message

MOST = 16
"""The most programs that a process reports with one heartbeat."""

QUIET_S = 30.0
"""A process is reported no more often than once in this time."""

MEETINGS = "meetings"
"""The group of the exchanges of all processes, which have numbers of their own."""

_ALL = "all"


class Pace:
    """What this process measures: one reading of the clock for each program, and a comparison."""

    def __init__(self, count: int) -> None:
        self._all = written(range(count))
        self._end = float("inf")
        self._reached: dict[str, int] = {}
        self._late: collections.deque[tuple[str, int, int, str]] = collections.deque(maxlen=MOST)

    def arrive(self, now: float, group: str, number: int, name: str) -> None:
        """Note that this process is about to run a program."""
        self._reached[group] = number
        took, limit = now - self._end, options().straggler_seconds
        if limit and took > limit / 2:
            what = f"program {number} ({name}) at {current_source()}"
            self._late.append((self._short(group), number, round(1000 * took), what))

    def depart(self) -> None:
        """Note that a program has ended."""
        self._end = time.monotonic()

    def message(self) -> Message | None:
        """Return what is to be sent; None if no stragglers are to be reported."""
        if not options().straggler_seconds:
            return None
        late = [self._late.popleft() for _ in range(len(self._late))]
        reached = {self._short(group): number for group, number in list(self._reached.items())}
        return {"kind": "pace", "reached": reached, "late": json.dumps(late)}

    def _short(self, group: str) -> str:
        return _ALL if group == self._all else group


class Standings:
    """On process 0, what the processes have measured."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._reached: dict[str, dict[int, int]] = {}
        self._late: dict[tuple[str, int], dict[int, tuple[int, str]]] = {}
        self._printed: dict[int, float] = {}
        self._times: collections.Counter[int] = collections.Counter()

    def note(self, rank: int, message: Message) -> None:
        """Note what a process has sent."""
        for group, number in message["reached"].items():
            self._reached.setdefault(group, {})[rank] = number
        for group, number, took, what in json.loads(message["late"]):
            self._late.setdefault((group, number), {})[rank] = took, what

    def reports(self, now: float) -> list[str]:
        """Return a line for each process that was late, for programs that all have reached."""
        found, limit = [], 1000 * options().straggler_seconds
        for (group, number), late in list(self._late.items()):
            is_all = group in (_ALL, MEETINGS)
            ranks = range(self._count) if is_all else read(group)
            reached = self._reached.get(group, {})
            if any(reached.get(rank, 0) < number for rank in ranks):
                continue
            del self._late[group, number]
            # The others, which have not reported, took less than half of the limit.
            first = min(took for took, _ in late.values()) if len(late) == len(ranks) else 0
            for rank, (took, what) in late.items():
                if took - first <= limit:
                    continue
                self._times[rank] += 1
                if now - self._printed.get(rank, -QUIET_S) < QUIET_S:
                    continue
                self._printed[rank] = now
                times = self._times.pop(rank)
                often = f", the last of {times} times" if times > 1 else ""
                than = f"{first / 1000:.1f} s" if first else f"less than {limit / 2000:g} s"
                found.append(
                    f"process {rank} is late{often}: it has reached {what} {took / 1000:.1f} s "
                    f"after the end of the program before; the first process took {than}"
                )
        return found

    def print_reports(self, now: float) -> None:
        """Print what there is to say."""
        for text in self.reports(now):
            sys.stderr.write(f"kiln: {text}\n")
            sys.stderr.flush()
