"""The functions that higher files hand down to lower ones are those of `docs/hooks.md`."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.structure.source_tree import KILN, REPOSITORY, modules, rules, write_tree

ROW = re.compile(r"^\| `(set_\w+)` \| `([^`]+)` \| `([^`]+)` \| [^|]+ \| [^|]+ \|$", re.MULTILINE)
IN_EXTENSION = re.compile(r'\{"(set_\w+)", \w+, METH_')


class Hook(NamedTuple):
    """A function by which the file `set_by` hands something down to the file `called_in`."""

    name: str
    called_in: str
    set_by: str


def declared(text: str) -> list[Hook]:
    """Return the rows of the table."""
    return [Hook(*row) for row in ROW.findall(text)]


def owners(root: Path) -> dict[str, str]:
    """Return where each function called `set_...` is defined, in Python or in the extension."""
    found = {}
    for path in sorted(root.rglob("*.cc")):
        for name in IN_EXTENSION.findall(path.read_text(encoding="utf-8")):
            found[name] = path.relative_to(root).as_posix()
    for module in modules(root).values():
        for node in module.tree.body if module.path.suffix == ".py" else ():
            if isinstance(node, ast.FunctionDef) and node.name.startswith("set_"):
                found[node.name] = module.relative
    return found


def hooks(root: Path) -> list[Hook]:
    """Return the hooks that are set: all of the extension's, others while a file is imported."""
    found, defined = set(), owners(root)
    for module in modules(root).values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if isinstance(node.func.value, ast.Name) and node.func.value.id == "_runtime":
                    found.add((node.func.attr, module.relative))
        for statement in module.tree.body:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                called = statement.value.func
                name = called.attr if isinstance(called, ast.Attribute) else ast.unparse(called)
                found.add((name, module.relative))
    return sorted(
        Hook(name, defined[name], set_by)
        for name, set_by in found
        if name in defined and defined[name] != set_by
    )


TABLE = (REPOSITORY / "docs" / "hooks.md").read_text(encoding="utf-8")


@pytest.mark.tree
def test_the_table_has_all_hooks() -> None:
    assert sorted(declared(TABLE)) == hooks(KILN)


def test_each_row_of_the_table_is_read() -> None:
    assert len(declared(TABLE)) == len(re.findall(r"^\| `", TABLE, re.MULTILINE))


def test_what_is_handed_down_comes_from_a_higher_layer() -> None:
    ranks = {layer: rank for rank, row in enumerate(rules()["layers"]) for layer in row}
    ranks["engines"] = max(ranks[layer] for layer in rules()["engines"]) + 1
    for hook in declared(TABLE):
        low, high = (ranks[file.partition("/")[0]] for file in hook[1:])
        assert low < high, hook


def test_a_hook_that_nobody_lists_is_found(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path,
        {
            "core/a.py": "def set_thing(f): ...\ndef set_later(f): ...\n",
            "jit/b.py": (
                "from kiln import _runtime\nfrom kiln.core import a\na.set_thing(print)\n"
                "_runtime.set_other(len)\ndef later(): a.set_later(1); _runtime.set_other(sum)\n"
            ),
        },
    )
    (root / "_runtime").mkdir()
    (root / "_runtime" / "c.cc").write_text('{"set_other", set_other, METH_O, ""},', "utf-8")
    assert hooks(root) == [
        Hook("set_other", "_runtime/c.cc", "jit/b.py"),
        Hook("set_thing", "core/a.py", "jit/b.py"),
    ]
