"""Reads a tree of Python files as data: modules, their imports, their lines of code.

Nothing is imported and nothing is run, so a tree with a mistake in it can be judged as well. The
tests beside this file judge `src/kiln`, and synthetic bad trees to show that they can fail.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib.util
import io
import tokenize
import tomllib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = "kiln"
IN_TREE = (REPOSITORY / "src" / PACKAGE).is_dir()
"""Whether the sources are there: `make check-wheel` runs the tests without them."""


def _package() -> Path:
    """Return the folder of the package: that of the source tree, or else the installed one."""
    if IN_TREE:
        return REPOSITORY / "src" / PACKAGE
    found = importlib.util.find_spec(PACKAGE)
    assert found is not None and found.origin is not None
    return Path(found.origin).parent


KILN = _package()


@dataclasses.dataclass(frozen=True)
class Import:
    """One imported module: where it is written and in what circumstances."""

    line: int
    target: str
    in_function: bool
    for_types: bool


@dataclasses.dataclass(frozen=True)
class Module:
    """One file of the tree."""

    root: Path
    path: Path

    @cached_property
    def relative(self) -> str:
        """The path below the package, `core/arrays/array.py`."""
        return self.path.relative_to(self.root).as_posix()

    @cached_property
    def name(self) -> str:
        """The dotted name, `kiln.core.arrays.array`; a package has the name of its folder."""
        parts = self.path.relative_to(self.root).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        return ".".join((PACKAGE, *parts))

    @cached_property
    def text(self) -> str:
        """The file as it is written."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file."""
        return ast.parse(self.text, filename=str(self.path))


@functools.lru_cache
def modules(root: Path = KILN) -> dict[str, Module]:
    """Return every module below `root` by its dotted name; the extension as its stub says."""
    found = (Module(root, path) for path in sorted([*root.rglob("*.py"), *root.rglob("*.pyi")]))
    return {module.name: module for module in found}


@functools.cache
def imports(module: Module, known: frozenset[str]) -> list[Import]:
    """Return what a module imports, as names of modules.

    `from kiln.base import dtypes` is an import of `kiln.base.dtypes` where that is a module of
    `known`, and of `kiln.base` where it is not.
    """
    found: list[Import] = []

    def visit(node: ast.AST, in_function: bool, for_types: bool) -> None:
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module)
            for alias in node.names:
                full = f"{base}.{alias.name}"
                targets.append(full if full in known else base)
        found.extend(Import(node.lineno, t, in_function, for_types) for t in dict.fromkeys(targets))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            in_function = True
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            for child in node.body:
                visit(child, in_function, True)
            for child in node.orelse:
                visit(child, in_function, for_types)
            return
        for child in ast.iter_child_nodes(node):
            visit(child, in_function, for_types)

    visit(module.tree, False, False)
    return found


def _absolute(node: ast.ImportFrom, module: Module) -> str:
    if node.level == 0:
        return node.module or ""
    parts = module.name.split(".")
    if module.path.name != "__init__.py":
        parts = parts[:-1]
    parts = parts[: len(parts) - (node.level - 1)]
    return ".".join([*parts, *([node.module] if node.module else [])])


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def code_lines(module: Module) -> int:
    """Count the lines that hold code: no blank lines, comments or docstrings."""
    silent = (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    )
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        if token.type not in silent:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, str) and node.end_lineno is not None:
                lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return len(lines)


def public_definitions(module: Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the public functions and classes at the top of a module."""
    for node in module.tree.body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if node.name.startswith("_"):
            continue
        yield node.name, node


def rules(about: str = "imports") -> dict[str, Any]:
    """Return the rules that `pyproject.toml` declares: about imports, or about folders."""
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["tool"]["kiln"][about]


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """Write a synthetic tree for a test's self-check and return its root."""
    for relative, text in files.items():
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        for folder in path.relative_to(root).parents:
            (root / folder / "__init__.py").touch()
    return root
