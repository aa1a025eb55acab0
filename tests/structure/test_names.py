"""Files are named after what they hold, say what they do, and stay about one thing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from kiln import _runtime
from tests.structure.source_tree import KILN, modules, public_definitions, write_tree

EMPTY_NAMES = {"utils", "util", "helpers", "helper", "misc", "common", "impl", "stuff"}
# `scan2.py` is a replacement that did not delete its predecessor; `fold.py` is an honest name.
DATED_NAME = re.compile(r"2$|(^|_)(new|old)$")
# Names that users of such libraries already type.
GIVEN_NAMES = {
    "api_util.py",
    "extend/linear_util.py",
    "scipy/stats/chi2.py",
    "extend/source_info_util.py",
    "experimental/mesh_utils.py",
    "experimental/multihost_utils.py",
    "experimental/sparse/util.py",
    "flatten_util.py",
    "test_util.py",
    "traverse_util.py",
    "tree_util.py",
}
DEFINITIONS = (ast.FunctionDef, ast.ClassDef)
MOST_LINES = 500
# A file over the limit, and why it is nevertheless about one thing.
LONG_FILES = {"_runtime.pyi": "an extension has one stub, which lists its names"}


def badly_named(root: Path) -> list[str]:
    """Return files and folders whose name says nothing, or says that it is a second version."""
    found = []
    for path in sorted(root.rglob("*")):
        stem = path.stem.strip("_")
        if "__pycache__" in path.parts or not (path.is_dir() or path.suffix == ".py"):
            continue
        if path.relative_to(root).as_posix() in GIVEN_NAMES:
            continue
        if EMPTY_NAMES & set(stem.split("_")) or DATED_NAME.search(stem):
            found.append(path.relative_to(root).as_posix())
    return found


def undocumented(root: Path) -> list[str]:
    """Return modules, public functions and public classes without a docstring."""
    found = []
    for module in modules(root).values():
        if module.tree.body and ast.get_docstring(module.tree) is None:
            found.append(f"{module.relative}: the module")
        for name, node in public_definitions(module):
            # What a stub describes is documented where it is: in the extension.
            if module.path.suffix == ".pyi" or _is_overload(node):
                continue
            if not ast.get_docstring(node):
                found.append(f"{module.relative}:{node.lineno} {name}")
    return found


def _is_overload(node: ast.AST) -> bool:
    return any(
        isinstance(decorator, ast.Name) and decorator.id == "overload"
        for decorator in getattr(node, "decorator_list", [])
    )


def is_list_of_names(tree: ast.Module) -> bool:
    """Tell whether a module only says where names come from.

    It consists of a docstring, imports (also `if TYPE_CHECKING:`), and assignments to names such as
    `__all__`, `__version__`, `__getattr__`.
    """
    body = tree.body[1:] if ast.get_docstring(tree) is not None else tree.body
    return all(_names_something(statement) for statement in body)


def _names_something(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.If):
        only_types = isinstance(statement.test, ast.Name) and (
            statement.test.id.lstrip("_") == "TYPE_CHECKING"
        )
        return only_types and all(map(_names_something, (*statement.body, *statement.orelse)))
    if isinstance(statement, ast.Assign):
        stored = (n for target in statement.targets for n in ast.walk(target))
        names = [n.id for n in stored if isinstance(n, ast.Name)]
        return bool(names) and all(re.fullmatch(r"__\w+__", name) for name in names)
    return isinstance(statement, (ast.Import, ast.ImportFrom))


def too_long(root: Path, allowed: dict[str, str]) -> list[str]:
    """Return files over the limit without a reason, and reasons nobody needs any more.

    Lists of public names may be of any length.
    """
    lengths = {
        module.relative: len(module.path.read_text(encoding="utf-8").splitlines())
        for module in modules(root).values()
        if not is_list_of_names(module.tree)
    }
    found = [
        f"{path} has {count} lines"
        for path, count in lengths.items()
        if count > MOST_LINES and path not in allowed
    ]
    return found + [
        f"{path} needs no exception" for path in allowed if lengths.get(path, 0) <= MOST_LINES
    ]


def test_names_say_something() -> None:
    assert badly_named(KILN) == []


def test_public_names_have_docstrings() -> None:
    assert undocumented(KILN) == []


def test_the_extension_documents_what_its_stub_lists() -> None:
    stub = modules(KILN)["kiln._runtime"]
    names = [node.name for node in stub.tree.body if isinstance(node, DEFINITIONS)]
    assert len(names) > 5
    assert [name for name in names if not getattr(_runtime, name).__doc__] == []


def test_files_stay_short() -> None:
    assert too_long(KILN, LONG_FILES) == []


def test_the_package_is_typed() -> None:
    assert (KILN / "py.typed").exists()


@pytest.mark.parametrize(
    "file",
    ["ops/utils.py", "ops/shape_helpers.py", "misc/a.py", "jit/scan2.py", "jit/call_new.py"],
)
def test_a_bad_name_is_found(tmp_path: Path, file: str) -> None:
    root = write_tree(tmp_path, {file: "", "ops/fold.py": "", "ops/renew.py": ""})
    assert len(badly_named(root)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        '"""Doc."""\ndef f():\n    return 1',
        '"""Doc."""\nclass A:\n    x = 1',
        '"""Doc."""\nasync def f():\n    return 1',
    ],
)
def test_a_missing_docstring_is_found(tmp_path: Path, text: str) -> None:
    assert len(undocumented(write_tree(tmp_path, {"ops/shape.py": text}))) == 1


def test_a_private_name_needs_no_docstring(tmp_path: Path) -> None:
    text = '"""Doc."""\ndef _f():\n    return 1'
    assert undocumented(write_tree(tmp_path, {"ops/shape.py": text})) == []


NAMES = (
    '"""Doc."""\nfrom typing import TYPE_CHECKING as _TYPE_CHECKING\nfrom a import (\n    b,\n)\n'
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '__all__ = ["b"]',
        "from a import c as c\nfrom a import d as d",
        "if _TYPE_CHECKING:\n    from kiln import c",
        '__getattr__, __dir__ = b("c")\n__version__ = "1"',
    ],
)
def test_a_list_of_names_may_be_long(tmp_path: Path, text: str) -> None:
    root = write_tree(tmp_path, {"ops/names.py": NAMES + text + "\n" * MOST_LINES})
    assert too_long(root, {}) == []


@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        "__all__ = x = []",
        "def f(): pass",
        "class A: pass",
        "if b:\n    import c",
        "b()",
        "b.__all__ = []",
        "__all__ += b.__all__",
    ],
)
def test_what_is_more_than_a_list_of_names_may_not(tmp_path: Path, text: str) -> None:
    root = write_tree(tmp_path, {"ops/names.py": NAMES + text + "\n" * MOST_LINES})
    assert len(too_long(root, {})) == 1


def test_a_long_file_is_found(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"ops/long.py": "x = 1\n" * (MOST_LINES + 1), "ops/a.py": "x = 1"})
    assert too_long(root, {}) == [f"ops/long.py has {MOST_LINES + 1} lines"]
    assert too_long(root, {"ops/long.py": "a table"}) == []
    assert too_long(root, {"ops/long.py": "a table", "ops/a.py": "?"}) != []
