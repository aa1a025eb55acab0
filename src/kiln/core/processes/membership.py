"""Which supervisors run the next round of an elastic program, and when a round is over.

These are the decisions of the leader, without connections, clocks and processes: events change the
state, and `decide` returns the messages that follow from it.
"""

from __future__ import annotations

import json

from kiln.base.records import Record
from kiln.core.processes.lines import Message

REPLACEMENT_S = 30.0
"""How long too few supervisors wait for a replacement."""

SETTLED_S = 10.0
"""How long a round lasts at least before a supervisor that joins makes all start again."""

GONE = 1
"""The exit code if supervisors have gone, and there are too few."""


class Limits(Record):
    """How many processes a round has, and how many failures are followed by another round."""

    least: int
    most: int
    restarts: int


class Member:
    """A supervisor: where it leads if the leader ends, and whether its worker can be started."""

    def __init__(self, host: str, address: str) -> None:
        self.host = host
        self.address = address
        self.coordinator_port: int | None = None
        self.is_leaving = False


class Rounds:
    """The rounds that this supervisor leads.

    The first starts when `expected` members are ready, or at the time `deadline` if there are
    enough. `number` is that of the next round, `failures` how many have failed.
    """

    def __init__(
        self, limits: Limits, expected: int, deadline: float, number: int = 0, failures: int = 0
    ) -> None:
        self._limits = limits
        self._expected, self._deadline = max(expected, limits.least), deadline
        self.number, self.failures = number, failures
        self.code_of_too_few = GONE
        self.members: dict[int, Member] = {}
        self._codes: dict[int, int | None] = {}
        """The members of the round in progress, by rank, and how their workers have ended."""
        self._faults: list[tuple[bool, str, int]] = []
        self._left: list[int] = []
        """The exit codes of workers whose supervisors were asked to end, and have."""
        self._joined: list[int] = []
        self._began = 0.0
        self._is_stopping = self._is_changed = self._has_led = False
        self.result: int | None = None
        self.reports: list[str] = []
        """What is to be printed."""

    # Events.

    def join(self, member: int, host: str, address: str) -> None:
        """Add a supervisor; its worker does not run."""
        self.members[member] = Member(host, address)
        self._joined.append(member)
        self._is_changed = True

    def ready(self, member: int, port: int) -> None:
        """Note that a worker can be started; `port` is free where its supervisor is."""
        self.members[member].coordinator_port = port

    def ended(self, member: int, code: int, how: str, *, is_own: bool, is_ordered: bool) -> None:
        """Note the exit code of a worker, and why it ended.

        If not `is_own` it failed because another one had; if `is_ordered` it was told to end.
        """
        if self._codes.get(member, 0) is not None:
            return
        self._codes[member] = code
        if code and not is_ordered and not self.members[member].is_leaving:
            rank = list(self._codes).index(member)
            text = f"process {rank} of {len(self._codes)} ({self.members[member].host}) {how}"
            self._faults.append((is_own, text, code))

    def leave(self, member: int) -> None:
        """Note that a supervisor was asked to end, and does so when its worker has ended."""
        self.members[member].is_leaving = True

    def lose(self, member: int, why: str) -> None:
        """Remove a supervisor that has ended or does not answer."""
        gone = self.members.pop(member, None)
        if gone is None:
            return
        self._is_changed = True
        self._joined = [m for m in self._joined if m != member]
        if member not in self._codes:
            return
        if gone.is_leaving:
            self._left.append(_exit_code(self._codes[member]))
        else:
            self._faults.append((True, f"supervisor {member} ({gone.host}) {why}", GONE))

    # Decisions.

    def decide(self, now: float) -> list[Message]:
        """Return messages to all members, the leader included."""
        if self._is_over():
            return []
        made: list[Message] = []
        if self._is_changed:
            self._is_changed = False
            made.append({"kind": "members", "addresses": json.dumps(self._addresses())})
        if self._codes:
            running = [m for m, c in self._codes.items() if c is None and m in self.members]
            taking_part = [each for m, each in self.members.items() if m in self._codes]
            leaving = self._left or any(each.is_leaving for each in taking_part)
            grows = bool(self._joined) and len(self._codes) < self._limits.most
            grows = grows and now > self._began + SETTLED_S
            if not running:
                self._finish()
            elif (self._faults or leaving or grows) and not self._is_stopping:
                self._is_stopping = True
                # The others of a failed process end by themselves, and say why.
                is_gentle = not self._faults
                made.append({"kind": "stop", "round": self.number - 1, "gentle": int(is_gentle)})
        if not self._codes and not self._is_over():
            made += self._started(now)
        if self._is_over():
            made.append({"kind": "end", "code": self.result})
        return made

    def _is_over(self) -> bool:
        return self.result is not None

    def _addresses(self) -> dict[str, str]:
        return {str(member): each.address for member, each in sorted(self.members.items())}

    def _finish(self) -> None:
        """Decide what follows a round: its workers have ended."""
        codes = {m: c for m, c in self._codes.items() if m in self.members}
        left, self._left = self._left, []
        left += [_exit_code(c) for m, c in codes.items() if self.members[m].is_leaving]
        is_done = bool(codes) and not any(codes.values())
        count, self._codes = len(self._codes), {}
        faults, self._faults = self._faults, []
        self._is_stopping = False
        if is_done:
            self.result = 0
            return
        staying = [m for m, each in self.members.items() if not each.is_leaving]
        if left and len(staying) < self._limits.least:
            self.result = max(left) or GONE
            return
        self._expected, self._deadline = self._limits.least, -1.0
        # A program that was asked to end may end with any code.
        if faults and not left:
            # One that failed by itself, rather than because another one had.
            _, text, code = next((each for each in faults if each[0]), faults[0])
            self.fail(f"round {self.number - 1} of {count} processes has failed: {text}", code)

    def fail(self, text: str, code: int) -> None:
        """Count a failure, and report it; the program ends if it is one too many."""
        self.failures += 1
        if self.failures > self._limits.restarts:
            self.result = _exit_code(code)
            self.reports.append(f"{text}; {self._limits.restarts} restarts were allowed")
        else:
            self.reports.append(f"{text}; restart {self.failures} of {self._limits.restarts}")

    def _started(self, now: float) -> list[Message]:
        staying = {m: each for m, each in self.members.items() if not each.is_leaving}
        if any(each.coordinator_port is None for each in staying.values()):
            return []
        if self._deadline < 0:
            self._deadline = now + REPLACEMENT_S
        is_late = now >= self._deadline
        if len(staying) < (self._limits.least if is_late else self._expected):
            if is_late:
                self.result = self.code_of_too_few
                self.reports.append(
                    f"there are {len(staying)} supervisors, and a round needs at least "
                    f"{self._limits.least} processes"
                )
            return []
        ranked = sorted(staying)[: self._limits.most]
        first = staying[ranked[0]]
        assert first.coordinator_port is not None
        number, self.number = self.number, self.number + 1
        if number:
            came = [f"; supervisor {m} has joined" for m in self._joined if self._has_led]
            said = f"round {number} starts with {len(ranked)} processes"
            self.reports.append(f"{said}{''.join(came)}")
        self._has_led, self._began = True, now
        self._codes = dict.fromkeys(ranked)
        self._joined = [m for m in self._joined if m not in ranked]
        port = first.coordinator_port
        for member in ranked:
            staying[member].coordinator_port = None
        return [
            {
                "kind": "start",
                "round": number,
                "failures": self.failures,
                "ranks": {str(member): rank for rank, member in enumerate(ranked)},
                "host": first.host,
                "port": port,
            }
        ]


def _exit_code(code: int | None) -> int:
    """Return what a shell reports for the code of a process, which is negative for signals."""
    code = code or 0
    return code if code >= 0 else 128 - code
