"""Version, changelog and tag agree; the workflow builds for what pyproject.toml names."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.structure.release import disagreements, here
from tests.structure.source_tree import REPOSITORY

PROJECT = '[project]\nversion = "0.2.0"\n'
PACKAGE = '__version__ = "0.2.0"\n'
CHANGELOG = "# Changelog\n\n## Unreleased\n\n## 0.2.0, 2027-01-31\n\n## 0.1.9, 2027-01-02\n"


@pytest.mark.tree
def test_this_tree_agrees() -> None:
    tags = []
    if shutil.which("git") and (REPOSITORY / ".git").exists():
        command = ["git", "tag", "--points-at", "HEAD", "--list", "v*"]
        ran = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
        tags = ran.stdout.split()
    assert here(tags[0] if tags else None) == []


def test_a_release_that_agrees() -> None:
    assert disagreements(PROJECT, PACKAGE, CHANGELOG, "v0.2.0") == []
    assert disagreements(PROJECT, PACKAGE, CHANGELOG, None) == []


@pytest.mark.parametrize(
    ("project", "package", "changelog", "tag", "said"),
    [
        (PROJECT, '__version__ = "0.2.1"\n', CHANGELOG, None, "__init__.py 0.2.1"),
        (PROJECT, PACKAGE, CHANGELOG, "v0.2.1", "the tag is v0.2.1"),
        (PROJECT, PACKAGE, "## Unreleased\n\n## 0.1.9, 2027-01-02\n", "v0.2.0", "newest section"),
        (PROJECT, PACKAGE, "## 0.2.0, 2027-01-31\n", None, "begin with a section Unreleased"),
        (PROJECT, PACKAGE, "## Unreleased\n\n## 0.2.0\n", None, "not a version and a date"),
        (PROJECT, PACKAGE, "## Unreleased\n\n## 0.3.0, 2027-01-31\n", None, "newer than"),
        (
            PROJECT,
            PACKAGE,
            "## Unreleased\n\n## 0.1.9, 2027-01-02\n\n## 0.1.10, 2027-01-03\n",
            None,
            "in the order of versions",
        ),
    ],
)
def test_what_does_not_agree(
    project: str, package: str, changelog: str, tag: str | None, said: str
) -> None:
    (found,) = disagreements(project, package, changelog, tag)
    assert said in found


def test_the_workflow_builds_for_each_python() -> None:
    project = (REPOSITORY / "pyproject.toml").read_text()
    named = re.findall(r'Python :: (3\.\d+)"', project)
    workflow = (REPOSITORY / ".github/workflows/release.yml").read_text()
    (built,) = re.findall(r"^ +python: \[(.+)\]$", workflow, re.MULTILINE)
    assert [text.strip('" ') for text in built.split(",")] == named
    makefile = (REPOSITORY / "Makefile").read_text()
    for target in re.findall(r"run: make PYTHON=python (\S+)", workflow):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
