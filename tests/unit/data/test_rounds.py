"""Decisions about batches, from what the processes say of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kiln.data.rounds import Answers, Rounds, Said, Uneven, Verdict
from kiln.errors import PeerError


def rows(number: int | None, parts: int = 1) -> Said:
    fitting = -(-(number or 0) // parts) * parts
    return Said("batch", number, fitting, "float32[rows]")


END = Said("end")


def decided(uneven: Uneven, *rounds: list[Said]) -> list[Any]:
    """Return the verdicts about rounds, in each of which equal texts are joined."""
    found: list[Any] = []
    made = Rounds(uneven, None, "topic", 0)
    for number, said in enumerate(rounds):
        joined: Answers = [
            (each, tuple([i for i, other in enumerate(said) if other == each]))
            for each in dict.fromkeys(said)
        ]
        try:
            found.append(made._decided(joined, number, "batches"))
        except ValueError as error:
            found.append(str(error).splitlines()[1])
    return found


@pytest.mark.parametrize("uneven", ["error", "drop", "pad"])
def test_even_batches_are_used(uneven: Uneven) -> None:
    given = [rows(4), rows(4)], [rows(4), rows(4)], [END, END]
    assert decided(uneven, *given) == [Verdict("use", 4), Verdict("use", 4), Verdict("end")]


def test_smaller_batches_of_all() -> None:
    given = [rows(4), rows(4)], [rows(2), rows(2)]
    assert decided("error", *given)[1] == Verdict("use", 2)
    assert decided("drop", *given)[1] == Verdict("skip")
    assert decided("pad", *given)[1] == Verdict("use", 4)


def test_different_numbers_of_rows() -> None:
    given = [rows(4), rows(4), rows(4)], [rows(4), rows(3), rows(4)], [rows(4), rows(4), rows(4)]
    assert decided("error", *given)[1] == "batch 1 has 4 rows in process 0, 3 rows in process 1"
    assert decided("drop", *given)[1:] == [Verdict("skip"), Verdict("use", 4)]
    assert decided("pad", *given)[1:] == [Verdict("use", 4)] * 2


def test_a_process_that_has_no_more() -> None:
    given = [rows(4), rows(4), rows(4)], [rows(4), END, END], [END, END, END]
    assert decided("error", *given)[1] == "processes 1, 2 have no batch 1, and process 0 has one"
    assert decided("drop", *given)[1] == Verdict("end")
    assert decided("pad", *given)[1:] == [Verdict("use", 4), Verdict("end")]
    other = [rows(4), rows(4), rows(4)], [rows(4), END, rows(4)]
    wrong = "process 1 has no batch 1, and processes 0, 2 have another one"
    assert decided("error", *other)[1] == wrong


def test_rows_that_devices_do_not_divide_evenly() -> None:
    given = [rows(4, 2), rows(4, 2)], [rows(3, 2), rows(3, 2)]
    assert decided("error", *given)[1] == (
        "batch 1 has 3 rows, which the devices there do not divide evenly; 4 can"
    )
    assert decided("drop", *given)[1] == Verdict("skip")
    assert decided("pad", *given)[1] == Verdict("use", 4)
    assert decided("pad", [rows(3, 2), rows(4, 2)]) == [Verdict("use", 4)]


def test_first_batches_that_are_uneven() -> None:
    assert "batch 0 has 4 rows in process 0" in decided("drop", [rows(4), rows(3)])[0]
    assert decided("pad", [rows(4), rows(3)]) == [Verdict("use", 4)]
    assert decided("pad", [rows(4), END]) == ["process 1 has no batch 0, and process 0 has one"]


def test_batches_that_grow() -> None:
    assert decided("pad", [rows(4), rows(4)], [rows(4), rows(6)])[1] == (
        "batch 1 has 4 rows in process 0, 6 rows in process 1, and the first one 4"
    )


def test_batches_without_rows() -> None:
    assert decided("error", [rows(None)], [END]) == [Verdict("use"), Verdict("end")]
    assert decided("pad", [rows(None)]) == [
        "no leaf of the batch has rows that are divided among devices"
    ]


def test_leaves_that_differ() -> None:
    other = Said("batch", 4, 4, "int32[rows]")
    assert decided("pad", [rows(4), other]) == [
        "batch 0 differs between the processes: float32[rows] in process 0; "
        "int32[rows] in process 1"
    ]


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        (Said("failed", text="KeyError: 3"), "the source of process 1 has raised KeyError: 3"),
        (Said("closed"), "process 1 has closed the iterator before batch 0"),
    ],
)
def test_a_process_that_has_failed(said: Said, wrong: str) -> None:
    with pytest.raises(PeerError, match=re.escape(wrong)):
        decided("drop", [rows(4), said])
