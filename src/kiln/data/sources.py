"""What batches are read from, and where in it to begin."""

from __future__ import annotations

import base64
import binascii
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.lazy import json
from kiln.base.named_tuples import NamedTuple
from kiln.core.processes.exchanges import LONGEST_TEXT, OTHERS
from kiln.core.processes.peers import Peers

_PAIRS = (("get_state", "set_state"), ("state_dict", "load_state_dict"))
"""How iterators of grain, and datasets and loaders of torch and Hugging Face, tell their state."""


_NUMBERS = ("batches", "examples", "processes")


class Position(NamedTuple):
    """How far a run has come.

    `batches` and `examples` were taken, the examples by all processes together; `source` has the
    states of the sources of `processes` processes as JSON, "" without.
    """

    batches: int = 0
    examples: int = 0
    processes: int = 1
    source: str = ""

    def state_of(self, rank: int, count: int) -> str | None:
        """Return the state of the source of a process; None if it is not known."""
        if not self.source or self.processes != count:
            return None
        for text, ranks in json.loads(self.source):
            if rank in ranks:
                return str(text)
        return None


def position_of(state: Any, asked: str) -> Position:
    """Return the position that a value of `Batches.get_state` describes.

    Raises: ValueError if it is not one.
    """
    if state is None:
        return Position()
    try:
        batches, examples, processes = (operator.index(state[name]) for name in _NUMBERS)
        source = state["source"]
        is_good = min(batches, examples, processes) >= 0 and isinstance(source, str)
        if is_good and source:
            is_good = all(
                isinstance(text, str) and all(type(rank) is int for rank in ranks)
                for text, ranks in json.loads(source)
            )
    except (KeyError, TypeError, ValueError):
        is_good = False
    if not is_good:
        raise ValueError(
            three_lines(
                f"{asked} with state={state!r:.200}",
                "it is not a position in batches",
                "pass what get_state() has returned, or what was restored of it",
            )
        )
    return Position(batches, examples, processes, source)


class Reader:
    """The batches of one process, from a position on.

    `source` is an iterable; or a function, which is called with the number of examples that were
    taken, and returns one.
    """

    def __init__(self, source: Any, position: Position, others: Peers | None, asked: str) -> None:
        self.skipped = Position()
        """What is still to be read without being used, to come to the position."""
        rank, count = (0, 1) if others is None else (others.index, others.count)
        self._read_state: Callable[[], Any] | None = None
        if callable(source) and not hasattr(source, "__iter__"):
            self._iterator: Iterator[Any] = iter(source(position.examples))
            return
        known = position.state_of(rank, count)
        pair = _state_methods(source)
        if pair is not None:
            # A dataset, or a loader: its iterators begin where it is told to.
            self._begin(source, pair, known)
        self._iterator = iter(_iterable(source, asked))
        if pair is None:
            pair = _state_methods(self._iterator)
            if pair is not None:
                self._begin(self._iterator, pair, known)
        if pair is None or known is None:
            self.skipped = position

    def _begin(self, holder: Any, pair: tuple[str, str], known: str | None) -> None:
        self._read_state = getattr(holder, pair[0])
        if known is not None:
            getattr(holder, pair[1])(_decoded(known))

    def read(self) -> Any:
        """Return the next batch. Raises: StopIteration, and the errors of the source."""
        return next(self._iterator)

    def state(self) -> str | None:
        """Return the state of the source as text; None if it has none that can be written."""
        if self._read_state is None:
            return None
        try:
            return _encoded(self._read_state())
        except TypeError:
            # A later one will not be written either: restoring reads the batches again.
            self._read_state = None
            return None

    def close(self) -> None:
        """Close the iterator, if it is a generator."""
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()


def shared_states(state: str | None, others: Peers | None, topic: str, asked: str) -> str:
    """Return the states of the sources of all processes as JSON; "" if one has none.

    Raises: PeerError.
    """
    text = state or ""
    if others is None:
        return "" if not text else str(json.dumps([[text, [0]]]))
    if len(text) > LONGEST_TEXT:
        text = ""
    found = others.exchange(topic, text, asked)
    if "" in found or OTHERS in found:
        return ""
    return str(json.dumps([[said, [*ranks]] for said, ranks in found.items()]))


def _iterable(source: Any, asked: str) -> Any:
    if not hasattr(source, "__iter__") and not hasattr(source, "__getitem__"):
        raise TypeError(
            three_lines(
                asked,
                f"a source of type {type(source).__name__} is neither iterable nor a function",
                "pass an iterable of batches, or a function of the number of examples to leave out",
            )
        )
    return source


def _state_methods(holder: Any) -> tuple[str, str] | None:
    for pair in _PAIRS:
        if all(callable(getattr(holder, name, None)) for name in pair):
            return pair
    return None


def _encoded(state: Any) -> str:
    """Return a state as JSON. Raises: TypeError."""
    if isinstance(state, bytes):
        return str(json.dumps({"bytes": base64.b64encode(state).decode()}))
    text = str(json.dumps({"state": state}))
    if not _is_plain(state):
        raise TypeError("JSON does not preserve it")
    return text


def _decoded(text: str) -> Any:
    """Return the state of a text. Raises: ValueError if the text is not one."""
    found = json.loads(text)
    if not isinstance(found, dict) or len(found) != 1:
        raise ValueError(f"{text!r:.80} is not a state of a source")
    if "bytes" in found:
        try:
            return base64.b64decode(found["bytes"], validate=True)
        except (TypeError, binascii.Error):
            raise ValueError(f"{text!r:.80} is not a state of a source") from None
    return found.get("state")


def _is_plain(value: Any) -> bool:
    """Tell whether JSON preserves a value."""
    if isinstance(value, Mapping):
        return all(type(k) is str and _is_plain(v) for k, v in value.items())
    if type(value) is list:
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)
