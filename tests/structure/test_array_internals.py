"""Only `core/arrays/array.py` knows how a concrete array keeps its data.

The private names are read from the fields of `ArrayData` in the stub of the extension, so the test
follows the code.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.structure.source_tree import KILN, Module, modules, write_tree

HOME, STUB, CLASS = "core/arrays/array.py", "_runtime.pyi", "ArrayData"
BY_NAME = ("getattr", "setattr", "hasattr", "delattr", "attrgetter", "__setattr__")


def private_slots(root: Path) -> frozenset[str]:
    """Return the fields of a concrete array that start with one underscore."""
    tree = ast.parse((root / STUB).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == CLASS:
            slots = _own_names(node)
            return frozenset(s for s in slots if s.startswith("_") and not s.startswith("__"))
    raise LookupError(f"{STUB} has no class {CLASS}")


def _own_names(node: ast.ClassDef) -> set[str]:
    """Return the attributes that a class declares for itself: slots and annotations."""
    found: set[str] = set()
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            found.add(statement.target.id)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            if statement.targets[0].id == "__slots__":
                found.update(ast.literal_eval(statement.value))
    return found


def touches(module: Module, slots: frozenset[str]) -> list[str]:
    """Return the places where a module reaches for a private slot of an array.

    A class that declares an attribute of the same name may use its own through `self`.
    """
    found: list[str] = []

    def visit(node: ast.AST, own: set[str]) -> None:
        if isinstance(node, ast.ClassDef):
            own = own | _own_names(node)
        if isinstance(node, ast.Attribute) and node.attr in slots:
            through_self = isinstance(node.value, ast.Name) and node.value.id == "self"
            if not (through_self and node.attr in own):
                found.append(f"{module.relative}:{node.lineno} touches .{node.attr}")
        if isinstance(node, ast.Call) and _called(node) in BY_NAME:
            found.extend(
                f"{module.relative}:{node.lineno} touches {argument.value!r} by name"
                for argument in node.args
                if isinstance(argument, ast.Constant) and argument.value in slots
            )
        for child in ast.iter_child_nodes(node):
            visit(child, own)

    visit(module.tree, set())
    return found


def _called(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def all_touches(root: Path) -> list[str]:
    """Return the touches of every module but the array's own."""
    slots = private_slots(root)
    others = [module for module in modules(root).values() if module.relative not in (HOME, STUB)]
    # Parsing takes time: most files do not have the names.
    naming = [module for module in others if any(slot in module.text for slot in slots)]
    return [line for module in naming for line in touches(module, slots)]


def test_the_array_has_private_slots() -> None:
    assert private_slots(KILN)


def test_nobody_touches_an_arrays_internals() -> None:
    assert all_touches(KILN) == []


ARRAY = f"class {CLASS}:\n    _buffer: object\n    aval: object\n"


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return x._buffer",
        "def f(x):\n    x._buffer = None",
        "class A:\n    def f(self):\n        return self._buffer",
        "class A:\n    __slots__ = ('_buffer',)\n    def f(self, x):\n        return x._buffer",
        "def f(x):\n    return getattr(x, '_buffer', None)",
        "import operator\nf = operator.attrgetter('_buffer')",
        "def f(x):\n    object.__setattr__(x, '_buffer', 1)",
    ],
)
def test_a_touch_is_found(tmp_path: Path, text: str) -> None:
    assert len(all_touches(write_tree(tmp_path, {STUB: ARRAY, "jit/function.py": text}))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return x.aval",
        "class A:\n    __slots__ = ('_buffer',)\n    def f(self):\n        return self._buffer",
        "_buffer = 3\nprint(_buffer)",
    ],
)
def test_innocent_code_passes(tmp_path: Path, text: str) -> None:
    assert all_touches(write_tree(tmp_path, {STUB: ARRAY, "jit/function.py": text})) == []


def test_a_missing_class_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match=CLASS):
        private_slots(write_tree(tmp_path, {STUB: "class Other:\n    pass\n"}))
