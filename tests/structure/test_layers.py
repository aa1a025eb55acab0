"""Imports only go down, never in a circle, and only at the top of a file.

The layers, the order of rooms inside folders and the declared exceptions are in `pyproject.toml`,
section `tool.kiln.imports`.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from tests.structure.source_tree import KILN, Module, imports, modules, rules, write_tree

ENGINES, TOOLS = "engines", "tools"


def place(name: str, files: dict[str, Module], rules: dict[str, Any]) -> str:
    """Return the layer of a module: its first folder, or its own name next to the folders."""
    parts = name.split(".")[1:]
    if not parts:
        return "__init__"
    ranked = {layer for row in rules["layers"] for layer in row}
    if parts[0] in ranked or parts[0] in (ENGINES, TOOLS):
        return parts[0]
    is_folder = f"kiln.{parts[0]}" in files and files[f"kiln.{parts[0]}"].path.stem == "__init__"
    if is_folder:
        raise LookupError(f"{name}: folder {parts[0]!r} has no layer; declare it in pyproject.toml")
    return rules["surface"]


def _rank(layer: str, rules: dict[str, Any]) -> int:
    return next(rank for rank, row in enumerate(rules["layers"]) if layer in row)


def _engine(name: str) -> str:
    return ".".join(name.split(".")[:3])


def why_forbidden(source: str, target: str, files: dict[str, Module], rules: dict[str, Any]) -> str:
    """Say why a module of kiln may not import another, or return an empty string."""
    low, high = place(source, files, rules), place(target, files, rules)
    if high == ENGINES:
        same = low == ENGINES and _engine(source) == _engine(target)
        return "" if same or low == TOOLS else "only an engine's own files import it"
    if high == TOOLS:
        return "" if low in (TOOLS, *rules["tools"]["importers"]) else "nobody imports tools"
    if low == TOOLS:
        return ""
    if low == ENGINES:
        return "" if high in rules["engines"] else f"an engine may import {rules['engines']} only"
    if _rank(high, rules) > _rank(low, rules):
        return f"{high!r} is above {low!r}"
    return ""


def upward_imports(root: Path, rules: dict[str, Any]) -> list[str]:
    """Return every import that the layers forbid."""
    files = modules(root)
    found = []
    for module in files.values():
        for entry in imports(module, frozenset(files)):
            inside = entry.target == "kiln" or entry.target.startswith("kiln.")
            if not inside or entry.for_types:
                continue
            reason = why_forbidden(module.name, entry.target, files, rules)
            if reason:
                found.append(f"{module.relative}:{entry.line} imports {entry.target}: {reason}")
    return found


def room_of(name: str, folder: str, files: dict[str, Module], rows: list[list[str]]) -> str | None:
    """Return the room of a folder that a module is in: "" for the folder itself, None outside."""
    top = ".".join(("kiln", *folder.split("/")))
    if name == top:
        return ""
    if not name.startswith(top + "."):
        return None
    room = name[len(top) + 1 :].split(".")[0]
    if f"{top}.{room}" in files and not any(room in row for row in rows):
        raise LookupError(f"{folder}: {room!r} has no row; declare it in pyproject.toml")
    return room


def imports_against_the_rooms(root: Path, rules: dict[str, Any]) -> list[str]:
    """Return every import that the order of a folder's rooms forbids, those for types too."""
    files = modules(root)
    found = []
    for folder, rows in rules["rooms"].items():
        ranks = {room: rank for rank, row in enumerate([*rows, [""]]) for room in row}
        for module in files.values():
            low = room_of(module.name, folder, files, rows)
            for entry in imports(module, frozenset(files)) if low is not None else ():
                high = room_of(entry.target, folder, files, rows)
                if high is None or high == low or ranks[high] < ranks[low]:
                    continue
                how = "is beside" if ranks[high] == ranks[low] else "is above"
                found.append(
                    f"{module.relative}:{entry.line} imports {entry.target}: "
                    f"{high or folder!r} {how} {low!r}"
                )
    return found


def foreign_imports(root: Path, rules: dict[str, Any]) -> list[str]:
    """Return imports of banned packages, and of packages owned by another folder."""
    files = modules(root)
    found = []
    for module in files.values():
        for entry in imports(module, frozenset(files)):
            package = entry.target.split(".")[0]
            at = f"{module.relative}:{entry.line} imports {entry.target}"
            if package in rules["banned"]:
                found.append(f"{at}: kiln never imports {package}")
            owner = rules["owned"].get(package)
            if owner is not None and not module.relative.startswith(owner + "/"):
                found.append(f"{at}: only {owner} knows {package}")
    return found


