"""The other processes of a program: whether they are alive, and whether they do the same.

Each process writes a beat to the store that all share; process 0 watches the beats and tells what
it misses. Calls that need other processes run on threads of their own and are given up when one of
those has failed, because the libraries underneath would wait for ever, or end the process.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from kiln.base.errors import JaxRuntimeError, PeerError, one_line, three_lines
from kiln.base.forks import in_child
from kiln.base.processes import become, processes
from kiln.base.records import Record

T = TypeVar("T")

LOOK_S = 0.2
"""How often a thread that waits for other processes looks whether they have failed."""

_FAILED, _BEATS, _LEFT = "kiln/news/failed", "kiln/beats/", "kiln/news/left/"
_NEWS, _PROGRAMS = "kiln/news/", "kiln/programs/"
_REMEDY = "start all processes again, from the last checkpoint: see docs/processes.md"


class JoinRequest(Record):
    """What an engine has to know to connect to the other processes of a program."""

    address: str
    index: int
    count: int
    bind_address: str
    initialization_timeout: float
    shutdown_timeout: float


class Link(Protocol):
    """A store of texts that all processes share."""

    def set(self, key: str, value: str) -> None:
        """Write an entry."""
        ...

    def directory(self, prefix: str) -> dict[str, str]:
        """Return the entries whose keys begin so."""
        ...

    def barrier(self, name: str, seconds: float) -> None:
        """Wait until all processes are here; each name once.

        Raises: JaxRuntimeError if the time is over.
        """
        ...

    def is_lost(self) -> bool:
        """Tell whether the process that keeps the store has closed the connection."""
        ...

    def close(self, *, orderly: bool) -> None:
        """Leave. If not `orderly`, nobody is told, and nothing is waited for."""
        ...


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

    def __init__(self, link: Link, patience: float) -> None:
        here = processes()
        self.link = link
        self.index, self.count = here.index, here.count
        self.patience = patience
        # So many processes do not overwhelm the one that keeps the store.
        self.interval = min(patience / 4, max(1.0, here.count / 50))
        self.left: dict[int, dict[str, int]] = {}
        self._runs: dict[str, int] = {}
        self._compared: dict[str, int] = {}
        self._failure: str | None = None
        self._heard = time.monotonic()
        self._beats: dict[int, tuple[str, float]] = {}
        self._stopped = threading.Event()
        self._unfinished: _Task | None = None
        self.link.set(f"{_BEATS}{self.index}", "0")
        threading.Thread(target=self._beat, name="kiln processes", daemon=True).start()

    # What has happened.

    def failure(self) -> str | None:
        """Return what has failed in other processes; None if nothing has."""
        if self._failure is None and not self._stopped.is_set():
            if self.index and self.link.is_lost():
                self._failure = "process 0, which keeps the program together, has ended"
            elif time.monotonic() - self._heard > self.patience:
                silent = "process 0" if self.index else "the coordination service"
                self._failure = f"{silent} has not answered for {self.patience:g} seconds"
        return self._failure

    def check(self, asked: str) -> None:
        """Raise PeerError if another process has failed."""
        failure = self.failure()
        if failure is not None:
            raise PeerError(three_lines(asked, failure, _REMEDY))

    def tell(self, text: str) -> None:
        """Let all processes know of a failure; the first one is kept."""
        if self._failure is None:
            self._failure = text
            with contextlib.suppress(JaxRuntimeError):
                self.link.set(_FAILED, text)

    def _beat(self) -> None:
        number = 0
        while not self._stopped.wait(self.interval):
            number += 1
            try:
                self.link.set(f"{_BEATS}{self.index}", str(number))
                self._read(self.link.directory(_NEWS))
                if self.index == 0:
                    self._watch(self.link.directory(_BEATS))
            except JaxRuntimeError:
                continue
            self._heard = time.monotonic()

    def _read(self, news: dict[str, str]) -> None:
        for key, text in news.items():
            if key == _FAILED and self._failure is None:
                self._failure = text
            elif key.startswith(_LEFT):
                self.left[int(key[len(_LEFT) :])] = json.loads(text)

    def _watch(self, beats: dict[str, str]) -> None:
        now = time.monotonic()
        for rank in range(1, self.count):
            beat = beats.get(f"{_BEATS}{rank}", "")
            known = self._beats.get(rank)
            if known is None or known[0] != beat:
                self._beats[rank] = beat, now
        silent = [
            rank
            for rank, (_, since) in self._beats.items()
            if now - since > self.patience and rank not in self.left
        ]
        if silent:
            self.tell(f"{_named(silent)} not answered for {self.patience:g} seconds")

    # Calls that need the others.

    def watched(self, call: Callable[[], T], asked: str) -> T:
        """Call what may wait for other processes, and give it up if one of them fails.

        Raises: PeerError.
        """
        self.check(asked)
        return self._await(_started(call), lambda: self.check(asked))

    def _await(self, task: _Task, look: Callable[[], None]) -> Any:
        while not task.done.wait(LOOK_S):
            look()
        return task.result()

    def run(self, group: Sequence[int], call: Callable[[], T], name: str) -> T:
        """Run a program together with the processes of a group; programs run one by one.

        Raises: PeerError.
        """
        asked = f"running {name} in the processes {list(group)}"
        self.check(asked)
        if self._unfinished is not None:
            # An interrupt left it: the others are still in it, or wait for it.
            self._await(self._unfinished, lambda: self.check(asked))
            self._unfinished = None
        key = ",".join(map(str, group))
        number = self._runs[key] = self._runs.get(key, 0) + 1

        def look() -> None:
            self.check(asked)
            gone = [r for r in group if r in self.left and self.left[r].get(key, 0) < number]
            if gone:
                missing = f"{_named(gone)} ended without running this program"
                raise PeerError(three_lines(asked, missing, _REMEDY))

        task = _started(call)
        try:
            return self._await(task, look)
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
        """Return what a failed exchange of data means: who no longer answers, and why."""
        before = self._all_beats()
        end = time.monotonic() + 2.5 * self.interval
        while self.failure() is None and time.monotonic() < end:
            time.sleep(min(LOOK_S, self.interval))
        if self._failure is None:
            after = self._all_beats()
            silent = [
                rank
                for rank in range(self.count)
                if rank not in (self.index, *self.left)
                and before.get(f"{_BEATS}{rank}") == after.get(f"{_BEATS}{rank}")
            ]
            if silent:
                self.tell(f"{_named(silent)} ended: the connection was closed")
        text = self._failure
        if text is None:
            reason = one_line(str(error).partition("\n")[2] or error)
            text = f"the exchange of data failed, though all processes are alive: {reason:.300}"
        return PeerError(three_lines(asked, text, _REMEDY))

    def _all_beats(self) -> dict[str, str]:
        try:
            return self.watched(lambda: self.link.directory(_BEATS), "asking who is alive")
        except JaxRuntimeError:
            return {}

    def agree(self, group: Sequence[int], name: str, digest: str) -> None:
        """Compare a program with those that the other processes of a group are about to run.

        Raises: PeerError, in all of them, if they differ.
        """
        key = ",".join(map(str, group))
        number = self._compared[key] = self._compared.get(key, 0) + 1
        place, asked = f"{_PROGRAMS}{key}/{number}/", f"comparing {name} in the processes {group}"
        self.watched(lambda: self.link.set(f"{place}{self.index}", f"{digest} {name}"), asked)
        end = time.monotonic() + self.patience
        while True:
            found = self.watched(lambda: self.link.directory(place), asked)
            if len(found) == len(group):
                break
            absent = [r for r in group if f"{place}{r}" not in found]
            gone = [r for r in absent if r in self.left]
            if gone or time.monotonic() > end:
                what = "ended without it" if gone else f"not come to it in {self.patience:g} s"
                wrong = f"this is program {number} here, and {_named(gone or absent)} {what}"
                raise PeerError(three_lines(asked, wrong, _SAME))
            time.sleep(0.005)
        if len(set(found.values())) > 1:
            listed = [f"{r}: {found[f'{place}{r}'].replace(digest, 'as here')}" for r in group]
            wrong = f"program {number} differs between the processes: {'; '.join(listed)}"
            raise PeerError(three_lines(asked, wrong, _SAME))

    # The end.

    def leave(self, seconds: float) -> None:
        """Wait until all processes have come to their ends, and leave them.

        Raises: PeerError if one has failed, or the time is over.
        """
        asked = "the end of the program"
        try:
            text = json.dumps(self._runs)
            self.watched(lambda: self.link.set(f"{_LEFT}{self.index}", text), asked)
            self.watched(lambda: self.link.barrier("kiln/end", seconds), asked)
        except JaxRuntimeError as error:
            self._stopped.set()
            self.link.close(orderly=False)
            if isinstance(error, PeerError):
                raise
            reason = f"the other processes did not end within {seconds:g} seconds"
            raise PeerError(three_lines(asked, reason, _REMEDY)) from None
        self._stopped.set()
        self.link.close(orderly=True)

    def abandon(self, reason: str) -> None:
        """Tell the others that this process ends by a failure, and leave at once."""
        if self.failure() is None:
            with contextlib.suppress(JaxRuntimeError):
                self.watched(lambda: self.tell(reason), "the end of the program")
                if self.index == 0:
                    # They hear it from the store that ends with this process.
                    time.sleep(1.5 * self.interval)
        self._stopped.set()
        self.link.close(orderly=False)


_SAME = "run the same program with the same shapes and options in all processes"


def _named(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"process {ranks[0]} has"
    return f"processes {', '.join(map(str, ranks))} have"


_peers: Peers | None = None


def peers() -> Peers | None:
    """Return what is known about the other processes; None if there are none."""
    return _peers


def meet(link: Link, index: int, count: int, patience: float) -> Peers:
    """Note that this process is one of several, and watch the others."""
    global _peers
    become(index, count)
    _peers = Peers(link, patience)
    return _peers
