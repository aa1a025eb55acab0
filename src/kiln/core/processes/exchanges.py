"""Texts that the processes of a group tell each other, through process 0.

Each process sends its text to process 0, which answers all of them at once, when it has all texts:
equal ones once, with the ranks that sent them. So the bytes grow with the number of processes, and
not with its square.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Sequence

from kiln.base.process.forks import new_rlock
from kiln.base.records import Record
from kiln.core.processes.lines import Message

LONGEST_TEXT = 1 << 14
"""The maximum length of a text."""
LONGEST_ANSWER = 3 * LONGEST_TEXT
"""The maximum length of the different texts of an answer, together."""
OTHERS = "(others)"
"""What an answer has instead of the texts for which it has no room."""

SAID, ANSWER, LATE = "said", "answer", "late"


class Answer(Record):
    """What the processes said: different texts in order of rank, each with the ranks that sent it.

    If one has ended without a text, or did not send it in time, `absent` has its rank.
    """

    texts: dict[str, tuple[int, ...]]
    absent: tuple[int, ...] = ()


class Exchanges:
    """The exchanges of one process.

    `send(message, ranks)` sends a message to process 0, or from there to the processes `ranks`.
    `left` is a function that returns the ranks of the processes that have ended.
    """

    def __init__(
        self,
        index: int,
        send: Callable[[Message, Sequence[int]], None],
        left: Callable[[], set[int]],
    ) -> None:
        self._index, self._send, self._left = index, send, left
        self._lock = new_rlock()
        self._said: dict[str, dict[int, str]] = {}
        self._groups: dict[str, tuple[int, ...]] = {}
        self._answers: dict[str, Answer] = {}
        self._arrived: dict[str, threading.Event] = {}

    def say(self, topic: str, text: str, group: Sequence[int]) -> threading.Event:
        """Send a text to the processes of a group; return the event of the answer."""
        with self._lock:
            event = self._arrived[topic] = threading.Event()
        message: Message = {
            "kind": SAID,
            "topic": topic,
            "text": text,
            "group": written(tuple(group)),
        }
        if self._index:
            self._send(message, (0,))
        else:
            self._note(self._index, message)
        return event

    def take(self, topic: str) -> Answer | None:
        """Return the answer, once; None if it has not arrived."""
        with self._lock:
            found = self._answers.pop(topic, None)
            if found is not None:
                self._arrived.pop(topic, None)
            return found

    def forget(self, topic: str) -> None:
        """Drop the answer, which no thread waits for."""
        with self._lock:
            self._arrived.pop(topic, None)
            self._answers.pop(topic, None)

    def give_up(self, topic: str) -> None:
        """Ask for an answer now, although texts are missing."""
        if self._index:
            self._send({"kind": LATE, "topic": topic}, (0,))
        else:
            self._settle(topic, is_late=True)

    def on_message(self, rank: int, message: Message) -> None:
        """Handle a message of one of these kinds."""
        kind, topic = message["kind"], str(message["topic"])
        if kind == SAID:
            self._note(rank, message)
        elif kind == LATE:
            self._settle(topic, is_late=True)
        else:
            self._arrive(topic, str(message["text"]))

    def on_leave(self) -> None:
        """Answer the exchanges for which a process that has left sent no text."""
        for topic in list(self._said):
            self._settle(topic)

    def _note(self, rank: int, message: Message) -> None:
        topic = str(message["topic"])
        with self._lock:
            # Read once: for each message it would take as long as all of them.
            if topic not in self._groups:
                self._groups[topic] = read(str(message["group"]))
            said = self._said.setdefault(topic, {})
            said[rank] = str(message["text"])
            is_complete = len(said) >= len(self._groups[topic])
        if is_complete or self._left():
            self._settle(topic)

    def _settle(self, topic: str, *, is_late: bool = False) -> None:
        """In process 0, send the answer if all texts are there, or one will never come."""
        with self._lock:
            said, group = self._said.get(topic), self._groups.get(topic)
            if said is None or group is None:
                return
            missing = [rank for rank in group if rank not in said]
            absent = [rank for rank in missing if is_late or rank in self._left()]
            if missing and not absent:
                return
            del self._said[topic], self._groups[topic]
        text = json.dumps([_joined(said), absent])
        self._send({"kind": ANSWER, "topic": topic, "text": text}, group)
        if self._index in group:
            self._arrive(topic, text)

    def _arrive(self, topic: str, text: str) -> None:
        texts, absent = json.loads(text)
        answer = Answer({said: read(ranks) for said, ranks in texts}, tuple(absent))
        with self._lock:
            event = self._arrived.get(topic)
            if event is not None:
                self._answers[topic] = answer
        if event is not None:
            event.set()


def _joined(said: dict[int, str]) -> list[tuple[str, str]]:
    """Return the different texts with their ranks, as far as an answer has room for them."""
    by_text: dict[str, list[int]] = {}
    for rank in sorted(said):
        by_text.setdefault(said[rank], []).append(rank)
    room, kept, others = LONGEST_ANSWER, {}, []
    for text, ranks in by_text.items():
        room -= len(text)
        if room < 0:
            others += ranks
        else:
            kept[text] = ranks
    if others:
        kept[OTHERS] = sorted(others)
    return [(text, written(tuple(ranks))) for text, ranks in kept.items()]


@functools.lru_cache(64)
def written(ranks: Sequence[int]) -> str:
    """Return ranks in order as text: runs of consecutive ones by their ends, such as `0-3,5`.

    `ranks` are hashable: a tuple or a range.
    """
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def read(text: str) -> tuple[int, ...]:
    """Return the ranks of a text that `written` made.

    Raises: ValueError if the text is not one.
    """
    found: list[int] = []
    for run in text.split(","):
        first, _, last = run.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)
