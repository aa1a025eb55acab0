"""What a test file did, read from the record that `recording.py` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

PASSED, SKIPPED, FAILED, DIED, HUNG, LOAD = (
    "passed",
    "skipped",
    "failed",
    "crashed",
    "hung",
    "not loaded",
)
_RANK = {PASSED: 0, SKIPPED: 1, FAILED: 2, DIED: 3, HUNG: 3}


@dataclass
class FileOutcome:
    """The tests of a file, or of many: how many there are, which were chosen, what they did."""

    collected: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    """How many tests each file has."""
    chosen: list[str] = field(default_factory=list)
    tests: dict[str, str] = field(default_factory=dict)
    """What each test that has ended did."""
    texts: dict[str, str] = field(default_factory=dict)
    """The error of each test that failed."""
    load: str = ""
    """Why the file could not be loaded; empty if it could."""
    unloaded: dict[str, str] = field(default_factory=dict)
    """If it was many files: why each could not be loaded that could not."""
    running: str = ""
    """The test that had started last and not ended."""

    def note(self, test: str, outcome: str, text: str = "") -> None:
        """Note what a test did; of several parts the worst counts."""
        if _RANK[outcome] >= _RANK[self.tests.get(test, PASSED)]:
            self.tests[test] = outcome
            if text:
                self.texts[test] = text
        if self.running == test:
            self.running = ""

    def passed(self) -> list[str]:
        """Return the tests that passed."""
        return [test for test, outcome in self.tests.items() if outcome == PASSED]


def read(lines: Iterable[str], known: FileOutcome | None = None) -> FileOutcome:
    """Return what a record says, added to what earlier runs of the file said.

    The last line of a process that was killed may be cut, and says nothing.
    """
    found = known or FileOutcome()
    for line in lines:
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        if "collected" in entry:
            found.collected = entry["collected"]
            found.sizes = entry.get("sizes", {})
            found.chosen = found.chosen or entry["chosen"]
        elif entry.get("file"):
            found.unloaded[entry["file"]] = entry["load"]
        elif "load" in entry:
            found.load = entry["load"]
        elif "start" in entry:
            found.running = entry["start"]
        elif "test" in entry:
            found.note(entry["test"], entry["outcome"], entry["text"])
    return found


_THREE_LINES = 3
_LONGEST = 160
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?(e[-+]?\d+)?")
_PLACES = re.compile(r" (at|in|called from) [^ ]+:\d+")


def reason(text: str) -> str:
    """Return the line of an error that says what is wrong, without numbers and places.

    An error of kiln has three lines, of which that is the second; of another error it is the first
    that is not empty.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "no text"
    kind = (
        lines[0].partition(":")[0]
        if re.match(r"[\w.]+(Error|Exception|Warning)\b", lines[0])
        else ""
    )
    line = lines[0]
    if len(lines) == _THREE_LINES and kind and "AssertionError" not in kind:
        line = f"{kind.rpartition('.')[2]}: {lines[1]}"
    return _NUMBERS.sub("N", _PLACES.sub("", line))[:_LONGEST]


def load_reason(text: str) -> str:
    """Return the last error in the report of a file that could not be loaded."""
    errors = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    return reason("\n".join(errors)) if errors else reason(text)


def grouped(outcome: FileOutcome, expected: Iterable[str]) -> dict[str, list[str]]:
    """Return the tests that should have passed and did not, by reason, the largest group first."""
    groups: dict[str, list[str]] = {}
    for test in expected:
        what = outcome.tests.get(test)
        if what == PASSED:
            continue
        load = outcome.load or outcome.unloaded.get(test.partition("::")[0], "")
        if load:
            why = f"{LOAD}: {load_reason(load)}"
        elif what is None:
            why = "the test is not there"
        elif what == FAILED:
            why = reason(outcome.texts.get(test, ""))
        else:
            why = what
        groups.setdefault(why, []).append(test)
    return dict(sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])))


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    file: str
    chosen: int
    on_jax: int
    on_kiln: int
    collected: int = 0
    """How many tests there are, of which some were chosen; 0: just these."""
    parts: tuple[Row, ...] = ()
    """If it is many files: the line of each."""

    @property
    def expected(self) -> float:
        """How many of all its tests pass on JAX, if those chosen are like the others."""
        if self.parts:
            return sum(part.expected for part in self.parts)
        return self.on_jax * (self.collected / self.chosen if self.collected else 1)

    @property
    def share(self) -> float:
        """Which share of what passes on JAX passes on kiln; 1 if nothing passes on JAX.

        Of many files, each counts by how many tests it has.
        """
        if self.parts:
            return weighed(self.parts)
        return self.on_kiln / self.on_jax if self.on_jax else 1.0


def weighed(rows: Sequence[Row]) -> float:
    """Return which share of what passes on JAX passes on kiln, of all rows together.

    Each counts by how many of all its tests pass on JAX; it is 1 if none do.
    """
    all_of_them = sum(row.expected for row in rows)
    if not all_of_them:
        return 1.0
    return sum(row.expected * row.share for row in rows) / all_of_them


def table(rows: Iterable[Row], head: str = "file") -> str:
    """Return the table of files (or what `head` says) as Markdown, with a line for all of them.

    In the last line, the share of all tests, and in that of a row with parts, files count by how
    many tests they have.
    """
    rows = list(rows)
    lines = [
        f"| {head} | has | tried | pass on JAX | of these on kiln | |",
        "|---|---|---|---|---|---|",
    ]
    whole = Row(
        "all",
        sum(row.chosen for row in rows),
        sum(row.on_jax for row in rows),
        sum(row.on_kiln for row in rows),
        sum(row.collected or row.chosen for row in rows),
    )
    for row in [*rows, whole]:
        share = f"{100 * row.share:.{1 if row.parts else 0}f} %" if row.on_jax else ""
        counts = row.collected or row.chosen, row.chosen, row.on_jax, row.on_kiln
        lines.append(f"| {row.file} | {' | '.join(map(str, counts))} | {share} |")
    if whole.on_jax:
        lines.append(f"| by numbers of tests | | | | | {100 * weighed(rows):.1f} % |")
    return "\n".join(lines)


def listing(groups: Mapping[str, Mapping[str, list[str]]], shown: int = 3) -> str:
    """Return what fails by file and reason as Markdown, with the first tests of each group."""
    lines = []
    for file, reasons in groups.items():
        if not reasons:
            continue
        lines.append(f"## {file}\n")
        for why, tests in reasons.items():
            named = ", ".join(f"`{test}`" for test in tests[:shown])
            more = f", and {len(tests) - shown} more" if len(tests) > shown else ""
            lines.append(f"- {len(tests)}: {why.replace('|', '/')}: {named}{more}")
        lines.append("")
    return "\n".join(lines)
