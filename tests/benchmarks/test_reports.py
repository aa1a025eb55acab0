"""Reported programs run at tiny sizes, agree with JAX, and another release of JAX takes part."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest

from benchmarks.reports.collection import ROWS
from benchmarks.reports.older import OlderJax
from benchmarks.suite import collection, measuring, results, row
from benchmarks.suite.peers import PEERS, Numba, Peer
from tests.benchmarks.agreement import disagreements

BOTH = [PEERS["kiln"], PEERS["jax"]]
CHECKED = [*BOTH, PEERS["numpy"]]


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    for peer in CHECKED:
        peer.load()


def test_every_row_follows_a_public_report() -> None:
    assert len({one.name for one in ROWS}) == len(ROWS)
    addresses = {one.report for one in ROWS}
    assert len(addresses) >= 25
    assert all(address.startswith("https://github.com/") for address in addresses)
    assert {one.kind for one in ROWS} == set(row.REPORTS)


def test_the_smallest_row_of_each_kind_agrees_with_jax() -> None:
    names = [
        "four bodies",
        "squared differences of",
        "500 of 1e4",
        "concatenate",
        "iterations, unr",
    ]
    assert disagreements(collection.chosen(names, rows=ROWS), CHECKED[::2], BOTH) == []


@pytest.mark.full
@pytest.mark.parametrize("one", ROWS, ids=lambda one: one.name)
def test_every_row_agrees_with_jax(one: row.Row) -> None:
    assert disagreements([one], CHECKED[::2], BOTH) == []


@pytest.mark.full
@pytest.mark.parametrize("peer", [PEERS["torch"], Numba("benchmarks.reports.numba_loops")])
def test_every_row_of_a_peer_agrees_with_jax(peer: Peer) -> None:
    missing = peer.missing()
    if missing:
        pytest.skip(missing)
    peer.load()
    assert disagreements(ROWS, [peer], BOTH) == []


def test_a_first_call_is_one_every_time() -> None:
    traced = []

    def fresh(constant: float) -> object:
        def program(lib: object, x: object) -> object:
            traced.append(constant)
            return x * constant  # type: ignore[operator]

        return program

    work = row.Work((np.ones(3, "float32"),), lambda lib, x: x, fresh=fresh)
    one = row.Row("made here", "first call", lambda: work, (), ())
    call = PEERS["kiln"].prepare(one, work)
    assert call is not None
    for _ in range(3):
        call.run()
    assert len(traced) == len(set(traced)) == 3


def test_an_eager_row_is_not_jitted() -> None:
    [one] = collection.chosen(["concatenate 5"], rows=ROWS)
    seen = []
    work = dataclasses.replace(one.work(), program=lambda lib, x, y: seen.append(x) or x)
    call = PEERS["kiln"].prepare(one, work)
    assert call is not None
    call.run()
    call.run()
    assert len(seen) == 2
    assert isinstance(np.asarray(seen[0]), np.ndarray)


@pytest.fixture(scope="module")
def older() -> OlderJax:
    peer = OlderJax(sys.executable)
    peer.load()
    return peer


def test_another_interpreter_takes_turns_with_this_one(older: OlderJax) -> None:
    assert older.name.startswith("jax ")
    [one] = collection.chosen(["scan of 3x3"], rows=ROWS)
    cells = measuring.measure(one, [*BOTH, older], seconds=0.001, tiny=True)
    assert cells[older.name]["samples"] >= 3
    assert "peak_bytes" not in cells[older.name]
    assert disagreements([one], [older], BOTH) == []
    line = results.line(one, cells)
    assert f"[{one.name}]({one.report})" in results.table([line], list(cells))


def test_what_fails_in_another_interpreter_is_told_here(older: OlderJax) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        older.prepare(row.Row("no such row", "scan", lambda: None, (), ()), ROWS[0].work(tiny=True))  # type: ignore[arg-type, return-value]
