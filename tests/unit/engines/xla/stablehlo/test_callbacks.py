"""Failures of callbacks in programs over several devices: of each run the first one is kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.engines.xla.stablehlo.callbacks import HostCallback, Run
from kiln.ir.types import ShapedArray


def test_the_first_failure_of_each_run_is_kept() -> None:
    calls: list[int] = []

    def failing() -> Any:
        calls.append(len(calls))
        raise ValueError(calls[-1])

    callback = HostCallback(failing, [ShapedArray((2,), np.dtype("f4"))], token=False)
    first, second = Run(), Run()
    # A run under way when another one begins; once all have failed nothing more is called.
    for runs in ([first], [first, second], [first, second]):
        callback.runs = runs
        assert callback()[0].tolist() == [0, 0]
    assert calls == [0, 1]
    assert [run.failure.args for run in (first, second) if run.failure] == [(0,), (1,)]
