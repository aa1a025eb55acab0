"""The parser of the command line: three lines, suggestions, examples."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kiln.__main__ import main

COMMANDS = (
    "doctor",
    "run",
    "explain",
    "profile",
    "explore",
    "bench",
    "cache",
    "compile",
    "launch",
    "coverage",
    "options",
)


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert len(lines) == 3
    assert lines[0] == " ".join(["kiln", *words])
    return lines


@pytest.mark.parametrize(
    ("words", "wrong", "meant"),
    [
        (["docter"], "there is no 'docter'", "did you mean doctor?"),
        (["doctor", "--jsno"], "there is no option '--jsno'", "did you mean --json?"),
        (["run", "--x46", "a.py"], "there is no option '--x46'", "did you mean --x64?"),
        (["run", "--treads=2", "a.py"], "there is no option '--treads'", "did you mean --threads?"),
        (["run", "--engine", "natve", "a.py"], "there is no 'natve'", "did you mean native?"),
        (["explain", "--jsn", "a.py"], "there is no option '--jsn'", "did you mean --json?"),
        (["cache", "lst"], "there is no 'lst'", "did you mean list?"),
        (["cache", "list", "all"], "there is no argument 'all'", "`kiln cache --help`"),
        (["zzzzzz"], "there is no 'zzzzzz'", "`kiln --help` lists them"),
        (["run"], "the following arguments are required: program", "`kiln run --help`"),
        ([], "the following arguments are required: COMMAND", "`kiln --help`"),
    ],
)
def test_what_was_meant(
    words: list[str], wrong: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = refused(words, capsys)
    assert lines[1].startswith(wrong)
    assert lines[2].startswith(meant)


def test_options_are_not_abbreviated(capsys: pytest.CaptureFixture[str]) -> None:
    # An option that is added later must not change what a script means.
    assert "did you mean --json" in refused(["doctor", "--jso"], capsys)[2]


@pytest.mark.parametrize("number", ["0", "-1", "two"])
def test_numbers_of_threads_are_checked(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--threads" in refused(["run", "--threads", number, "a.py"], capsys)[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    # The last two write pages of docs/, and are not for users.
    assert (f"\n  kiln {command}" in text) == (command not in ("coverage", "options"))


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    text = capsys.readouterr().out
    assert all(f"\n    {command}" in text for command in COMMANDS)


def test_a_closed_pipe_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "kiln", "options"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1
