"""The report of a run: a table, and what fails by its reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.libraries.jax_tests.outcomes import FileOutcome, Row, grouped, listing, table
from tests.libraries.jax_tests.recording import file_of


class Report:
    """A folder with what was found, written again after each part.

    `head` says what a line of the table is about.
    """

    def __init__(self, folder: Path, head: str = "file") -> None:
        self.folder = folder
        self.head = head
        self.rows: list[Row] = []
        self.groups: dict[str, dict[str, list[str]]] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, name: str, stored: Mapping[str, Any], found: FileOutcome) -> Row:
        """Add what was found beside the stored answers of jax; return its line of the table."""
        expected = stored["passed"]
        groups = grouped(found, expected)
        failing = sum(len(tests) for tests in groups.values())
        passing = len(expected) - failing
        row = Row(
            name,
            stored["chosen"],
            len(expected),
            passing,
            stored.get("collected", 0),
            _parts(stored, [test for tests in groups.values() for test in tests]),
        )
        self.rows.append(row)
        self.groups[name] = groups
        (self.folder / f"{name.replace('/', '-')}.json").write_text(
            json.dumps(asdict(found)), encoding="utf-8"
        )
        text = f"{table(self.rows, self.head)}\n\n{listing(self.groups)}"
        (self.folder / "report.md").write_text(text, encoding="utf-8")
        print(f"{name}: {row.on_kiln} of {row.on_jax} on kiln", flush=True)
        return row


def _parts(stored: Mapping[str, Any], failing: Sequence[str]) -> tuple[Row, ...]:
    """Return the row of each file, if the stored answers are those of many."""
    on_jax = Counter(map(file_of, stored["passed"]))
    failed = Counter(map(file_of, failing))
    return tuple(
        Row(file, sizes["chosen"], on_jax[file], on_jax[file] - failed[file], sizes["collected"])
        for file, sizes in stored.get("files", {}).items()
    )
