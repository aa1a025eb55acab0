"""Where sources begin, and the states that they have."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiln.data.sources import Position, Reader, position_of, shared_states


def everything(reader: Reader) -> list[Any]:
    found = []
    while True:
        try:
            found.append(reader.read())
        except StopIteration:
            return found


def test_a_function_begins_after_the_examples() -> None:
    reader = Reader(lambda taken: range(taken, 8), Position(2, 6), None, "asked")
    assert (everything(reader), reader.skipped, reader.state()) == ([6, 7], Position(), None)


def test_an_iterable_is_read_again() -> None:
    reader = Reader(range(3), Position(2, 6), None, "asked")
    assert reader.skipped == Position(2, 6)


class Loader:
    """A loader that tells its next iterator where to begin."""

    def __init__(self, kind: type = dict) -> None:
        self.at, self.kind = 0, kind

    def __iter__(self) -> Any:
        while self.at < 5:
            self.at += 1
            yield self.at

    def state_dict(self) -> Any:
        return self.at.to_bytes(2, "big") if self.kind is bytes else self.kind({"at": self.at})

    def load_state_dict(self, state: Any) -> None:
        self.at = int.from_bytes(state, "big") if self.kind is bytes else state["at"]


@pytest.mark.parametrize("kind", [dict, bytes])
def test_a_loader_with_a_state(kind: type) -> None:
    reader = Reader(Loader(kind), Position(), None, "asked")
    reader.read(), reader.read()
    source = shared_states(reader.state(), None, "topic", "asked")
    again = Reader(Loader(kind), Position(2, 2, 1, source), None, "asked")
    assert again.skipped == Position()
    assert everything(again) == [3, 4, 5]
    # Those of another number of processes do not fit.
    assert Reader(Loader(kind), Position(2, 2, 2, source), None, "asked").skipped.batches == 2


def test_a_state_that_json_does_not_preserve() -> None:
    class Odd(Loader):
        def state_dict(self) -> Any:
            return {"at": (1, 2)}

    reader = Reader(Odd(), Position(), None, "asked")
    assert (reader.state(), reader.state()) == (None, None)


def test_a_source_that_is_none() -> None:
    with pytest.raises(TypeError, match="neither iterable nor a function"):
        Reader(3, Position(), None, "asked")


def test_positions() -> None:
    state = {"batches": 3, "examples": 12, "processes": 2, "source": '[["a", [0, 1]]]'}
    found = position_of(state, "asked")
    assert [found.state_of(rank, 2) for rank in range(3)] == ["a", "a", None]
    assert found.state_of(0, 3) is None
    assert position_of(None, "asked") == Position()


@pytest.mark.parametrize(
    "change",
    [
        {"batches": -1},
        {"examples": 1.5},
        {"processes": "2"},
        {"source": 3},
        {"source": "[["},
        {"source": "[[1, [0]]]"},
        {"source": '[["a", ["0"]]]'},
        {"source": '[["a", 0]]'},
    ],
)
def test_what_is_no_position(change: dict[str, Any]) -> None:
    state = {"batches": 3, "examples": 12, "processes": 2, "source": ""}
    with pytest.raises(ValueError, match="not a position in batches"):
        position_of({**state, **change}, "asked")
    with pytest.raises(ValueError, match="not a position in batches"):
        position_of({name: state[name] for name in set(state) - set(change)}, "asked")


@pytest.mark.parametrize("text", ['{"bytes": 3}', '{"bytes": "?"}', "[]", "{}", "null", "x"])
def test_states_that_were_changed(text: str) -> None:
    position = Position(1, 1, 1, json.dumps([[text, [0]]]))
    with pytest.raises(ValueError, match=r"state|Expecting"):
        Reader(Loader(), position, None, "asked")
