"""What editors are told about arrays is what arrays have."""

from __future__ import annotations

import ast
import inspect
import typing
from pathlib import Path
from typing import Any

import kiln
import kiln.numpy as jnp
from kiln.core import array_type
from kiln.core.operators import operators

SOURCE = Path(array_type.__file__)
# Attributes of arrays that are not part of the contract.
UNDECLARED = {
    "addressable_data",
    "aval",
    "dtype",
    "global_shards",
    "itemsize",
    "nbytes",
    "ndim",
    "on_device_size_in_bytes",
    "shape",
    "size",
    "unsafe_buffer_pointer",
    "weak_type",
}


def declared() -> dict[str, ast.FunctionDef]:
    """Return the methods and properties that `Array` declares for type checkers."""
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    (array,) = (x for x in tree.body if isinstance(x, ast.ClassDef) and x.name == "Array")
    (block,) = (x for x in array.body if isinstance(x, ast.If))
    return {x.name: x for x in block.body if isinstance(x, ast.FunctionDef)}


def test_declared_attributes_exist_and_existing_ones_are_declared() -> None:
    x = jnp.ones((2, 3))
    public = {name for name in dir(x) if not name.startswith("_")}
    assert [name for name in declared() if not hasattr(type(x), name)] == []
    assert public - set(declared()) == UNDECLARED


def test_declared_parameters_are_those_of_the_functions_behind() -> None:
    wrong = []
    for name, node in declared().items():
        if name not in operators or node.decorator_list or name.startswith("__"):
            continue
        function = inspect.unwrap(operators[name])
        known = inspect.signature(function).parameters
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        takes_more = any(p.kind is p.VAR_KEYWORD for p in known.values())
        wrong += [f"{name}({a})" for a in names[1:] if a not in known and not takes_more]
    assert wrong == []


def test_updates_are_declared_as_they_are() -> None:
    part = jnp.ones(3).at[0]
    declared = {
        name
        for name in (*array_type.PartUpdates.__annotations__, "get", "apply")
        if not name.startswith("_")
    }
    assert {name for name in dir(part) if not name.startswith("_")} - declared == {"array", "index"}
    assert [name for name in declared if not hasattr(part, name)] == []


def test_annotations_of_public_functions_resolve() -> None:
    def check(value: Any) -> Any:
        return typing.get_type_hints(inspect.unwrap(value))

    assert check(jnp.sin)["return"] is kiln.Array
    assert check(kiln.random.normal)["return"] is kiln.Array
    for module in (jnp, jnp.linalg, jnp.fft, kiln.lax, kiln.random, kiln.nn):
        for name in dir(module):
            value = getattr(module, name)
            if not name.startswith("_") and inspect.isfunction(inspect.unwrap(value)):
                if str(getattr(value, "__module__", "")).startswith("kiln"):
                    check(value)
