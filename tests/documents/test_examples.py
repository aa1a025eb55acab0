"""The functions that users call show an example, and it prints what it says."""

from __future__ import annotations

import doctest
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, linen, nn, random
from website.names import MODULES, Name, public

LEAST = 0.95
"""The share of the public names of each of these modules whose docstring has an example."""
SHOWN = [
    *("", "numpy", "numpy.linalg", "numpy.fft", "lax", "lax.linalg", "random", "nn"),
    *("nn.initializers", "linen", *(name for name in MODULES if name.startswith("scipy."))),
]
# Others whose docstring must have an example, by module below `kiln`.
ALSO = {
    "tree_util": "tree_map tree_structure tree_unflatten tree_leaves tree_reduce",
    "tree": "all broadcast map leaves structure unflatten transpose",
}

# What an example may use without importing it.
KNOWN = {
    "kiln": kiln,
    "jnp": jnp,
    "lax": lax,
    "linen": linen,
    "nn": nn,
    "np": np,
    "random": random,
}


def distinct(module: str) -> Iterator[Name]:
    """Yield the public names of a module, one for each thing that they name."""
    seen: set[int] = set()
    for name in public(module):
        inner = id(inspect.unwrap(name.value))
        if inner not in seen:
            seen.add(inner)
            yield name


def doc(value: Any) -> str:
    """Return the docstring of what a wrapper wraps."""
    return inspect.getdoc(inspect.unwrap(value)) or ""


def has_example(text: str) -> bool:
    """Tell whether a docstring has an example that runs."""
    return ">>> " in text.partition("Example:\n")[2]


def failures(name: str, text: str) -> list[str]:
    """Run the examples of a docstring; return what went wrong, or that there is none."""
    example = text.partition("Example:\n")[2]
    test = doctest.DocTestParser().get_doctest(example, dict(KNOWN), name, None, None)
    if not test.examples:
        return [f"{name} has no example"]
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return said


def wrong(names: list[tuple[str, str]]) -> list[str]:
    """Run the examples of docstrings, given with their names; return what went wrong."""
    options = np.get_printoptions()
    try:
        return [line for name, text in names for line in failures(name, text)]
    finally:
        np.set_printoptions(**options)


@pytest.mark.parametrize("module", SHOWN)
def test_public_names_have_examples_that_hold(module: str) -> None:
    texts = [(name.dotted, doc(name.value)) for name in distinct(module)]
    with_example = [(name, text) for name, text in texts if has_example(text)]
    missing = [name for name, text in texts if not has_example(text)]
    assert len(with_example) >= LEAST * len(texts), missing
    found = wrong(with_example)
    assert not found, "\n".join(found)


def test_other_functions_have_examples_that_hold() -> None:
    texts = []
    for module, listed in ALSO.items():
        holder = importlib.import_module(f"kiln.{module}")
        texts += [(name, doc(getattr(holder, name))) for name in listed.split()]
    found = wrong(texts)
    assert not found, "\n".join(found)


def test_no_name_of_numpy_is_left_out() -> None:
    names = [name.name for name in public("numpy")]
    assert len(names) > 330
    assert {"sum", "einsum", "sort", "unique", "where", "ufunc", "fill_diagonal"} <= set(names)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Add.\n\nExample:\n    >>> 1 + 1\n    2\n", 0),
        ("Add.\n\nExample:\n    >>> 1 + 1\n    3\n", 1),
        ("Add.\n\nExample:\n    >>> 1 + one\n", 1),
        ("Add.", 1),
    ],
)
def test_a_wrong_example_is_found(text: str, count: int) -> None:
    assert len(failures("add", text)) == count