def cycles(root: Path) -> list[list[str]]:
    """Return the import cycles at module level, each as the list of its modules."""
    files = modules(root)
    graph = {
        name: {
            entry.target
            for entry in imports(module, frozenset(files))
            if entry.target in files and not entry.in_function and not entry.for_types
        }
        for name, module in files.items()
    }
    found: list[list[str]] = []
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            found.append([*path[path.index(name) :], name])
        elif name not in done:
            for target in sorted(graph[name]):
                visit(target, [*path, name])
            done.add(name)

    for name in graph:
        visit(name, [])
    return found


def circles_for_types(root: Path) -> list[str]:
    """Return the imports for types alone that close a circle: what they import needs them."""
    files = modules(root)
    graph = {
        name: [e for e in imports(module, frozenset(files)) if e.target in files]
        for name, module in files.items()
    }

    def needs(name: str) -> set[str]:
        seen, stack = {name}, [name]
        while stack:
            fresh = {entry.target for entry in graph[stack.pop()]} - seen
            seen |= fresh
            stack += fresh
        return seen

    return [
        f"{files[name].relative} -> {files[entry.target].relative}"
        for name, entries in graph.items()
        for entry in entries
        if entry.for_types and name in needs(entry.target)
    ]


def late_imports(root: Path, rules: dict[str, Any]) -> list[str]:
    """Return imports inside functions and loading by name, outside the declared files."""
    files = modules(root)
    found = []
    for module in files.values():
        if module.relative not in rules["imports_in_functions"]:
            found += [
                f"{module.relative}:{entry.line} imports {entry.target} inside a function"
                for entry in imports(module, frozenset(files))
                if entry.in_function
            ]
        if module.relative not in rules["late_binding"]:
            found += [
                f"{module.relative}:{node.lineno} loads a module by name"
                for node in ast.walk(module.tree)
                if (isinstance(node, ast.Attribute) and node.attr == "import_module")
                or (isinstance(node, ast.Name) and node.id in ("import_module", "__import__"))
            ]
    return found


def test_imports_go_down() -> None:
    assert upward_imports(KILN, rules()) == []


def test_no_import_cycle() -> None:
    assert cycles(KILN) == []


def test_imports_between_rooms_go_down() -> None:
    assert imports_against_the_rooms(KILN, rules()) == []


def test_no_circle_is_hidden_by_imports_for_types() -> None:
    # What is mended leaves the list in pyproject.toml; nothing is added to it.
    assert circles_for_types(KILN) == rules()["circles_for_types"]


def test_no_late_import_outside_the_declared_files() -> None:
    assert late_imports(KILN, rules()) == []


def test_foreign_packages_stay_where_they_belong() -> None:
    assert foreign_imports(KILN, rules()) == []


def test_declared_exceptions_exist() -> None:
    declared = [*rules()["late_binding"], *rules()["imports_in_functions"]]
    assert [path for path in declared if not (KILN / path).exists()] == []
    for folder, rows in rules()["rooms"].items():
        rooms = [KILN / folder / room for row in rows for room in row]
        assert [r for r in rooms if not (r.is_dir() or r.with_suffix(".py").exists())] == []


# Self-checks: each rule above must be able to fail.


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("base/a.py", "from kiln.ir import types", "'ir' is above 'base'"),
        ("base/a.py", "import kiln", "'__init__' is above 'base'"),
        ("ops/a.py", "from ..transforms import jvp", "'transforms' is above 'ops'"),
        ("jit/a.py", "def f():\n    from kiln import numpy", "'numpy' is above 'jit'"),
        ("core/a.py", "from kiln import debug", "'api' is above 'core'"),
        ("numpy/a.py", "from kiln import stages", "'stages' is above 'numpy'"),
        ("numpy/a.py", "import kiln.linen.module", "'linen' is above 'numpy'"),
        ("jit/a.py", "import kiln.engines.xla.engine", "only an engine's own files"),
        ("engines/native/a.py", "import kiln.engines.xla.engine", "only an engine's own files"),
        ("engines/xla/a.py", "import kiln.transforms.jvp", "an engine may import"),
        ("jit/a.py", "from kiln.tools import dump", "nobody imports tools"),
    ],
)
def test_an_upward_import_is_found(tmp_path: Path, file: str, text: str, reason: str) -> None:
    names = ["ir/types", "transforms/jvp", "numpy/x", "linen/module", "engines/xla/engine"]
    good = {f"{name}.py": "" for name in [*names, "tools/dump", "debug", "stages"]}
    root = write_tree(tmp_path, {**good, file: text})
    (found,) = upward_imports(root, rules())
    assert reason in found
    assert file in found


