"""How the program of a new signature is made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.base.errors import RecompilationError
from kiln.jit.cache import Recordings
from kiln.jit.recorder import PlainRecorder
from kiln.jit.signature import Arguments
from kiln.ops.elementwise import mul

ONES = np.ones(3, np.float32)


def recorded(recorder: PlainRecorder, x: Any, table: Recordings | None = None) -> Any:
    call = Arguments(recorder.fun, None, (x,), {})
    return recorder.record(call.signature((), ()), call, Recordings() if table is None else table)


def doubled(x: Any) -> Any:
    return mul(x, 2.0)


def test_functions_of_equal_content_share_what_was_recorded() -> None:
    first, second = [PlainRecorder(lambda x: mul(x, 3.0), "options") for _ in range(2)]
    assert recorded(first, ONES) is recorded(second, ONES)
    other = PlainRecorder(lambda x: mul(x, 3.0), "other options")
    assert recorded(other, ONES) is not recorded(first, ONES)


def test_static_results_are_of_one_function() -> None:
    first, second = [
        PlainRecorder(lambda x: (mul(x, 4.0), "text"), (), static_result=True) for _ in range(2)
    ]
    made = recorded(first, ONES)
    assert made.static == "text" and made.origin is None
    assert recorded(second, ONES) is not made


def test_the_history_is_the_tables() -> None:
    table = Recordings()
    recorded(PlainRecorder(doubled, "history"), ONES, table)
    assert table.history.traces == 1 and table == {}


def test_the_limit_of_traces() -> None:
    recorder = PlainRecorder(lambda x: [mul(x, 5.0), object][:1], (), max_traces=1)
    table = Recordings()
    recorded(recorder, ONES, table)
    with pytest.raises(RecompilationError):
        recorded(recorder, ONES[:2], table)
    recorder.forget()
    recorded(recorder, ONES[:2], table)
    assert recorder.count(7) == 7
