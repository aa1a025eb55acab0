"""Every numbered item of the behavior contract has a test that carries its number."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from tests.contract.items import ITEMS
from tests.structure.source_tree import REPOSITORY

# Items without a test yet, and what they wait for. An item with a test has to leave.
PENDING: dict[str, str] = {}


def marked(folder: Path) -> set[str]:
    """Return the items that the tests of a folder say they hold."""
    found: set[str] = set()
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "@contract(" in text else ():
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "contract":
                    found.update(ast.literal_eval(argument) for argument in mark.args)
    return found


def complaints(items: Iterable[str], held: set[str], pending: Iterable[str]) -> list[str]:
    """Return items without a test, tests of no item, and exceptions nobody needs any more."""
    items, pending = set(items), set(pending)
    found = [f"{item} has no test" for item in items - held - pending]
    found += [f"there is no item {item}" for item in (held | pending) - items]
    found += [f"{item} has a test, so it is not pending" for item in pending & held]
    return sorted(found)


def test_every_item_has_a_test() -> None:
    assert complaints(ITEMS, marked(REPOSITORY / "tests"), PENDING) == []


def test_a_missing_test_is_found(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        '@contract("1.1", "1.2")\ndef test_a(): ...\n\n@contract("9.9")\ndef test_b(): ...\n'
    )
    held = marked(tmp_path)
    assert held == {"1.1", "1.2", "9.9"}
    assert complaints(["1.1", "1.2", "1.3", "1.4"], held, ["1.2", "1.4"]) == [
        "1.2 has a test, so it is not pending",
        "1.3 has no test",
        "there is no item 9.9",
    ]
