"""The table of breaks fits the sources, and its log tells of no break that went unseen."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from tests.mutation.__main__ import (
    CONTENT_LOG,
    LOG,
    NAMED,
    NOTHING_BROKEN,
    OF_ROOMS,
    ONCE_UNSEEN,
    REPOSITORY,
    _with_others,
    broken,
    marks,
)
from tests.mutation.breaks import BREAKS, Break, drawn, order
from tests.mutation.breaks_by_room import BY_ROOM
from tests.mutation.content_breaks import CONTENT_BREAKS
from tests.structure.source_tree import KILN

FEWEST = 30


def _each(rows: Iterable[Break]) -> list[Any]:
    """Mark the rows that change the sources of the extension."""
    return [
        row if row.file.endswith(".py") else pytest.param(row, marks=pytest.mark.tree)
        for row in rows
    ]


@pytest.mark.parametrize("row", BREAKS, ids=lambda row: row.item)
def test_each_break_can_be_made(row: Break) -> None:
    text = (KILN / row.file).read_text(encoding="utf-8")
    changed = broken(text, row)
    assert changed != text
    compile(changed, row.file, "exec")
    assert marks()[row.item]


def test_the_items_are_those_drawn_and_all_later_ones() -> None:
    items = [row.item for row in BREAKS]
    assert len(set(items)) == len(items)
    assert set(items) <= set(order())
    assert len(set(items) & set(drawn())) >= FEWEST
    assert set(order()) - set(drawn()) <= set(items)


def test_the_log_is_that_of_the_table() -> None:
    _, unbroken, *rows = LOG.read_text(encoding="utf-8").splitlines()
    assert unbroken.endswith("0 fail")
    assert {line.split()[0] for line in rows} == {row.item for row in BREAKS}
    assert all(" fail: test_" in line for line in rows)


@pytest.mark.parametrize("row", _each(CONTENT_BREAKS), ids=lambda row: row.instead[:20])
def test_each_break_of_contents_can_be_made(row: Break) -> None:
    changed = broken((KILN / row.file).read_text(encoding="utf-8"), row)
    if row.file.endswith(".py"):
        compile(changed, row.file, "exec")
    for test in row.tests:
        file, _, name = test.partition("::")
        function = name.partition("[")[0]
        assert f"def {function}(" in (REPOSITORY / file).read_text(encoding="utf-8")


def test_each_break_of_contents_was_seen() -> None:
    _, unbroken, *rows = CONTENT_LOG.read_text(encoding="utf-8").splitlines()
    assert unbroken.endswith("0 fail")
    assert len(rows) == len(CONTENT_BREAKS) > 20
    assert all(" fail: test_" in line for line in rows)


@pytest.mark.parametrize("row", _each([*ONCE_UNSEEN, *OF_ROOMS]), ids=lambda row: row.item)
def test_each_break_by_hand_can_be_made(row: Break) -> None:
    changed = broken((KILN / row.file).read_text(encoding="utf-8"), row)
    if row.file.endswith(".py"):
        compile(changed, row.file, "exec")
    for test in row.tests:
        file, *names = re.sub(r"\[.*", "", test).split("::")
        text = (REPOSITORY / file).read_text(encoding="utf-8")
        assert all(f"def {name}(" in text for name in names)


@pytest.mark.parametrize("name", NAMED)
def test_each_break_by_hand_was_seen(name: str) -> None:
    made, log, what = NAMED[name]
    first, unbroken, *rows = log.read_text(encoding="utf-8").splitlines()
    assert first == f"{len(made)} {what}"
    assert unbroken == NOTHING_BROKEN or unbroken.endswith("pass, 0 fail")
    assert [line.split()[0] for line in rows] == [row.item for row in made]
    assert all(" fail: test_" in line for line in rows)


def test_each_room_has_five() -> None:
    assert len(BY_ROOM) >= 12
    assert all(len(rows) >= 5 for rows in BY_ROOM.values())
    names = [row.item for row in (*ONCE_UNSEEN, *OF_ROOMS)]
    assert len(set(names)) == len(names)


def test_a_log_of_some_rows_keeps_the_lines_of_the_others() -> None:
    rows = [Break(name, "a.py", "x", "y") for name in ("first", "second", "third")]
    log = "3 breaks\nnothing broken: 9 tests pass, 0 fail\nfirst old\nsecond old\ngone old\n"
    made = ["3 breaks", "nothing broken: 2 tests pass, 0 fail", "second new", "third new"]
    lines = ["first old", "second new", "third new"]
    assert _with_others(made, rows, log) == ["3 breaks", NOTHING_BROKEN, *lines]
    made[1] = "nothing broken: 2 tests pass, 1 fail"
    assert _with_others(made, rows, log)[1] == made[1]


def test_a_text_that_is_not_there_is_found() -> None:
    row = Break("1.1", "a.py", "x = 1", "x = 2")
    assert broken("x = 1\n", row) == "x = 2\n"
    for text in ("", "x = 1\nx = 1\n"):
        with pytest.raises(ValueError, match="not once"):
            broken(text, row)
