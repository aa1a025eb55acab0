"""Which tests need the source tree: those that docs/testing.md lists."""

from __future__ import annotations

import re

import kiln
from tests.structure.source_tree import IN_TREE, KILN, REPOSITORY

TREE = "pytest.mark." + "tree"


def test_the_document_lists_the_files_of_tests_that_need_the_tree() -> None:
    text = (REPOSITORY / "docs" / "testing.md").read_text(encoding="utf-8")
    section = text.partition("## Tests of the source tree")[2].partition("\n## ")[0]
    listed = re.findall(r"`(tests/\S+/test_\w+\.py)`", section)
    marked = [
        path.relative_to(REPOSITORY).as_posix()
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        if TREE in path.read_text(encoding="utf-8")
    ]
    assert sorted(listed) == sorted(marked)


def test_the_files_judged_are_those_that_run() -> None:
    assert kiln.__path__ == [str(KILN)]
    assert KILN.is_relative_to(REPOSITORY / "src") == IN_TREE
