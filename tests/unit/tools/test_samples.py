"""Sampled stacks: what they see, and the spans that they become."""

from __future__ import annotations

import threading
import time

import pytest

from kiln.tools.samples import Frame, Sample, Samples, sampled, spans


def busy(until: float) -> None:
    while time.perf_counter() < until:
        pass


def test_functions_that_run_are_seen() -> None:
    with sampled(0.001) as found:
        begin = time.perf_counter()
        # Until they are seen, however slow the machine is.
        while len([s for s in found.stacks if s.stack[-1].name == "busy"]) < 3:
            busy(time.perf_counter() + 0.01)
            assert time.perf_counter() < begin + 30
    sample = next(s for s in found.stacks if s.stack[-1].name == "busy")
    names = [frame.name for frame in sample.stack]
    assert names[-2:] == ["test_functions_that_run_are_seen", "busy"]
    assert sample.stack[-1].file == __file__
    assert sample.thread == threading.get_ident()
    assert str(sample.stack[-1]).startswith("busy (test_samples.py:")
    assert found.memory[0][0] <= begin <= found.memory[-1][0]
    count = len(found.stacks)
    time.sleep(0.01)
    assert len(found.stacks) == count


def test_the_sampler_ends_with_an_error() -> None:
    def stopped() -> Samples:
        with sampled() as found:
            raise ValueError
        return found

    with pytest.raises(ValueError):
        stopped()
    assert "kiln profile" not in [thread.name for thread in threading.enumerate()]


def sample(at: float, *names: str) -> Sample:
    return Sample(at, 1, tuple([Frame(name, "a.py", 1) for name in names]))


def test_spans() -> None:
    seen = [
        sample(1.0, "f"),
        sample(1.1, "f", "g"),
        # Another line of the same function.
        Sample(1.2, 1, (Frame("f", "a.py", 2), Frame("g", "a.py", 7))),
        sample(1.3, "f", "h"),
        # Nothing was seen in between.
        sample(9.0, "f"),
    ]
    found = [(frame.name, start, round(end, 9)) for frame, start, end in spans(seen, 0.1)]
    assert found == [("g", 1.1, 1.3), ("h", 1.3, 1.3), ("f", 1.0, 1.3), ("f", 9.0, 9.1)]
    assert list(spans([])) == []
