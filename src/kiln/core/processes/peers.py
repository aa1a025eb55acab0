"""The other processes of a program: whether they are alive, and run the same programs.

Calls that need other processes run on threads of their own and are abandoned when one of those has
failed, because the libraries underneath would wait for ever, or end the process.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kiln.base.errors import JaxRuntimeError, PeerError, one_line, three_lines
from kiln.base.process.forks import in_child
from kiln.base.process.identity import become
from kiln.core.processes.joining import Connector, JoinRequest, Link
from kiln.core.processes.lifelines import Lifelines
from kiln.core.processes.lines import Message

T = TypeVar("T")

LOOK_S = 0.1
"""How often a thread that waits for other processes checks whether they have failed."""

SLOW_S = 5.0
"""How long a program runs before the processes tell each other which one it is."""

REMEMBERED = 64
"""How many of its latest programs a process remembers."""

CLOSED_S = 2.0
"""How long after a failed exchange of data this process waits to hear which one has ended."""

LEAST_TO_CONNECT_S = 10.0
"""How long the processes may take to connect, if they came late."""

BEAT_S = 5.0
_PROGRAMS, _TEXTS = "kiln/programs/", "kiln/texts/"
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.02
_REMEDY = "start all processes again, from the last checkpoint: see docs/processes.md"


class _Task:
    def __init__(self, call: Callable[[], Any]) -> None:
        self._call: Callable[[], Any] | None = call
        self._result: Any = None
        self._error: BaseException | None = None
        self.done = threading.Event()

    def run(self) -> None:
        assert self._call is not None
        try:
            self._result = self._call()
        except BaseException as error:  # noqa: BLE001, raised again by who waits
            self._error = error
        self._call = None
        self.done.set()

    def result(self) -> Any:
        error, self._error = self._error, None
        if error is None:
            return self._result
        try:
            raise error
        finally:
            del error


class _Worker(threading.Thread):
    """A thread that runs tasks; one that never returns from a task is simply left."""

    def __init__(self) -> None:
        super().__init__(name="kiln waits for processes", daemon=True)
        self.tasks: queue.SimpleQueue[_Task] = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        while True:
            self.tasks.get().run()
            _idle.append(self)


_idle: list[_Worker] = []
in_child(_idle.clear)


def _started(call: Callable[[], Any]) -> _Task:
    task = _Task(call)
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
    worker.tasks.put(task)
    return task


class Peers:
    """What this process knows about the others.

    `patience` is how many seconds a process may be silent before it counts as dead.
    """

    link: Link

    def __init__(self, index: int, count: int, patience: float, token: str = "") -> None:
        self.index, self.count = index, count
        self.patience = patience
        self.left: dict[int, dict[str, int]] = {}
        self._gone: set[int] = set()
        self._runs: dict[str, int] = {}
        self._known: dict[str, dict[Any, str]] = {}
        self.slow = SLOW_S
        self._compared: dict[str, int] = {}
        self._said: dict[str, str] = {}
        self._failure: str | None = None
        self._heard: dict[int, float] = {}
        self._looked = time.monotonic()
        self._unfinished: _Task | None = None
        self._port: int | None = None
        self._lifelines = Lifelines(
            self.index, min(BEAT_S, patience / 4), self._hear, self._miss, self._look, token
        )

    def meet(self, request: JoinRequest, connector: Connector) -> None:
        """Meet the other processes, and connect to them.

        Raises: JaxRuntimeError if they do not come in time, or one of them fails meanwhile.
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
                raise _alone(asked, wrong)
            self._heard = {0: time.monotonic()}
            port = self._port_of_service(asked, seconds)
        else:
            try:
                lines.listen(self.count, request.bind_host, request.port)
            except OSError as error:
                raise _alone(asked, f"it cannot listen at {request.bind_host}: {error}") from None
            if not lines.all_have_come(seconds):
                missing = f"{_named(lines.absent())} not come within {seconds:g} seconds"
                self.tell(missing)
                raise _alone(asked, missing)
            self._heard = dict.fromkeys(range(1, self.count), time.monotonic())
            port = connector.host(request)
            lines.send({"kind": "start", "port": port})
        self._connect(request, connector, port, asked, begin + seconds)

    def _connect(
        self, request: JoinRequest, connector: Connector, port: int, asked: str, end: float
    ) -> None:
        """Connect to the others, who have come, and may be silent now."""
        end = max(end, time.monotonic() + min(request.initialization_timeout, LEAST_TO_CONNECT_S))

        def look() -> None:
            self.check(asked)
            if time.monotonic() > end:
                missing = (
                    "all processes have come, and not all have connected within "
                    f"{request.initialization_timeout:g} seconds"
                )
                self.tell(missing)
                raise _alone(asked, missing)

        self.check(asked)
        self.link = self._await(_started(lambda: connector.connect(request, port)), look)

    def _port_of_service(self, asked: str, seconds: float) -> int:
        end = time.monotonic() + seconds
        while self._port is None:
            if self._failure is not None:
                raise _alone(asked, self._failure)
            if time.monotonic() > end:
                raise _alone(asked, f"the others were not there within {seconds:g} seconds")
            time.sleep(SHORTEST_PAUSE_S)
        return self._port

    def forget(self) -> None:
        """Close the connections to the others."""
        self._lifelines.close()

    # What has happened.

    def failure(self) -> str | None:
        """Return what has failed in other processes; None if nothing has."""
        return self._failure

    def check(self, asked: str) -> None:
        """Raise PeerError if another process has failed."""
        failure = self._failure
        if failure is not None:
            raise PeerError(three_lines(asked, failure, _REMEDY))

    def tell(self, text: str) -> None:
        """Report a failure to all processes; the first one is kept."""
        if self._failure is None:
            self._failure = text
            self._lifelines.send({"kind": "failed", "text": text})

    def _hear(self, rank: int, message: Message) -> None:
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
        elif kind == "gone":
            self._gone.add(rank)

    def _compare(self, rank: int, message: Message) -> None:
        """Compare a program that another process has been running for long with the one here."""
        number, theirs = message.get("number"), str(message.get("program"))
        ours = self._known.get(str(message.get("group")), {}).get(number)
        if ours is not None and ours != theirs:
            self.tell(
                f"program {number} differs between the processes: {rank}: {theirs}; "
                f"{self.index}: {ours}; KILN_CHECK=1 compares programs before they run"
            )

    def _miss(self, rank: int) -> None:
        if rank not in self._gone:
            self.tell(f"{_named([rank])} ended")

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked > self.patience / 2:
            # This process itself was suspended: what it did not hear meanwhile proves nothing.
            self._heard = dict.fromkeys(self._heard, now)
        self._looked = now
        silent = [
            rank
            for rank, heard in self._heard.items()
            if now - heard > self.patience and rank not in self._gone
        ]
        if silent:
            self.tell(f"{_named(silent)} not answered for {self.patience:g} seconds")

    # Calls that need the others.

    def watched(self, call: Callable[[], T], asked: str) -> T:
        """Call a function that may wait for other processes; abandon the call if one of them fails.

        Raises: PeerError.
        """
        self.check(asked)
        found: T = self._await(_started(call), lambda: self.check(asked))
        return found

    def _await(self, task: _Task, look: Callable[[], None]) -> Any:
        while not task.done.wait(LOOK_S):
            look()
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
            # process.
            self._await(self._unfinished, lambda: self.check(asked))
            self._unfinished = None
        key = ",".join(map(str, group))
        number = self._runs[key] = self._runs.get(key, 0) + 1
        known = self._known.setdefault(key, {})
        known[number] = f"{name} {digest}"
        known.pop(number - REMEMBERED, None)
        next_word = time.monotonic() + self.slow

        def look() -> None:
            nonlocal next_word
            self.check(asked)
            if time.monotonic() > next_word:
                # The others may wait in another program, for ever.
                next_word += self.slow
                said = {"group": key, "number": number, "program": known[number]}
                self._lifelines.send({"kind": "runs", **said})
            gone = [r for r in group if r in self.left and self.left[r].get(key, 0) < number]
            if gone:
                missing = f"{_named(gone)} ended without running this program"
                self.tell(missing)
                raise PeerError(three_lines(asked, missing, _REMEDY))

        task = _started(call)
        try:
            found: T = self._await(task, look)
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

    def _explained(self, error: JaxRuntimeError, asked: str) -> PeerError:
        """Return the error for a failed exchange of data: it names the process that has ended."""
        end = time.monotonic() + CLOSED_S
        while self._failure is None and time.monotonic() < end:
            time.sleep(0.01)
        text = self._failure
        if text is None:
            reason = one_line(str(error).partition("\n")[2] or error)
            text = f"the exchange of data failed, though all processes are alive: {reason:.300}"
        return PeerError(three_lines(asked, text, _REMEDY))

    def agree(self, group: Sequence[int], name: str, digest: str) -> None:
        """Compare a program with those that the other processes of a group are about to run.

        Raises: PeerError, in all of them, if they differ.
        """
        key = ",".join(map(str, group))
        number = self._compared[key] = self._compared.get(key, 0) + 1
        place, asked = f"{_PROGRAMS}{key}/{number}/", f"comparing {name} in the processes {group}"
        self.watched(lambda: self.link.set(f"{place}{self.index}", f"{name} {digest}"), asked)
        end = time.monotonic() + self.patience
        while True:
            # Read before the directory: a process that leaves later may still publish its program.
            left = set(self.left)
            found = self.watched(lambda: self.link.directory(place), asked)
            if len(found) == len(group):
                break
            absent = [r for r in group if f"{place}{r}" not in found]
            gone = [r for r in absent if r in left]
            if gone or time.monotonic() > end:
                what = "ended without it" if gone else f"not come to it in {self.patience:g} s"
                wrong = f"this is program {number} here, and {_named(gone or absent)} {what}"
                raise PeerError(three_lines(asked, wrong, _SAME))
            time.sleep(0.005)
        if len(set(found.values())) > 1:
            listed = "; ".join([f"{rank}: {found[f'{place}{rank}']}" for rank in group])
            wrong = f"program {number} differs between the processes: {listed}"
            # A process that has not compared yet raises the same error.
            self.tell(wrong)
            raise PeerError(three_lines(asked, wrong, _SAME))

    def exchange(
        self, topic: str, text: str, asked: str, group: Sequence[int] = ()
    ) -> dict[int, str]:
        """Publish a text to the processes of a group, by default all, and return those of all.

        A topic is used once; topics that begin with the same word follow each other.

        Raises: PeerError.
        """
        ranks = tuple(group or range(self.count))
        among = ",".join(map(str, ranks))
        place = f"{_TEXTS}{among}/{topic}/"
        own = f"{place}{self.index}"
        self.watched(lambda: self.link.set(own, text), asked)
        pause = SHORTEST_PAUSE_S
        while True:
            # Read before the directory: a process that leaves later may still publish its text.
            left = set(self.left)
            found = self.watched(lambda: self.link.directory(place), asked)
            if len(found) == len(ranks):
                break
            gone = [r for r in ranks if r in left and f"{place}{r}" not in found]
            if gone:
                raise PeerError(three_lines(asked, f"{_named(gone)} ended without it", _SAME))
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
        # All processes have arrived here, so none still reads the texts of the topic before.
        family = f"{among} {topic.partition('/')[0]}"
        old, self._said[family] = self._said.get(family), own
        if old is not None:
            self.watched(lambda: self.link.delete(old), asked)
        return {rank: found[f"{place}{rank}"] for rank in ranks}

    # The end.

    def leave(self, seconds: float) -> None:
        """Wait until all processes have finished, and disconnect.

        Raises: PeerError if one has failed, or on a timeout.
        """
        asked = "the end of the program"
        try:
            self.check(asked)
            self._lifelines.send({"kind": "left", "runs": self._runs})
            self.watched(lambda: self.link.barrier("kiln/end", seconds), asked)
        except JaxRuntimeError as error:
            self._close(orderly=False)
            if isinstance(error, PeerError):
                raise
            reason = f"the other processes did not end within {seconds:g} seconds"
            raise PeerError(three_lines(asked, reason, _REMEDY)) from None
        self._lifelines.send({"kind": "gone"})
        self._close(orderly=True)

    def abandon(self, reason: str) -> None:
        """Tell the others that this process ends by a failure, and disconnect at once."""
        self.tell(reason)
        self._close(orderly=False)

    def _close(self, *, orderly: bool) -> None:
        self._lifelines.stop()
        self._failure = self._failure or "the processes have parted"
        self.link.close(orderly=orderly)


_SAME = "run the same program with the same shapes and options in all processes"


def _named(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"process {ranks[0]} has"
    return f"processes {', '.join(map(str, ranks))} have"


_peers: Peers | None = None


def peers() -> Peers | None:
    """Return what is known about the other processes; None if there are none."""
    return _peers


def _alone(asked: str, wrong: str) -> JaxRuntimeError:
    return JaxRuntimeError(
        three_lines(
            asked,
            wrong,
            "start all processes with the same coordinator_address, a free port, the same "
            "num_processes and the same KILN_COORDINATOR_TOKEN, each with its own process_id",
        )
    )


def meet(request: JoinRequest, connector: Connector, patience: float) -> Peers:
    """Make this process one of several, and watch the others from now on.

    Raises: JaxRuntimeError if they do not come in time.
    """
    global _peers
    found = Peers(request.index, request.count, patience, request.token)
    try:
        found.meet(request, connector)
    except BaseException:
        # Frees the port for another attempt.
        found.forget()
        raise
    become(request.index, request.count)
    _peers = found
    return found