def test_allowed_imports_pass(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path,
        {
            "base/tree/__init__.py": "",
            "ir/types.py": "from typing import TYPE_CHECKING\nfrom kiln.base import tree\n"
            "if TYPE_CHECKING:\n    from kiln.core.primitive import Primitive\n",
            "core/primitive.py": "from kiln.ir.types import ShapedArray",
            "control/loops/scan.py": "",
            "engines/xla/engine.py": "import jaxlib\nfrom kiln.control import scan\n"
            "from kiln.engines.xla import client",
            "engines/xla/runtime/client.py": "from jaxlib import _jax",
            "tools/dump.py": "import kiln\nimport kiln.engines.xla.engine",
            "__main__.py": "from kiln.tools import dump",
            "lax.py": "from kiln.numpy import x",
            "numpy/x.py": "from kiln.control import scan",
        },
    )
    assert upward_imports(root, rules()) == []
    assert foreign_imports(root, rules()) == []
    assert late_imports(root, rules()) == []
    assert cycles(root) == []


def test_a_folder_without_a_layer_is_refused(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path, {"attic/a.py": "from kiln.base import tree", "base/tree/__init__.py": ""}
    )
    with pytest.raises(LookupError, match="attic"):
        upward_imports(root, rules())


def test_a_cycle_is_found(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path,
        {
            "ops/a.py": "from kiln.ops import b",
            "ops/b.py": "from kiln.ops.c import x",
            "ops/c.py": "import kiln.ops.a",
        },
    )
    assert cycles(root) == [["kiln.ops.a", "kiln.ops.b", "kiln.ops.c", "kiln.ops.a"]]


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    import math",
        "class A:\n    async def f(self):\n        from math import sin",
        "import importlib\nm = importlib.import_module('math')",
        "from importlib import import_module\nm = import_module('math')",
        "m = __import__('math')",
    ],
)
def test_a_late_import_is_found(tmp_path: Path, text: str) -> None:
    assert late_imports(write_tree(tmp_path, {"core/a.py": text}), rules()) != []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("core/a.py", "import jax.numpy as jnp"),
        ("engines/xla/a.py", "from jax import core"),
        ("core/a.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import flax"),
        ("core/a.py", "import jaxlib"),
        ("engines/native/a.py", "from jaxlib import _jax"),
        ("engines/xla/a.py", "import llvmlite.binding"),
    ],
)
def test_a_foreign_import_is_found(tmp_path: Path, file: str, text: str) -> None:
    assert len(foreign_imports(write_tree(tmp_path, {file: text}), rules())) == 1


ROOMS = {"rooms": {"numpy": [["low"], ["left", "right"], ["door"]]}}
FOR_TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("low/a.py", "from kiln.numpy.left import b", "'left' is above 'low'"),
        ("low/a.py", FOR_TYPES + "from kiln.numpy.door import x", "'door' is above 'low'"),
        ("low/a.py", "def f():\n    import kiln.numpy.right.b", "'right' is above 'low'"),
        ("left/b.py", "from kiln.numpy.right.b import x", "'right' is beside 'left'"),
        ("left/b.py", "from kiln.numpy import door", "'door' is above 'left'"),
        ("door.py", "from kiln.numpy import array", "'numpy' is above 'door'"),
    ],
)
def test_an_import_against_the_rooms_is_found(
    tmp_path: Path, file: str, text: str, reason: str
) -> None:
    good = {
        "low/a.py": "x = 1",
        "low/c.py": "from kiln.numpy.low import a",
        "left/b.py": "from kiln.numpy.low import a",
        "right/b.py": "from kiln.base import tree",
        "door.py": "from kiln.numpy.left.b import a\nimport kiln.numpy.right.b",
        "__init__.py": "from kiln.numpy import door",
    }
    others = {"base/tree/__init__.py": "", "jit/call.py": "from kiln.numpy.low import a"}
    placed = {f"numpy/{name}": content for name, content in good.items()} | others
    assert imports_against_the_rooms(write_tree(tmp_path / "good", placed), ROOMS) == []
    root = write_tree(tmp_path / "bad", {**placed, f"numpy/{file}": text})
    (found,) = imports_against_the_rooms(root, ROOMS)
    assert found.startswith(f"numpy/{file}:")
    assert found.endswith(reason)


def test_a_room_without_a_row_is_refused(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"numpy/attic/a.py": "", "numpy/low/a.py": ""})
    with pytest.raises(LookupError, match="attic"):
        imports_against_the_rooms(root, ROOMS)


def test_a_circle_that_an_import_for_types_closes_is_found(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path,
        {
            "ops/a.py": FOR_TYPES + "from kiln.ops import c",
            "ops/b.py": "from kiln.ops.a import x\n" + FOR_TYPES + "from kiln.ops import d",
            "ops/c.py": "import kiln.ops.b",
            "ops/d.py": "",
        },
    )
    assert circles_for_types(root) == ["ops/a.py -> ops/c.py"]
