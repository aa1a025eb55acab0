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

MOST_USED = {
    "": """
        ShapeDtypeStruct block_until_ready checkpoint custom_vjp debug_nans device_put
        devices disable_jit enable_x64 eval_shape explain_fallbacks explain_recompiles grad
        hessian jacfwd jacrev jit jvp log_compiles make_jaxpr make_mesh new_ref
        process_index pure_callback reshard set_mesh typeof value_and_grad vjp vmap
    """,
    "lax": "cond dynamic_slice fori_loop scan stop_gradient while_loop",
    "linen": "BatchNorm Dense Dropout Module compact jit max_pool",
    "nn": "gelu log_softmax one_hot relu softmax tanh",
    "numpy": """
        abs add arange argmax array asarray clip concatenate cos cumsum diff exp eye full
        linspace log log1p maximum mean meshgrid minimum nonzero ones ones_like outer ravel
        roll sin sort sqrt stack sum take_along_axis tanh where zeros zeros_like
    """,
    "numpy.linalg": "cholesky inv norm solve",
    "random": "PRNGKey fold_in key normal permutation randint split uniform",
    "tree": "leaves map",
}
"""The hundred names that examples, documents and programs of libraries use most, by module."""

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


def test_the_most_used_names_have_two_examples() -> None:
    names = [(module, name) for module, text in MOST_USED.items() for name in text.split()]
    assert len(names) == 100
    short = []
    for module, name in names:
        value = getattr(importlib.import_module(f"kiln.{module}".rstrip(".")), name)
        example = doc(value).partition("Example:\n")[2]
        # Statements that print nothing only prepare an example.
        if sum(bool(each.want) for each in doctest.DocTestParser().get_examples(example)) < 2:
            short.append(f"{module}.{name}")
    assert not short
