"""Prose has one term for one thing: `words.toml` is a table of phrases, and no file has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.structure import words
from tests.structure.source_tree import REPOSITORY, write_tree

TERMS = words.terms()


def test_no_file_has_such_a_phrase(capsys: pytest.CaptureFixture[str]) -> None:
    status = words.main()
    assert (status, capsys.readouterr().out) == (0, "")


def test_what_is_left_out_is_there() -> None:
    assert [path for path in words.LEFT_OUT if not (REPOSITORY / path).exists()] == []


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.write)
def test_the_examples_of_a_phrase_are_found(term: words.Term) -> None:
    assert term.examples
    for example in term.examples:
        (found,) = words.find(f"Of old, {example}, it was said.", [term])
        assert (found.line, found.write) == (1, term.write)
        assert found.phrase in example


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.write)
def test_a_phrase_is_found_across_lines_of_comments(term: words.Term) -> None:
    for example in term.examples:
        head, tail = example.rsplit(" ", 1)
        for text in (f"x = 1\n# {head}\n#  {tail}\n", f"int x;\n  // {head}\n  // {tail}\n"):
            assert [found.write for found in words.find(text, [term])] == [term.write]


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.write)
def test_the_page_of_style_has_the_term(term: words.Term) -> None:
    page = (REPOSITORY / "docs" / "style.md").read_text(encoding="utf-8")
    column = [line.split("|")[1] for line in page.splitlines() if line.startswith("|")]
    for word in term.write.split(", "):
        assert any(word in cell for cell in column), word


@pytest.mark.parametrize(
    "text",
    [
        "it turns out that each in turn takes a turn, by turns",
        "an eighth of a turn; turn on the option, which turns jaxprs into jaxprs",
        "return each turn of the client's crank",
        "operands return; it returns operands",
        "it takes a step from the first row; the first cached memory, the second cached result",
        "there is no array; which array is no longer needed; an array is not a number",
        "so many of them; there are so few elements that a loop costs more",
        "the own loop of a node; the lock of the table; the processor that the host has",
        "he pauses and computes; again it lies about the lies",
        "a mask of lanes; the rest of the loops; for a while, the thread waits",
    ],
)
def test_ordinary_english_is_left_alone(text: str) -> None:
    assert words.find(text, TERMS) == []


def test_a_finding_says_where_it_is_and_what_to_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_tree(tmp_path, {"src/kiln/a.cc": "// fine\n// in the second\n// cache\n"})
    (root / "docs").mkdir()
    (root / "docs" / "a.md").write_text("one\n\nturns of\na loop\n", encoding="utf-8")
    (root / "docs" / "style.md").write_text("turns of a loop\n", encoding="utf-8")
    assert words.main(root) == 1
    assert capsys.readouterr().out.splitlines() == [
        'src/kiln/a.cc:2: "second cache"; write: L2 cache',
        'docs/a.md:3: "turns of a loop"; write: iteration',
    ]
