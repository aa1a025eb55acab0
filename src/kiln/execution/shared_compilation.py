"""Programs that one of several processes compiles, and the others receive.

The first process that needs a program claims it in the store of the processes; the others wait
until it says that the program is compiled. They read it from the cache on disk if it is there, and
otherwise from the store, if the processes share a token: what comes from the store is machine code,
and only the token tells who wrote it. Without a token, one process of each host compiles.

A claim ends when its process ends, fails to compile, or exceeds a timeout; then another process
claims the program.
"""

from __future__ import annotations

import collections
import functools
import hmac
import os
import socket
from collections.abc import Callable
from typing import TypeVar

from kiln.base.errors import JaxRuntimeError, PeerError
from kiln.base.options.config import options
from kiln.base.process.forks import new_lock
from kiln.base.process.memory import MB
from kiln.core.processes.peers import Peers, peers
from kiln.execution.disk_cache import Damaged, Entry, Folder, read, warn_once, written

T = TypeVar("T")

ATTEMPTS = 2
"""How many processes compile a program, one after another, before each compiles it itself."""
MOST_BYTES = 256 * MB
"""The bytes of compiled programs that each process keeps in the store; the oldest are removed."""
_PLACE = "kiln/compiled/"
_PROOF = 32
_COMPILED, _NOT_STORED, _FAILED = "compiled", "not stored", "failed"

_in_store: collections.deque[tuple[str, int]] = collections.deque()
_lock = new_lock()


class Counts:
    """What this process received from others, and compiled for them."""

    def __init__(self) -> None:
        self.received = self.published = self.replaced = 0


counts = Counts()


class Claim:
    """The compilation of one program for several processes.

    `name` is the program's name in the cache on disk, `folder` that cache, if it is on. If the
    program `is_for_all`, it cannot run after a process has failed.
    """

    def __init__(
        self, others: Peers, name: str, folder: Folder | None, *, is_for_all: bool
    ) -> None:
        self._others, self._name, self._folder = others, name, folder
        self._is_for_all = is_for_all
        host = "" if others.token else f"{socket.gethostname()}/"
        self._program = f"{_PLACE}{host}{name}"
        self._place: str | None = None

    def received(self, program: str) -> Entry | None:
        """Return what another process has compiled; None if this process is to compile it.

        Then `publish` or `fail` must follow.

        Raises: PeerError if a process has failed and the program is for all.
        """
        asked = f"compiling {program}"
        try:
            return self._received(asked)
        except PeerError:
            if self._is_for_all:
                raise
        except JaxRuntimeError as error:
            warn_once("sharing", f"a program is compiled in each process: {error}")
        return None

    def _received(self, asked: str) -> Entry | None:
        link, here = self._others.link, str(self._others.index)
        for attempt in range(ATTEMPTS):
            place = f"{self._program}/{attempt}"
            if self._call(functools.partial(link.set_first, f"{place}/claim", here), asked):
                self._place = place
                counts.replaced += bool(attempt)
                return None
            seconds = options().share_compiled_timeout
            said = self._call(functools.partial(link.wait, f"{place}/said", seconds), asked)
            if said == _COMPILED:
                found = self._found(place, asked)
                if found is not None:
                    counts.received += 1
                    return found
            if said == _NOT_STORED:
                break
        return None

    def _call(self, call: Callable[[], T], asked: str) -> T:
        return self._others.guarded_call(call, asked)

    def _found(self, place: str, asked: str) -> Entry | None:
        """Return a compiled program from the cache on disk, or from the store."""
        link, folder = self._others.link, self._folder
        entry = folder.get(self._name) if folder is not None else None
        if entry is not None or not self._others.token:
            return entry
        data = self._call(lambda: link.bytes_of(f"{place}/code"), asked)
        if data is None:
            return None
        if not hmac.compare_digest(data[:_PROOF], self._proof(data[_PROOF:])):
            warn_once(
                "proof",
                f"{asked}: another process sent a program without knowing the token; it is "
                "compiled here. Check who can reach the ports of the processes",
            )
            return None
        try:
            entry = read(data[_PROOF:], self._name)
        except Damaged as why:
            warn_once("received", f"{asked}: what another process compiled was left out: {why}")
            return None
        if folder is not None:
            # One process of each host keeps it for the next run: the folder may be on a network.
            kept = f"{place}/kept/{socket.gethostname()}"
            if self._call(lambda: link.set_first(kept, ""), asked):
                folder.put(self._name, entry)
        return entry

    def publish(self, entry: Entry | None) -> None:
        """Give other processes what this one has compiled; None if it has no stored form."""
        if self._place is None:
            return
        place, link = self._place, self._others.link
        if entry is not None and self._others.token:
            data = written(self._name, entry)
            code = f"{place}/code"
            if len(data) <= MOST_BYTES:
                self._say(lambda: link.set_bytes(code, self._proof(data) + data))
                self._make_space(code, len(data))
        said = _NOT_STORED if entry is None else _COMPILED
        self._say(lambda: link.set(f"{place}/said", said))
        counts.published += entry is not None
        self._place = None

    def fail(self) -> None:
        """Leave the program to other processes, unless it was published."""
        if self._place is not None:
            place, self._place = self._place, None
            self._say(lambda: self._others.link.set(f"{place}/said", _FAILED))

    def _say(self, call: Callable[[], None]) -> None:
        try:
            self._call(call, "giving a program to other processes")
        except JaxRuntimeError as error:
            # A failed process is reported by the next program of several processes.
            if not isinstance(error, PeerError):
                warn_once("sharing", f"a compiled program was not given to others: {error}")

    def _make_space(self, code: str, size: int) -> None:
        removed: list[str] = []
        with _lock:
            _in_store.append((code, size))
            total = sum(each for _, each in _in_store)
            while total > MOST_BYTES:
                name, each = _in_store.popleft()
                removed.append(name)
                total -= each
        for name in removed:
            self._say(functools.partial(self._others.link.delete, name))

    def _proof(self, data: bytes) -> bytes:
        key = self._others.token.encode(errors="surrogatepass")
        return hmac.new(key, b"compiled program\0" + data, "sha256").digest()


def shares() -> bool:
    """Tell whether processes give each other what they compile."""
    others = peers()
    # The connections of a forked child are those of its parent.
    return others is not None and others.pid == os.getpid() and options().share_compiled


def claim(name: str, folder: Folder | None, *, is_for_all: bool) -> Claim | None:
    """Return the compilation of a program that processes share, as `shares` tells.

    None if this process has nowhere to receive programs from.
    """
    others = peers()
    if others is None or (folder is None and not others.token):
        return None
    return Claim(others, name, folder, is_for_all=is_for_all)
