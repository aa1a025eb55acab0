"""The public names of jax and its public submodules: `python -m tests.differential.public_names`.

Asks jax, and writes `src/kiln/as_jax/public_names.json`, which the import door reads and
`tests/unit/as_jax/test_public_names.py` compares with kiln.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import json
import pkgutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import kiln

# `kiln.as_jax` itself would put kiln in the place of jax.
DATA = Path(kiln.__file__).parent / "as_jax" / "public_names.json"


def _modules(jax: ModuleType) -> dict[str, ModuleType]:
    found = {"jax": jax}

    def walk(package: ModuleType) -> None:
        for entry in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            parts = entry.name.split(".")
            if any(part.startswith("_") or part.endswith("_test") for part in parts[1:]):
                continue
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    module = importlib.import_module(entry.name)
            except (ImportError, RuntimeError, ValueError) as error:
                print(f"{entry.name} cannot be imported here: {str(error).splitlines()[0]}")
                found[entry.name] = ModuleType(entry.name)
                continue
            found[entry.name] = module
            if entry.ispkg:
                walk(module)

    walk(jax)
    return found


# Kernel languages and dialects, which kiln refuses module by module: their thousands of names are
# not listed.
_UNLISTED = ("jax.experimental.pallas.", "jax.experimental.mosaic.", "jax.extend.mlir.")


# What modules without a list of their names use themselves.
_THEIRS = {"map", "zip", "unsafe_map", "unsafe_zip", "ad", "batching", "pe", "jax", "lax", "pjit"}


def _names(module: ModuleType, modules: dict[str, ModuleType]) -> list[str]:
    if module.__name__.startswith(_UNLISTED):
        return []
    listed = getattr(module, "__all__", None)
    names = set(_exported(module) if listed is None else listed)
    if listed is None and module.__name__.startswith(("jax.experimental.", "jax.example_")):
        names -= _THEIRS
    names |= {n for n in vars(module) if f"{module.__name__}.{n}" in modules}
    deprecated: dict[str, Any] = vars(module).get("_deprecations", {})
    names |= {name for name, (_, value) in deprecated.items() if value is not None}
    return sorted(n for n in names if not n.startswith("_") and hasattr(module, n))


def _exported(module: ModuleType) -> Iterator[str]:
    """Yield what a module defines, and what it imports under a name that is said again."""
    if getattr(module, "__file__", None) is None:
        return
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.col_offset == 0:
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                if alias.name == "*":
                    yield from vars(module)
                elif alias.asname == alias.name:
                    yield alias.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.col_offset == 0:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for part in (part for target in targets for part in ast.walk(target)):
                if isinstance(part, ast.Name):
                    yield part.id


def main() -> None:
    """Ask jax and write the names."""
    warnings.simplefilter("ignore")
    modules = _modules(importlib.import_module("jax"))
    stored = {name: _names(module, modules) for name, module in sorted(modules.items())}
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(names)}" for name, names in stored.items())
    DATA.write_text("{\n" + text + "\n}\n", encoding="utf-8")
    print(f"{len(stored)} modules, {sum(map(len, stored.values()))} names")


if __name__ == "__main__":
    main()
