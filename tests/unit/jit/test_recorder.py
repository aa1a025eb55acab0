"""How the program of a new signature is made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.base.errors import RecompilationError
from kiln.jit.cache import Recordings
from kiln.jit.recorder import UNLIMITED, PlainRecorder
from kiln.jit.signatures.signature import Subject
from kiln.ops.elements.elementwise import mul

ONES = np.ones(3, np.float32)


def recorded(recorder: PlainRecorder, subject: Subject, x: Any, table: Any = None) -> Any:
    call = subject.arguments((x,), {})
    table = Recordings() if table is None else table
    return recorder.record(subject, call.signature((), ()), call, table)


def doubled(x: Any) -> Any:
    return mul(x, 2.0)


def test_functions_of_equal_content_share_what_was_recorded() -> None:
    first, second = [Subject(lambda x: mul(x, 3.0), None, "options") for _ in range(2)]
    made = recorded(UNLIMITED, first, ONES)
    assert recorded(UNLIMITED, second, ONES) is made
    other = Subject(lambda x: mul(x, 3.0), None, "other options")
    assert recorded(UNLIMITED, other, ONES) is not made


def test_static_results_are_of_one_function() -> None:
    first, second = [
        Subject(lambda x: (mul(x, 4.0), "text"), None, (), static_result=True) for _ in range(2)
    ]
    made = recorded(UNLIMITED, first, ONES)
    assert made.static == "text" and made.origin is None
    assert recorded(UNLIMITED, second, ONES) is not made


def test_the_history_is_the_tables() -> None:
    table = Recordings()
    recorded(UNLIMITED, Subject(doubled, None, "history"), ONES, table)
    assert table.history.traces == 1 and table == {}


def test_the_limit_of_traces() -> None:
    recorder = PlainRecorder(max_traces=1)
    subject, table = Subject(lambda x: [mul(x, 5.0), object][:1], None, ()), Recordings()
    recorded(recorder, subject, ONES, table)
    with pytest.raises(RecompilationError):
        recorded(recorder, subject, ONES[:2], table)
    recorder.forget()
    recorded(recorder, subject, ONES[:2], table)
    assert recorder.count(7) == 7
