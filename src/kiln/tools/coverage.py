"""The table of primitives, with the rules they have and the engines that run them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping
from typing import Any

import kiln.control
import kiln.ops
from kiln.core.primitive import Primitive
from kiln.engines.native.lowerings import LOWERINGS as NATIVE
from kiln.engines.xla.lowerings import LOWERINGS as XLA

ENGINES: dict[str, Mapping[Any, object]] = {"native": NATIVE, "xla": XLA}
"""The compilers, with the primitives that they have lowerings of."""
RULES = ("infer", "numpy", "jvp", "transpose", "batch", "expand")


def primitives() -> dict[str, list[Primitive]]:
    """Return the primitives of each family, by the path of its file."""
    families: dict[str, list[Primitive]] = {}
    seen: set[int] = set()
    for package in (kiln.ops, kiln.control):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = importlib.import_module(found.name)
            source = inspect.getsource(module)
            for name, value in vars(module).items():
                if not isinstance(value, Primitive) or id(value) in seen:
                    continue
                # Other files import it; its family is the file that defines it.
                if re.search(rf"^(\w+, )*{name}\b[^\n(]*=", source, re.MULTILINE):
                    seen.add(id(value))
                    families.setdefault(_path(found.name), []).append(value)
    return families


def _path(module: str) -> str:
    """Return the path of a module in kiln's folder, without its ending."""
    return module.removeprefix("kiln.").replace(".", "/")


def rules_of(primitive: Primitive) -> dict[str, bool]:
    """Return which rules a primitive has, and which compilers know it."""
    found = {rule: _has(primitive, rule) for rule in RULES}
    for name, lowerings in ENGINES.items():
        found[name] = primitive in lowerings or found["expand"]
    return found


def _has(primitive: Primitive, rule: str) -> bool:
    if rule == "batch" and primitive.has("batch_over"):
        return True
    return primitive.has(rule)


def table() -> Iterator[str]:
    """Yield the lines of a markdown table of all primitives."""
    columns = [*RULES, *ENGINES]
    yield "| family | primitive | " + " | ".join(columns) + " |"
    yield "|---|---|" + "---|" * len(columns)
    for family, members in sorted(primitives().items()):
        for primitive in members:
            rules = rules_of(primitive)
            cells = " | ".join("x" if rules[c] else "" for c in columns)
            yield f"| {family} | `{primitive.name}` | {cells} |"
