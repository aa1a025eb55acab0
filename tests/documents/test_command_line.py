"""The page about the command line: its commands run, and print what stands below them."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kiln.__main__ import main
from tests.structure.source_tree import REPOSITORY

PAGE = REPOSITORY / "docs" / "command_line.md"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
NAMED = re.compile(r"# (\w+\.py)\n")


def pattern(shown: str) -> str:
    """Return the pattern of an output: `...` is any text, and spaces are any number of spaces."""
    words = re.sub(r"(?<=\S) +", " ", shown)
    return re.escape(words).replace(r"\.\.\.", ".*").replace(r"\ ", " +")


def differing(text: str, folder: Path) -> list[str]:
    """Run the commands of a page in a folder; return those that print something else."""
    found, printed = [], ""
    for language, block in BLOCK.findall(text):
        if language == "python":
            name = NAMED.match(block)
            assert name is not None, block
            (folder / name[1]).write_text(block, encoding="utf-8")
        elif language == "sh":
            words = shlex.split(block)
            assert words[0] == "kiln"
            done = subprocess.run(
                [sys.executable, "-m", *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=120,
                check=False,
                cwd=folder,
            )
            printed = done.stdout
        elif not re.fullmatch(pattern(block), printed, re.DOTALL):
            found.append(printed)
    return found


def test_commands_print_what_the_page_says(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    languages = [language for language, _ in BLOCK.findall(text)]
    assert languages.count("sh") == languages.count("text") == 7
    assert differing(text, tmp_path) == []


def test_another_output_is_found(tmp_path: Path) -> None:
    text = "```sh\nkiln --version\n```\n\n```text\nkiln {}\n```\n"
    assert differing(text.format("..."), tmp_path) == []
    assert len(differing(text.format("another"), tmp_path)) == 1


def test_the_page_names_every_command_and_flag(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for words, names in ((["--help"], r"^    (\w+) "), (["run", "--help"], r"  (--[\w-]+)")):
        with pytest.raises(SystemExit):
            main(words)
        usage = capsys.readouterr().out.partition("examples:")[0]
        for name in re.findall(names, usage, re.MULTILINE):
            assert re.search(rf"`(kiln |--as-jax )?{name}\b", text), name
