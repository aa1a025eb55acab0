"""Finds phrases for which this project has another term: `python -m tests.structure.words`.

`words.toml` lists the phrases. Documents and sources are read as text, code included: the phrases
are such that no code has them.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
TABLE = HERE / "words.toml"
FOLDERS = ("src", "docs", "tests", "benchmarks", "examples", "website")
ENDINGS = {".py", ".pyi", ".cc", ".h", ".md", ".txt"}
LEFT_OUT = {
    "CHANGELOG.md": "history is not written again",
    "docs/style.md": "quotes the phrases",
    "examples/data/alice.txt": "is a novel",
    "tests/structure/test_words.py": "quotes the phrases",
    "tests/differential/test_corners.py": "answers are stored under the names of its groups",
    "tests/differential/test_linen_saving.py": "answers are stored under the names of its groups",
    "tests/differential/test_transforms.py": "answers are stored under the names of its groups",
}
_ONLY_WORDS = {n: " " for n in range(128) if not chr(n).isalpha()}
BLANK = r"(?:[ \t]*\n[ \t]*(?://+|\#+)?[ \t]*|[ \t]+)"


class Term(NamedTuple):
    """A row of the table."""

    phrase: re.Pattern[str]
    having: frozenset[str]
    """Every text with the phrase has one of these words: looking for them is faster."""
    write: str
    examples: list[str]


class Finding(NamedTuple):
    """A phrase in a text."""

    line: int
    phrase: str
    write: str


def terms(table: Path = TABLE) -> list[Term]:
    """Return the rows of the table."""
    return [
        Term(_pattern(row["phrase"]), frozenset(row["having"]), row["write"], row["examples"])
        for row in tomllib.loads(table.read_text(encoding="utf-8"))["words"]
    ]


def _pattern(phrase: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{phrase.replace(' ', BLANK)})\b", re.IGNORECASE)


def find(text: str, table: Iterable[Term]) -> list[Finding]:
    """Return the phrases in a text, in the order of its lines."""
    found, words = [], set(text.lower().translate(_ONLY_WORDS).split())
    for term in table:
        if term.having.isdisjoint(words):
            continue
        for match in term.phrase.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Finding(line, _on_one_line(match[0]), term.write))
    return sorted(found)


def _on_one_line(text: str) -> str:
    return re.sub(BLANK, " ", text).strip()


def files(root: Path) -> Iterator[Path]:
    """Iterate over the sources and documents of a repository."""
    below = (path for folder in FOLDERS for path in sorted((root / folder).rglob("*")))
    for path in (*sorted(root.glob("*.md")), *below):
        if path.suffix in ENDINGS and path.relative_to(root).as_posix() not in LEFT_OUT:
            yield path


def main(root: Path = REPOSITORY) -> int:
    """Print what was found under a root; return 1 if anything was."""
    table, is_clean = terms(), True
    for path in files(root):
        for line, phrase, write in find(path.read_text(encoding="utf-8"), table):
            print(f'{path.relative_to(root)}:{line}: "{phrase}"; write: {write}')
            is_clean = False
    return int(not is_clean)


if __name__ == "__main__":
    sys.exit(main())
