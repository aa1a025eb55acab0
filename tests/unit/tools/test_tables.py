"""Tables: plain where the output is piped, drawn on a terminal."""

from __future__ import annotations

import sys

import pytest

from kiln.tools import tables


def test_columns_are_aligned_and_lines_have_no_spaces_at_the_end() -> None:
    lines = list(tables.plain("title", ("name", "why"), [("a", "first"), ("long", "")]))
    assert lines == ["title", "  name  why", "  a     first", "  long"]
    assert list(tables.plain("title", (), [("a", "b")])) == ["title", "  a  b"]


def test_a_pipe_gets_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show("types", ("argument", "type"), [("x", "f32[3]")])
    assert capsys.readouterr().out == "types\n  argument  type\n  x         f32[3]\n"


@pytest.mark.parametrize("columns", [(), ("argument", "type")])
def test_a_terminal_gets_a_drawn_table(
    columns: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    tables.show("types", columns, [("x", "f32[3]")])
    out = capsys.readouterr().out
    # Brackets are not markup.
    assert "f32[3]" in out
    assert "│" in out
    assert ("argument" in out) == bool(columns)
