"""The other processes of a program: whether they are alive, and whether they run the same programs.

Calls that need other processes run on threads of their own and are abandoned if another process
fails, because the libraries underneath would wait forever, or abort this process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kiln.base.errors import JaxRuntimeError, PeerError, one_line, three_lines
from kiln.base.options.config import options
from kiln.base.process.identity import become
from kiln.base.source import current_source
from kiln.core.processes.exchanges import ANSWER, LATE, LONGEST_TEXT, SAID, Exchanges, written
from kiln.core.processes.joining import Connector, JoinRequest, Link
from kiln.core.processes.lifelines import Lifelines
from kiln.core.processes.lines import Message
from kiln.core.processes.pace import MEETINGS, Pace, Standings
from kiln.core.processes.tasks import Task, started

T = TypeVar("T")

POLL_S = 0.1
"""Polling interval of a thread that waits for other processes: has one failed?"""

SLOW_S = 5.0
"""How long a program runs before the processes compare which one it is."""

REMEMBERED = 64
"""How many of the latest programs are kept for comparison."""

CLOSED_S = 2.0
"""How long this process waits, after a failed collective, for the report of which one ended."""

LEAST_TO_CONNECT_S = 10.0
"""The least time the processes have for connecting after all have registered."""

BEAT_S = 5.0
_PROGRAMS, _TEXTS = "programs/", "texts/"
PAUSE_S = 0.002
_REMEDY = "start all processes again, from the last checkpoint: see docs/processes.md"


class Peers:
    """The state of the other processes, as known to this one.

    `patience` is the heartbeat timeout: a process silent for this many seconds counts as dead.
    `token` is the secret that they share; "" if there is none.
    """

    link: Link

    def __init__(self, index: int, count: int, patience: float, token: str = "") -> None:
        self.index, self.count, self.token = index, count, token
        self.pid = os.getpid()
        self.patience = patience
        self.left: dict[int, dict[str, int]] = {}
        self._gone: set[int] = set()
        self._runs: dict[str, int] = {}
        self._known: dict[str, dict[Any, str]] = {}
        self.slow = SLOW_S
        self._reached: dict[str, dict[int, int]] = {}
        """For each group, the program in which each of the others waits, or has waited."""
        self._compared: dict[str, int] = {}
        self._failure: str | None = None
        self._heard: dict[int, float] = {}
        self._last_check = time.monotonic()
        self._unfinished: Task | None = None
        self._port: int | None = None
        self._meetings = 0
        self._pace, self._standings = Pace(count), Standings(count)
        self._exchanges = Exchanges(index, self._send, lambda: {*self.left})
        self._lifelines = Lifelines(
            self.index,
            min(BEAT_S, patience / 4),
            self._on_message,
            self._on_disconnect,
            self._on_tick,
            token,
        )

    def meet(self, request: JoinRequest, connector: Connector) -> None:
        """Meet the other processes, and connect to them.

        Raises: JaxRuntimeError on a timeout, or if one of them fails meanwhile.
        """
        begin, seconds = time.monotonic(), request.initialization_timeout
        asked = (
            f"distributed.initialize: process {self.index} of {self.count} meets the others at "
            f"{request.host}:{request.port}"
        )
        lines = self._lifelines
        if self.index:
            wrong = lines.connect(self.count, request.host, request.port, seconds)
            if wrong:
                raise _join_error(asked, wrong)
            self._heard = {0: time.monotonic()}
            port = self._port_of_service(asked, seconds)
        else:
            try:
                lines.listen(self.count, request.bind_host, request.port)
            except OSError as error:
                raise _join_error(
                    asked, f"it cannot listen at {request.bind_host}: {error}"
                ) from None
            if not lines.wait_for_all(seconds):
                missing = f"{_named(lines.absent())} not connected within {seconds:g} seconds"
                self.report_failure(missing)
                raise _join_error(asked, missing)
            self._heard = dict.fromkeys(range(1, self.count), time.monotonic())
            port = connector.host(request)
            lines.send({"kind": "start", "port": port})
        self._connect(request, connector, port, asked, begin + seconds)

    def _connect(
        self, request: JoinRequest, connector: Connector, port: int, asked: str, end: float
    ) -> None:
        """Connect the engine to the others; all have registered, but one may not respond."""
        end = max(end, time.monotonic() + min(request.initialization_timeout, LEAST_TO_CONNECT_S))

        def poll() -> None:
            self.check(asked)
            if time.monotonic() > end:
                missing = (
                    "all processes have registered, but not all have connected within "
                    f"{request.initialization_timeout:g} seconds"
                )
                self.report_failure(missing)
                raise _join_error(asked, missing)

        self.check(asked)
        self.link = self._await(started(lambda: connector.connect(request, port)), poll)

    def _port_of_service(self, asked: str, seconds: float) -> int:
        end = time.monotonic() + seconds
        while self._port is None:
            if self._failure is not None:
                raise _join_error(asked, self._failure)
            if time.monotonic() > end:
                raise _join_error(asked, f"not all processes connected within {seconds:g} seconds")
            time.sleep(PAUSE_S)
        return self._port

    def forget(self) -> None:
        """Close the connections to the others."""
        self._lifelines.close()

    # Failures.

    def failure(self) -> str | None:
        """Return the failure of another process; None if there is none."""
        return self._failure

    def check(self, asked: str) -> None:
        """Raise PeerError if another process has failed."""
        failure = self._failure
        if failure is not None:
            raise PeerError(three_lines(asked, failure, _REMEDY))

    def report_failure(self, text: str) -> None:
        """Report a failure to all processes; the first one is kept."""
        if self._failure is None:
            self._failure = text
            self._lifelines.send({"kind": "failed", "text": text})

    def _on_message(self, rank: int, message: Message) -> None:
        self._heard[0 if self.index else rank] = time.monotonic()
        kind = message.get("kind")
        if kind == "failed" and self._failure is None:
            self._failure = str(message.get("text"))
        elif kind == "start":
            self._port = int(message["port"])
        elif kind == "runs":
            self._compare(rank, message)
        elif kind == "left":
            self.left[rank] = message.get("runs", {})
            self._exchanges.on_leave()
        elif kind in (SAID, ANSWER, LATE):
            self._exchanges.on_message(rank, message)
        elif kind == "gone":
            self._gone.add(rank)
        elif kind == "pace":
            self._standings.note(rank, message)

    def _send(self, message: Message, ranks: Sequence[int]) -> None:
        self._lifelines.send(message, ranks)

    def _compare(self, rank: int, message: Message) -> None:
        """Compare a program that has been running for long in another process with ours."""
        number, theirs = message.get("number"), str(message.get("program"))
        group = str(message.get("group"))
        if isinstance(number, int):
            self._reached.setdefault(group, {})[rank] = number
        ours = self._known.get(group, {}).get(number)
        if ours is not None and ours != theirs:
            self.report_failure(
                f"program {number} differs between the processes: {rank}: {theirs}; "
                f"{self.index}: {ours}; KILN_CHECK=1 compares programs before they run"
            )

    def _on_disconnect(self, rank: int) -> None:
        if rank not in self._gone:
            self.report_failure(f"{_named([rank])} ended")

    def _on_tick(self) -> None:
        self._check_heartbeats()
        self._report_pace()

    def _report_pace(self) -> None:
        message = self._pace.message()
        if message is not None and self.index:
            self._lifelines.send(message)
        elif message is not None:
            self._standings.note(0, message)
            self._standings.print_reports(time.monotonic())

    def _check_heartbeats(self) -> None:
        now = time.monotonic()
        if now - self._last_check > self.patience / 2:
            # This process itself was suspended: missed heartbeats prove nothing.
            self._heard = dict.fromkeys(self._heard, now)
        self._last_check = now
        silent = [
            rank
            for rank, heard in self._heard.items()
            if now - heard > self.patience and rank not in self._gone
        ]
        if silent:
            self.report_failure(f"{_named(silent)} not answered for {self.patience:g} seconds")

    # Calls that need the others.

    def guarded_call(self, call: Callable[[], T], asked: str) -> T:
        """Call a function that may block on other processes; abandon the call if one of them fails.

        Raises: PeerError.
        """
        self.check(asked)
        found: T = self._await(started(call), lambda: self.check(asked))
        return found

    def _await(self, task: Task, poll: Callable[[], None]) -> Any:
        while not task.done.wait(POLL_S):
            poll()
        return task.result()

    def run(self, group: Sequence[int], call: Callable[[], T], name: str, digest: str = "") -> T:
        """Run a program together with the processes of a group; programs run one by one.

        Equal programs have equal digests.

        Raises: PeerError.
        """
        asked = f"running {name} in the processes {list(group)}"
        self.check(asked)
        if self._unfinished is not None:
            # An interrupt abandoned the last program: the others still run it, or wait for this
            # process in it.
            self._await(self._unfinished, lambda: self.check(asked))
            self._unfinished = None
        key = written(tuple(group))
        number = self._runs[key] = self._runs.get(key, 0) + 1
        known = self._known.setdefault(key, {})
        known[number] = f"{name} {digest}"
        known.pop(number - REMEMBERED, None)
        begin, limit = time.monotonic(), options().collective_timeout
        self._pace.arrive(begin, key, number, name)
        # All others report what they wait in before one of them gives up.
        next_report = begin + (min(self.slow, limit / 2) if limit else self.slow)

        def poll() -> None:
            nonlocal next_report
            self.check(asked)
            if time.monotonic() > next_report:
                # The others may be blocked forever in another program.
                next_report += self.slow
                message = {"group": key, "number": number, "program": known[number]}
                self._lifelines.send({"kind": "runs", **message})
            if limit and time.monotonic() > begin + limit:
                self._give_up(group, number, name, limit)
            gone = [r for r in group if r in self.left and self.left[r].get(key, 0) < number]
            if gone:
                missing = f"{_named(gone)} ended without running this program"
                self.report_failure(missing)
                raise PeerError(three_lines(asked, missing, _REMEDY))

        task = started(call)
        try:
            found: T = self._await(task, poll)
            self._pace.depart()
            return found
        except PeerError:
            raise
        except JaxRuntimeError as error:
            if "Gloo" not in str(error):
                raise
            raise self._explained(error, asked) from None
        except BaseException:
            if not task.done.is_set():
                self._unfinished = task
            raise

    def _give_up(self, group: Sequence[int], number: int, name: str, limit: int) -> None:
        """Raise the error of a program that has not ended in time: it names the late processes."""
        reached = self._reached.get(written(tuple(group)), {})
        late = [r for r in group if r != self.index and reached.get(r, 0) < number]
        what = f"program {number} ({name}) within {limit} seconds"
        wrong = f"no process is late, and they have not ended {what}"
        if late:
            wrong = f"{_named(late)} not reached {what}"
        self.report_failure(wrong)
        asked = f"running {name} in the processes {list(group)} at {current_source()}"
        remedy = "see what that process does there, for example by py-spy; or raise the limit, "
        raise PeerError(three_lines(asked, wrong, f"{remedy}KILN_COLLECTIVE_TIMEOUT"))

    def _explained(self, error: JaxRuntimeError, asked: str) -> PeerError:
        """Return the error of a failed collective: it names the process that has ended."""
        end = time.monotonic() + CLOSED_S
        while self._failure is None and time.monotonic() < end:
            time.sleep(0.01)
        text = self._failure
        if text is None:
            reason = one_line(str(error).partition("\n")[2] or error)
            text = f"a collective failed, although all processes are alive: {reason:.300}"
        return PeerError(three_lines(asked, text, _REMEDY))

    def agree(self, group: Sequence[int], name: str, digest: str) -> None:
        """Compare a program with those that the other processes of a group are about to run.

        Raises: PeerError, in all of them, if they differ.
        """
        key = written(tuple(group))
        number = self._compared[key] = self._compared.get(key, 0) + 1
        asked = f"comparing {name} in the processes {group}"
        where = f"this process is at program {number}; "
        topic, text = f"{_PROGRAMS}{key}/{number}", f"{name} {digest}"
        said = self._told(topic, text, asked, group, self.patience, where)
        if len(said) > 1:
            listed = "; ".join([f"{_ranks(ranks)}: {text}" for text, ranks in said.items()])
            wrong = f"program {number} differs between the processes: {listed}"
            # A process that has not compared yet will raise the same error.
            self.report_failure(wrong)
            raise PeerError(three_lines(asked, wrong, _SAME))

    def exchange(
        self, topic: str, text: str, asked: str, group: Sequence[int] = (), limit: float = 0.0
    ) -> dict[str, tuple[int, ...]]:
        """Send a text to the processes of a group, by default all; return the texts of all.

        Equal texts are returned once, with the ranks that sent them. A topic is used once. Texts
        are short: what is beyond `exchanges.LONGEST_TEXT` characters is cut off. Any thread may
        call it. `limit` is how many seconds to wait for the others, 0 for as long as they live.

        Raises: PeerError, also if one is late.
        """
        return self._told(f"{_TEXTS}{topic}", text, asked, group or range(self.count), limit)

    def meet_again(self, name: str, asked: str, text: str) -> dict[str, tuple[int, ...]]:
        """Exchange texts as a program does data: one that is late is named, or given up.

        Raises: PeerError.
        """
        self._meetings += 1
        number, limit = self._meetings, options().collective_timeout
        self._pace.arrive(time.monotonic(), MEETINGS, number, name)
        found = self.exchange(f"{MEETINGS}/{number}", text, asked, limit=limit)
        self._pace.depart()
        return found

    def tell(self, topic: str, text: str) -> None:
        """Send a text to all processes without waiting for theirs."""
        topic = f"{_TEXTS}{topic}"
        self._exchanges.say(topic, text[:LONGEST_TEXT], range(self.count))
        self._exchanges.forget(topic)

    def _told(
        self,
        topic: str,
        text: str,
        asked: str,
        group: Sequence[int],
        limit: float,
        where: str = "",
    ) -> dict[str, tuple[int, ...]]:
        self.check(asked)
        end = time.monotonic() + limit if limit else None
        event = self._exchanges.say(topic, text[:LONGEST_TEXT], group)
        while not event.wait(POLL_S):
            self.check(asked)
            if end is not None and time.monotonic() > end:
                end = None
                self._exchanges.give_up(topic)
        found = self._exchanges.take(topic)
        assert found is not None
        if found.absent:
            gone = [rank for rank in found.absent if rank in self.left]
            what = "ended before it" if gone else f"not reached it within {limit:g} s"
            wrong = f"{where}{_named(gone or found.absent)} {what}"
            raise PeerError(three_lines(asked, wrong, _SAME))
        return found.texts

    # Shutdown.

    def leave(self, seconds: float) -> None:
        """Wait until all processes have finished, and disconnect.

        Raises: PeerError if one has failed, or on a timeout.
        """
        asked = "the end of the program"
        try:
            self.check(asked)
            self._report_pace()
            self._lifelines.send({"kind": "left", "runs": self._runs})
            self.left[self.index] = dict(self._runs)
            self._exchanges.on_leave()
            self.guarded_call(lambda: self.link.barrier("kiln/end", seconds), asked)
            self._standings.print_reports(time.monotonic())
        except JaxRuntimeError as error:
            self._close(orderly=False)
            if isinstance(error, PeerError):
                raise
            reason = f"the other processes did not end within {seconds:g} seconds"
            raise PeerError(three_lines(asked, reason, _REMEDY)) from None
        self._lifelines.send({"kind": "gone"})
        self._close(orderly=True)

    def abandon(self, reason: str) -> None:
        """Report to the others that this process ends with a failure, and disconnect at once."""
        self.report_failure(reason)
        self._close(orderly=False)

    def _close(self, *, orderly: bool) -> None:
        self._lifelines.stop()
        self._failure = self._failure or "the processes have disconnected"
        self.link.close(orderly=orderly)


_SAME = "run the same program with the same shapes and options in all processes"


def _ranks(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks))


def _named(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"process {ranks[0]} has"
    return f"processes {_ranks(ranks)} have"


_peers: Peers | None = None


def peers() -> Peers | None:
    """Return the state of the other processes; None if there are none."""
    return _peers


def _join_error(asked: str, wrong: str) -> JaxRuntimeError:
    return JaxRuntimeError(
        three_lines(
            asked,
            wrong,
            "start all processes with the same coordinator_address, a free port, the same "
            "num_processes and the same KILN_COORDINATOR_TOKEN, each with its own process_id",
        )
    )


def meet(request: JoinRequest, connector: Connector, patience: float) -> Peers:
    """Join this process to the others, and monitor them from now on.

    Raises: JaxRuntimeError on a timeout.
    """
    global _peers
    found = Peers(request.index, request.count, patience, request.token)
    try:
        found.meet(request, connector)
    except BaseException:
        # Free the port for another attempt.
        found.forget()
        raise
    become(request.index, request.count)
    _peers = found
    return found
