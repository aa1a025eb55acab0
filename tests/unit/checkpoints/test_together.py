"""Processes that save together, as threads that exchange texts in memory."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kiln.checkpoints.entries import Entry, Layout
from kiln.checkpoints.together import Meeting, compared, write_together
from kiln.errors import CheckpointError

LONGEST_S = 30.0


class _Room:
    """What threads say to each other: each topic is answered when all have said something."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.topics: list[str] = []
        self._barrier = threading.Barrier(count, timeout=LONGEST_S)
        self._said: dict[str, dict[int, str]] = {}

    def exchange(self, index: int, topic: str, text: str) -> dict[str, tuple[int, ...]]:
        self._said.setdefault(topic, {})[index] = text
        self._barrier.wait()
        if not index:
            self.topics.append(topic.removeprefix("t/"))
        said = self._said[topic]
        found: dict[str, tuple[int, ...]] = {}
        for rank in sorted(said):
            found[said[rank]] = (*found.get(said[rank], ()), rank)
        return found


class _Peer:
    def __init__(self, room: _Room, index: int) -> None:
        self.index, self.count, self._room = index, room.count, room

    def exchange(self, topic: str, text: str, asked: str) -> dict[str, tuple[int, ...]]:
        return self._room.exchange(self.index, topic, text)


def saved(
    folder: Path, trees: Sequence[Sequence[Entry]], write: Callable[[int], None] = lambda _: None
) -> tuple[list[str], list[str], list[str]]:
    """Save one tree in each process; return their errors, their names of the save, the topics."""
    room, wrong, names = _Room(len(trees)), [""] * len(trees), [""] * len(trees)

    @contextlib.contextmanager
    def made(final: Path) -> Iterator[Path]:
        yield final

    def run(index: int) -> None:
        def blocks(place: Path, save: str) -> None:
            assert place == folder
            names[index] = save
            write(index)

        peer: Any = _Peer(room, index)
        meeting = Meeting(peer, "t", "save()")
        name = f"save of {index}"
        try:
            write_together(meeting, folder, name, trees[index], made, blocks, lambda *_: None)
        except Exception as error:  # noqa: BLE001, compared by the test
            wrong[index] = str(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(trees))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_S)
    return wrong, names, room.topics


ROWS = Layout((4,), (0, 1, 2, 3))


def entry(number: int, path: str, layout: Layout | None = ROWS, size: int = 8) -> Entry:
    return Entry(number, path, "array", None, "float32", (size,), layout=layout)


def test_all_use_the_name_of_the_first(tmp_path: Path) -> None:
    tree = [entry(0, "a"), entry(1, "b", None)]
    wrong, names, topics = saved(tmp_path, [tree] * 4)
    assert wrong == [""] * 4
    assert names == ["save of 0"] * 4
    assert topics == ["folder", "blocks", "index"]


@pytest.mark.parametrize("place", [0, 1, 499, 998, 999])
def test_the_first_leaf_that_differs_is_named(tmp_path: Path, place: int) -> None:
    tree = [entry(i, f"{i:03}") for i in range(1000)]
    other = [*tree[:place], entry(place, "other"), *tree[place + 1 :]]
    wrong, names, topics = saved(tmp_path, [tree, tree, other])
    said = f"the trees of the processes 0 and 2 differ: {place:03}: float32[8] in blocks"
    assert set(names) == {""}
    assert len(set(wrong)) == 1
    assert said in wrong[0]
    assert ", other: float32[8] in blocks [4] of processes [0, 1, 2, 3] in process 2" in wrong[0]
    assert len(wrong[0].splitlines()) == 3
    assert len(topics) <= 3 + 10


@pytest.mark.parametrize("shorter", [0, 1])
def test_a_leaf_that_is_missing_is_named(tmp_path: Path, shorter: int) -> None:
    tree = [entry(0, "a"), entry(1, "b")]
    trees = [tree, tree]
    trees[shorter] = tree[:1]
    wrong, _, _ = saved(tmp_path, trees)
    assert f"no leaf in process {shorter}" in wrong[0]
    assert wrong[0] == wrong[1]


def test_layouts_and_shapes_are_compared_but_not_of_what_process_0_writes() -> None:
    turned = Layout((4,), (3, 2, 1, 0))
    assert compared([entry(0, "a")]) != compared([entry(0, "a", turned)])
    assert compared([entry(0, "a")]) != compared([entry(0, "a", size=16)])
    many = Layout((100,), tuple(range(100)))
    assert compared([entry(0, "a", many, 100)]) != compared(
        [entry(0, "a", Layout((100,), (*range(99), 0)), 100)]
    )
    alone = Layout((1,), (0,))
    # An array of one process here, a number there.
    assert compared([entry(0, "a", alone)]) == compared([Entry(0, "a", "int", "3")]) == ["a"]


def test_a_failure_of_one_is_that_of_all(tmp_path: Path) -> None:
    def fail(index: int) -> None:
        if index == 1:
            raise OSError("disk full")

    wrong, _, _ = saved(tmp_path, [[entry(0, "a")]] * 3, fail)
    assert wrong[1] == "disk full"
    for each in (wrong[0], wrong[2]):
        assert "it was not saved: process 1: " in each
        assert "disk full" in each


def test_paths_that_differ_are_told(tmp_path: Path) -> None:
    room = _Room(2)
    wrong: dict[int, str] = {}

    @contextlib.contextmanager
    def made(final: Path) -> Iterator[Path]:
        yield final

    def run(index: int) -> None:
        peer: Any = _Peer(room, index)
        with pytest.raises(CheckpointError) as caught:
            write_together(
                Meeting(peer, "t", "save()"),
                tmp_path / f"{index}",
                "name",
                [],
                made,
                lambda *_: None,
                lambda *_: None,
            )
        wrong[index] = str(caught.value).splitlines()[1]

    threads = [threading.Thread(target=run, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONGEST_S)
    told = f"process 0 saves to {tmp_path / '0'}, process 1 to {tmp_path / '1'}"
    assert wrong == {0: told, 1: told}
