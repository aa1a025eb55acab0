"""The transcripts of docs/install.md: its program runs, and a command that fails is reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.first_page import PAGE, loop_program, transcript


def test_the_program_of_the_page_is_timed(capsys: pytest.CaptureFixture[str]) -> None:
    program = loop_program(PAGE.read_text(encoding="utf-8"))
    exec(compile(program, "heat.py", "exec"), {})
    same, times = capsys.readouterr().out.splitlines()
    assert same == "True"
    assert times.startswith("NumPy ") and times.endswith(" times as fast")


def test_commands_run_in_the_environment_and_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make = [sys.executable, "-m", "venv", "--without-pip", "learn"]
    use = ["python", "-c", "import sys; print(sys.prefix)"]
    assert transcript([make, use], tmp_path) > 0
    assert f"          {tmp_path}/learn" in capsys.readouterr().out.splitlines()
    with pytest.raises(subprocess.CalledProcessError):
        transcript([["python", "-c", "raise SystemExit(3)"]], tmp_path)
