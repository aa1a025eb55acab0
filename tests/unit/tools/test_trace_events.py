"""Trace events: spans of a track nest; calls on several threads are on several tracks."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kiln.jit.signatures.explain import Record, only
from kiln.tools.samples import Samples
from kiln.tools.trace_events import Span, first_calls, trace
from tests.unit.tools.trace_format import wrong

TIMES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20)), max_size=30)


def spans_in(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in found["traceEvents"] if each["ph"] == "X"]


@given(TIMES)
def test_spans_that_overlap_are_on_tracks_of_their_own(times: list[tuple[int, int]]) -> None:
    transfers = [
        Span(f"t{i}", "transfer", float(start), float(start + length), {})
        for i, (start, length) in enumerate(times)
    ]
    found = trace([], [], transfers, Samples(), 0.0)
    assert wrong(found) == []
    assert sorted(each["name"] for each in spans_in(found)) == sorted(x.name for x in transfers)


def test_records() -> None:
    record = Record("f", "f at a.py:1", only("first call"), "a.py:9", 0.5, 0.25, 10.0, 10.5)
    never_compiled = Record("g", "g at a.py:2", only("shape"), "a.py:9", 0.125, 0.0, 10.25)
    found = spans_in(trace([], [record, never_compiled], [], Samples(), 10.0))
    assert [(each["name"], each["ts"], each["dur"]) for each in found] == [
        ("trace f", 0.0, 0.5e6),
        ("trace g", 0.25e6, 0.125e6),
        ("compile f", 0.5e6, 0.25e6),
    ]
    assert found[0]["args"]["why"] == ["never seen function"]
    assert len({each["tid"] for each in found}) == 1
    # The trace of g is a part of that of f.
    assert first_calls([record, never_compiled]) == 0.75
    apart = Record("h", "h at a.py:3", only("shape"), "a.py:9", 0.125, 0.0, 11.0)
    assert first_calls([apart, record]) == 0.875
