"""The report of a run: a table, and what fails by its reason."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.libraries.jax_tests.outcomes import FileOutcome, Row, grouped, listing, table


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
        row = Row(name, stored["chosen"], len(expected), passing, stored.get("collected", 0))
        self.rows.append(row)
        self.groups[name] = groups
        (self.folder / f"{name.replace('/', '-')}.json").write_text(
            json.dumps(asdict(found)), encoding="utf-8"
        )
        text = f"{table(self.rows, self.head)}\n\n{listing(self.groups)}"
        (self.folder / "report.md").write_text(text, encoding="utf-8")
        print(f"{name}: {row.on_kiln} of {row.on_jax} on kiln", flush=True)
        return row
