from __future__ import annotations

import io
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kiln import checkpoints
from kiln.checkpoints import blocks, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_function_is_told_of_all_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_CHUNK", 100)
    told: list[tuple[int, int]] = []
    tree = {"a": np.ones(30), "b": np.ones(2, np.int8)}
    checkpoints.save(tmp_path / "c", tree, progress=lambda *of: told.append(of))
    assert told == [(100, 242), (200, 242), (240, 242), (242, 242)]


@pytest.mark.parametrize(
    ("stream", "report", "shown"),
    [
        (Terminal, None, True),
        (Terminal, False, False),
        (io.StringIO, None, False),
        (io.StringIO, True, False),
        (lambda: None, None, False),
    ],
)
def test_there_is_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, stream: type, report: bool | None, shown: bool
) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", -1)
    monkeypatch.setenv("TERM", "xterm")
    written = stream()
    monkeypatch.setattr(sys, "stderr", written)
    out = sys.stdout
    with progress.reported("Saving step-7", 10, report) as advance:
        assert sys.stdout is out
        advance(4)
        advance(6)
    if shown:
        assert "Saving step-7" in written.getvalue()
    elif report is not True and written is not None:
        assert written.getvalue() == ""


def test_one_bar_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", -1)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.reported("first", 2, True) as first, progress.reported("second", 2, True) as two:
        for advance in (first, two):
            advance(1)
            advance(1)


def test_what_is_done_at_once_needs_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 1000)
    written = Terminal()
    monkeypatch.setattr(sys, "stderr", written)
    with progress.reported("Saving", 2, None) as advance:
        advance(2)
    assert written.getvalue() == ""


def test_there_is_a_bar_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, bar: Any) -> None:
            shown.append(bar._repr_html_())

    def display(bar: Any, *, display_id: bool) -> Handle:
        shown.append(bar._repr_html_())
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    module = types.SimpleNamespace(
        get_ipython=lambda: shell, display=types.SimpleNamespace(display=display)
    )
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setattr(progress, "_PATIENCE", -1)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.reported("Saving step-7", 2_000_000, None) as advance:
        advance(500_000)
        advance(1_500_000)
    assert "Saving step-7" in shown[0] and "2.0/2.0 MB" in shown[-1]
    assert sys.stderr.getvalue() == ""
