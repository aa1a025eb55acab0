"""The supervisor of an elastic program: what each process is that the manager has started.

It never trains: it starts the program again as a worker, once for each round, and agrees with the
other supervisors on who takes part. One of them leads; if it ends, the next one does.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from kiln.base.records import Record
from kiln.core.processes.lifelines import Lifelines
from kiln.core.processes.lines import Message
from kiln.core.processes.membership import GONE, Limits, Rounds
from kiln.core.processes.worker import Worker, described

POLL_S = 0.05
LAST_S = 5.0
RETRY_S = 0.5
FAILOVER_S = 15.0
"""How long a supervisor tries to reach the next leader, and how long that one waits for all."""


class Setting(Record):
    """Where the supervisors meet, which of them this is, and what it starts.

    `bind_host` is where the first leader listens, and those of the same machine if they lead; the
    others do so at `own_bind`.
    `marker` is the variable that names the folder in which a worker says that another one failed.
    """

    host: str
    port: int
    index: int
    count: int
    bind_host: str
    own_bind: str
    is_same_machine: bool
    token: str
    limits: Limits
    command: Sequence[str]
    marker: str
    initialization_timeout: float
    heartbeat_timeout: float


class Supervisor:
    """Runs the rounds of a program; `run` returns the exit code."""

    def __init__(self, setting: Setting) -> None:
        self._set = setting
        self._events: queue.SimpleQueue[tuple[int, int, Message | None]] = queue.SimpleQueue()
        self._generation = 0
        self._lines: Lifelines | None = None
        self._rounds: Rounds | None = None
        self._heard: dict[int, float] = {}
        self._last_look = time.monotonic()
        self._own_host, self._port = setting.host, _free_port(setting.own_bind)
        self._addresses: dict[int, str] = {}
        self._leader = 0
        self._number, self._failures = -1, 0
        self._worker: Worker | None = None
        self._rank = 0
        self._is_leaving = self._leader_leaves = False
        self._code: int | None = None
        self._last_code = 0

    def run(self) -> int:
        """Take part until the program ends, and return its exit code.

        Raises: OSError if the others are not met.
        """
        before = {n: signal.signal(n, self._on_signal) for n in (signal.SIGTERM, signal.SIGINT)}
        try:
            with tempfile.TemporaryDirectory(prefix="kiln-run-") as folder:
                self._folder = Path(folder)
                self._meet()
                while self._code is None:
                    self._turn()
                self._wait_for_followers()
                return self._code
        finally:
            if self._worker is not None:
                self._worker.kill()
            if self._lines is not None:
                self._lines.close()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._events.put((-1, number, None))

    # Connections. In these, the leader is process 0, and supervisor i is process i + 1.

    def _connections(self, rank: int) -> Lifelines:
        self._generation += 1
        generation = self._generation
        self._heard = {}
        if self._lines is not None:
            self._lines.close()
        self._lines = Lifelines(
            rank,
            min(5.0, self._set.heartbeat_timeout / 4),
            lambda rank, message: self._events.put((generation, rank, message)),
            lambda rank: self._events.put((generation, rank, None)),
            lambda: None,
            self._set.token,
        )
        return self._lines

    def _meet(self) -> None:
        """Lead, or reach the leader, as the program starts."""
        given = self._set
        deadline = time.monotonic() + given.initialization_timeout
        if not given.index:
            # If this replaces the first supervisor, another one may have taken the address.
            with contextlib.suppress(OSError):
                self._lead(given.bind_host, given.port, Rounds(given.limits, given.count, deadline))
                return
        if not self._follow(f"{given.host}:{given.port}", given.initialization_timeout):
            raise OSError(self._refusal)

    def _wait_for_followers(self) -> None:
        """As the leader, let the others read the last message: they disconnect then."""
        end = time.monotonic() + LAST_S
        waits = self._rounds is not None and not self._is_leaving
        while waits and self._heard and time.monotonic() < end:
            with contextlib.suppress(queue.Empty):
                generation, rank, message = self._events.get(timeout=POLL_S)
                if generation == self._generation and message is None:
                    self._heard.pop(rank, None)

    def _lead(self, host: str, port: int, rounds: Rounds) -> None:
        """Become the leader.

        Raises: OSError if the address is taken.
        """
        self._connections(0).listen(self._set.count + 1, host, port)
        self._rounds, self._leader = rounds, self._set.index
        self._tell({"kind": "join", "host": self._own_host, "address": self._own_address()})
        self._tell_ready()

    def _follow(self, address: str, seconds: float) -> bool:
        """Connect to a leader; return whether that succeeded."""
        host, _, port = address.rpartition(":")
        lines = self._connections(self._set.index + 1)
        self._rounds = None
        self._refusal = lines.connect(self._set.count + 1, host, int(port), seconds)
        if self._refusal:
            return False
        self._heard = {0: time.monotonic()}
        self._own_host = lines.local_host()
        self._tell(
            {
                "kind": "join",
                "host": self._own_host,
                "address": self._own_address(),
                "round": self._number,
                "failures": self._failures,
            }
        )
        if self._worker is None:
            self._tell_ready()
        return True

    def _own_address(self) -> str:
        """Return where this supervisor listens if it leads: where the first did, if it can."""
        if self._set.is_same_machine:
            return f"{self._set.host}:{self._set.port}"
        return f"{self._own_host}:{self._port}"

    def _tell(self, message: Message) -> None:
        """Send a message to the leader, which may be this one."""
        if self._rounds is not None:
            self._events.put((self._generation, self._set.index + 1, message))
        elif self._lines is not None:
            self._lines.send(message)

    def _tell_ready(self) -> None:
        self._tell({"kind": "ready", "port": _free_port(self._own_host)})

    def _follow_next(self) -> None:
        """Find the next leader after the last one has ended."""
        if self._is_leaving:
            # This one ends with its worker.
            self._generation += 1
            self._heard = {}
            return
        if self._worker is not None:
            self._worker.stop(is_gentle=self._leader_leaves)
            while self._worker is not None:
                self._look_at_worker()
                time.sleep(POLL_S)
        old = self._leader
        rest = [m for m in sorted(self._addresses) if m != old]
        for member in rest:
            if member == self._set.index:
                if self._succeed(old, len(rest)):
                    return
            elif self._follow(self._addresses[member], FAILOVER_S):
                self._leader = member
                return
        self._say("no other supervisor leads")
        self._code = GONE

    def _succeed(self, old: int, count: int) -> bool:
        """Become the leader after another one; return whether its address is free."""
        host, _, port = self._own_address().rpartition(":")
        given = self._set
        bind = given.bind_host if int(port) == given.port else given.own_bind
        deadline = time.monotonic() + (0.0 if self._leader_leaves else FAILOVER_S)
        rounds = Rounds(given.limits, count, deadline, self._number + 1, self._failures)
        end = time.monotonic() + FAILOVER_S
        while True:
            # The last leader may be closing its connections, or another one has the address.
            try:
                self._lead(bind, int(port), rounds)
                break
            except OSError:
                if self._follow(f"{host}:{port}", RETRY_S):
                    return True
            if time.monotonic() > end:
                return False
        if self._leader_leaves:
            rounds.code_of_too_few = self._last_code or GONE
        else:
            rounds.fail(f"supervisor {old}, which led, has ended", GONE)
        return True

    # Events.

    def _turn(self) -> None:
        """Wait for an event or a moment, and do what follows."""
        with contextlib.suppress(queue.Empty):
            self._handle(*self._events.get(timeout=POLL_S))
        if self._code is not None:
            return
        self._look_at_worker()
        silent = self._silent()
        if self._rounds is not None:
            for rank in silent:
                seconds = f"{self._set.heartbeat_timeout:g} seconds"
                self._rounds.lose(rank - 1, f"has not answered for {seconds}")
                del self._heard[rank]
            for message in self._rounds.decide(time.monotonic()):
                if self._lines is not None:
                    self._lines.send(message)
                self._obey(message)
            for text in self._rounds.reports:
                self._say(text)
            self._rounds.reports.clear()
        elif silent:
            self._follow_next()

    def _silent(self) -> list[int]:
        """Return the connections from which nothing was received for too long."""
        now, patience = time.monotonic(), self._set.heartbeat_timeout
        if now - self._last_look > patience / 2:
            # This process itself was suspended.
            self._heard = dict.fromkeys(self._heard, now)
        self._last_look = now
        return [rank for rank, heard in self._heard.items() if now - heard > patience]

    def _handle(self, generation: int, rank: int, message: Message | None) -> None:
        if generation < 0:
            self._leave(rank)
        elif generation != self._generation:
            return
        elif self._rounds is not None:
            if message is None:
                self._heard.pop(rank, None)
                self._rounds.lose(rank - 1, "has ended")
            else:
                if rank != self._set.index + 1:
                    self._heard[rank] = time.monotonic()
                self._note(self._rounds, rank - 1, message)
        elif message is None:
            self._follow_next()
        else:
            self._heard[0] = time.monotonic()
            if not rank:
                self._obey(message)

    def _note(self, rounds: Rounds, member: int, message: Message) -> None:
        """As the leader, note what a supervisor says."""
        kind = message["kind"]
        if kind == "join":
            rounds.join(member, str(message["host"]), str(message["address"]))
            rounds.number = max(rounds.number, int(message.get("round", -1)) + 1)
            rounds.failures = max(rounds.failures, int(message.get("failures", 0)))
        elif member not in rounds.members:
            return
        elif kind == "ready":
            rounds.ready(member, int(message["port"]))
        elif kind == "leaving":
            rounds.leave(member)
        elif kind == "ended" and message["round"] == rounds.number - 1:
            rounds.ended(
                member,
                int(message["code"]),
                str(message["how"]),
                is_own=bool(message["own"]),
                is_ordered=bool(message["ordered"]),
            )

    def _obey(self, message: Message) -> None:
        """Do what the leader says."""
        kind = message["kind"]
        if kind == "members":
            addresses = json.loads(message["addresses"])
            self._addresses = {int(member): address for member, address in addresses.items()}
        elif kind == "leaving":
            self._leader_leaves = True
        elif kind == "start":
            self._number, self._failures = int(message["round"]), int(message["failures"])
            self._leader_leaves = False
            ranks = message["ranks"]
            if str(self._set.index) in ranks and self._worker is None:
                self._start(ranks[str(self._set.index)], len(ranks), message)
        elif kind == "stop" and message["round"] == self._number and self._worker is not None:
            self._worker.stop(is_gentle=bool(message["gentle"]))
        elif kind == "end":
            self._code = int(message["code"])

    def _leave(self, number: int) -> None:
        """Pass a signal on to the worker; this supervisor ends with it."""
        if not self._is_leaving:
            self._is_leaving = True
            if self._rounds is not None and self._lines is not None:
                self._lines.send({"kind": "leaving"})
            self._tell({"kind": "leaving"})
        if self._worker is None:
            # It may have ended before, because another supervisor was asked first.
            self._code = self._last_code or 128 + number
        else:
            self._worker.terminate(number)

    # The worker.

    def _start(self, rank: int, count: int, message: Message) -> None:
        self._rank = rank
        host, port = str(message["host"]), int(message["port"])
        environment = dict(os.environ)
        environment.pop("JAX_COORDINATOR_BIND_ADDRESS", None)
        marks = self._folder / str(self._number)
        marks.mkdir(exist_ok=True)
        environment.update(
            {
                "JAX_COORDINATOR_ADDRESS": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
                "JAX_NUM_PROCESSES": str(count),
                "JAX_PROCESS_ID": str(rank),
                "KILN_LAUNCH_ATTEMPT": str(self._number),
                self._set.marker: str(marks),
            }
        )
        self._worker = Worker(self._set.command, environment)
        if self._is_leaving:
            self._worker.terminate(signal.SIGTERM)

    def _look_at_worker(self) -> None:
        worker = self._worker
        code = None if worker is None else worker.code()
        if worker is None or code is None:
            return
        self._worker = None
        how, is_own = described(code, self._folder / str(self._number) / str(self._rank))
        self._last_code = code if code >= 0 else 128 - code
        self._tell(
            {
                "kind": "ended",
                "round": self._number,
                "code": code,
                "how": how,
                "own": int(is_own),
                "ordered": int(worker.is_told),
            }
        )
        if self._is_leaving:
            self._code = self._last_code
        else:
            self._tell_ready()

    def _say(self, text: str) -> None:
        sys.stderr.write(f"kiln.distributed.run: {text}\n")
        sys.stderr.flush()


def _free_port(host: str) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as found, contextlib.suppress(OSError):
        found.bind((host, 0))
        return int(found.getsockname()[1])
    with socket.create_server(("", 0)) as found:
        return int(found.getsockname()[1])
