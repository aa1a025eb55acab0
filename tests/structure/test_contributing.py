"""CONTRIBUTING.md is true: its primitive passes all checks, its pages print what they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.structure.source_tree import REPOSITORY

TEXT = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE))
EXAMPLE = SECTIONS["Add a primitive"]
# What the example is run in. Of the cases only its own: the others have been seen.
COPIED = ("src", "docs", "tests/rules", "tests/structure", "tests/unit", "examples", "benchmarks")
STRUCTURE = ("documents", "layers", "names", "parameters", "public_names", "unit_mirror")
CASES = ("__init__.py", "case.py", "collection.py", "known_gaps.py")
BESIDE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "pyproject.toml")
BESIDE += ("Makefile", "CMakeLists.txt", "tests/__init__.py", "tests/conftest.py")
DIFFERENTIAL = "tests/differential/test_coverage.py"


def steps(text: str) -> list[tuple[str, str, str]]:
    """Return each block of code: the file that was named last before it, the language, the text."""
    found = []
    path = ""
    token = r"`((?:src|tests)/[\w/]+\.py)`|^```(python|diff)\n(.*?)^```"
    for named, language, code in re.findall(token, text, re.DOTALL | re.MULTILINE):
        path = named or path
        if code:
            found.append((path, language, code))
    return found


def patched(text: str, diff: str) -> str:
    """Return a text with a change made: lines that start with a blank, + or -, without numbers.

    Raises: ValueError if the lines to change do not stand there exactly once.
    """
    old = "".join(line[1:] for line in diff.splitlines(True) if line[0] != "+")
    new = "".join(line[1:] for line in diff.splitlines(True) if line[0] != "-")
    if text.count(old) != 1:
        raise ValueError(f"{text.count(old)} places, not one, for\n{diff}")
    return text.replace(old, new)


def follow(text: str, root: Path) -> list[Path]:
    """Make all changes of an example; return the files that are new."""
    made = []
    for path, language, code in steps(text):
        file = root / path
        if language == "diff":
            file.write_text(patched(file.read_text(encoding="utf-8"), code), encoding="utf-8")
        else:
            assert not file.exists(), f"{path} is there already"
            file.write_text(code, encoding="utf-8")
            made.append(file)
    return made


def copy(root: Path) -> None:
    """Copy what the example touches, and what its checks need."""
    unneeded = shutil.ignore_patterns("__pycache__", "_runtime", "*.egg-info")
    for folder in COPIED:
        shutil.copytree(REPOSITORY / folder, root / folder, ignore=unneeded)
    for folder in ("cases", "differential"):
        (root / "tests" / folder).mkdir()
    for file in (*BESIDE, DIFFERENTIAL, *(f"tests/cases/{name}" for name in CASES)):
        shutil.copy(REPOSITORY / file, root / file)


def run(root: Path, *arguments: str) -> str:
    """Run a module in the copy, and return what it prints; it must end well."""
    # `-S` leaves out the editable installation, which would put the sources before their copy.
    originals = {"", str(REPOSITORY), str(REPOSITORY / "src")}
    packages = [path for path in sys.path if path not in originals]
    done = subprocess.run(
        [sys.executable, "-S", "-m", *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), *packages])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


followed = pytest.mark.skipif(
    (REPOSITORY / steps(EXAMPLE)[0][0]).exists(), reason="the example was followed in this tree"
)


@followed
def test_the_example_fits_the_sources(tmp_path: Path) -> None:
    for path, language, _ in steps(EXAMPLE):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        if language == "diff":
            shutil.copy(REPOSITORY / path, tmp_path / path)
    made = follow(EXAMPLE, tmp_path)
    assert len(made) == 4
    for file in made:
        compile(file.read_text(encoding="utf-8"), file.name, "exec")


@followed
@pytest.mark.full
def test_the_example_passes_all_checks(tmp_path: Path) -> None:
    copy(tmp_path)
    follow(EXAMPLE, tmp_path)
    table = run(tmp_path, "kiln", "coverage", "--markdown")
    assert "| ops/indexing/rolling | `roll` | x | x | x | x | x |  |  | x |" in table
    (tmp_path / "docs" / "primitives.md").write_text(table, encoding="utf-8")
    pytest_ = ("pytest", "-q", "-p", "no:cacheprovider")
    rules = run(tmp_path, *pytest_, "tests/rules", "-k", "roll or engines_agree")
    checks = re.search(r"^(\d+) passed", rules.splitlines()[-1])
    assert checks is not None, rules
    assert int(checks[1]) >= 60
    run(tmp_path, *pytest_, "tests/unit/ops/indexing/test_rolling.py")
    run(tmp_path, *pytest_, *(f"tests/structure/test_{name}.py" for name in STRUCTURE))


def test_the_files_that_it_names_exist() -> None:
    named = set(re.findall(r"\b(?:src|tests|docs)/[\w/]+\.\w+", TEXT))
    made = {path for path, language, _ in steps(EXAMPLE) if language == "python"}
    assert len(named - made) > 10
    assert [path for path in sorted(named - made) if not (REPOSITORY / path).exists()] == []


PRINTING = """
import contextlib, io, json, sys
names, printed = {}, []
for code in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        exec(compile(code, "CONTRIBUTING.md", "exec"), names)
    printed.append(shown.getvalue())
print(json.dumps(printed))
"""


def test_what_the_page_prints() -> None:
    blocks = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", SECTIONS["Debug"], re.DOTALL)
    assert len(blocks) == SECTIONS["Debug"].count("```python") > 2
    # In a process of its own, as a reader has it: programs of other tests may have been evicted.
    done = subprocess.run(
        [sys.executable, "-c", PRINTING],
        input=json.dumps([code for code, _ in blocks]),
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert json.loads(done.stdout) == [shown for _, shown in blocks]


def test_a_change_that_does_not_fit_is_found() -> None:
    assert patched("a\nb\nc\n", " b\n+x\n-c\n") == "a\nb\nx\n"
    for text in ("a\n", "b\nc\nb\nc\n"):
        with pytest.raises(ValueError, match="places, not one"):
            patched(text, " b\n+x\n c\n")
