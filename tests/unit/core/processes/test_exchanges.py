"""What processes tell each other through process 0: equal texts once, and who is absent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.core.processes.exchanges import LONGEST_TEXT, OTHERS, Answer, Exchanges


class Network:
    """Processes whose messages arrive at once, and are counted."""

    def __init__(self, count: int) -> None:
        self.left: set[int] = set()
        self.sent = 0
        self.all = [
            Exchanges(rank, lambda m, to, r=rank: self.carry(r, m, to), lambda: self.left)
            for rank in range(count)
        ]

    def carry(self, rank: int, message: dict[str, Any], ranks: Sequence[int]) -> None:
        for to in ranks:
            if to != rank:
                self.sent += len(str(message))
                self.all[to].on_message(rank, message)

    def say(self, rank: int, text: str, group: Sequence[int], topic: str = "topic") -> None:
        self.all[rank].say(topic, text, group)

    def answers(self, topic: str = "topic") -> list[Answer | None]:
        return [each.take(topic) for each in self.all]


def test_equal_texts_are_told_once() -> None:
    network = Network(5)
    for rank in range(5):
        assert network.answers() == [None] * 5
        network.say(rank, "a" if rank in (0, 1, 3) else "b", range(5))
    assert network.answers() == [Answer({"a": (0, 1, 3), "b": (2, 4)})] * 5
    # Once.
    assert network.answers() == [None] * 5


def test_a_group_without_process_0() -> None:
    network = Network(4)
    for rank in (3, 1):
        network.say(rank, f"from {rank}", (1, 3))
    answer = Answer({"from 1": (1,), "from 3": (3,)})
    assert network.answers() == [None, answer, None, answer]


def test_one_that_has_left_is_absent() -> None:
    network = Network(3)
    network.left.add(1)
    network.say(0, "a", range(3))
    assert network.answers() == [Answer({"a": (0,)}, (1,)), None, None]
    network.say(2, "a", range(3), "next")
    assert network.answers("next") == [None, None, Answer({"a": (2,)}, (1,))]


def test_one_that_leaves_while_others_wait_is_absent() -> None:
    network = Network(3)
    network.say(1, "a", range(3))
    network.say(2, "a", range(3), "next")
    network.say(0, "a", range(3))
    network.left.add(2)
    network.all[0].on_leave()
    absent = Answer({"a": (0, 1)}, (2,))
    assert network.answers() == [absent, absent, None]
    # It had sent its text there.
    network.say(0, "a", range(3), "next")
    network.say(1, "a", range(3), "next")
    assert network.answers("next") == [Answer({"a": (0, 1, 2)})] * 3


def test_who_is_late_is_named_on_request() -> None:
    network = Network(3)
    network.say(2, "a", range(3))
    network.all[2].give_up("topic")
    assert network.answers() == [None, None, Answer({"a": (2,)}, (0, 1))]
    # The answer may be under way already.
    network.all[2].give_up("topic")


def test_an_answer_is_bounded() -> None:
    network = Network(6)
    texts = [f"{rank}" * LONGEST_TEXT for rank in range(6)]
    for rank in range(6):
        network.say(rank, texts[rank], range(6))
    expected = {texts[0]: (0,), texts[1]: (1,), texts[2]: (2,), OTHERS: (3, 4, 5)}
    assert network.answers()[0] == Answer(expected)


def test_bytes_grow_with_the_number_of_processes() -> None:
    sent = []
    for count in (8, 64):
        network = Network(count)
        for rank in range(count):
            network.say(rank, "the same text", range(count))
        sent.append(network.sent / count)
    assert sent[1] < 1.2 * sent[0]
