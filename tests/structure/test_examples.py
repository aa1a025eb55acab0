"""The functions that users meet first show an example, and it prints what it says."""

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

# By module below `kiln`.
SHOWN = {
    "": """
        jit grad value_and_grad vmap jvp vjp linearize jacfwd jacrev hessian checkpoint
        make_jaxpr eval_shape device_put device_get block_until_ready custom_jvp
        custom_vjp disable_jit
    """,
    "lax": """
        scan cond while_loop fori_loop switch map associative_scan dynamic_slice
        dynamic_update_slice conv_general_dilated dot_general top_k select stop_gradient
        psum
    """,
    "numpy": """
        array asarray zeros ones full zeros_like arange linspace eye meshgrid einsum where
        concatenate stack split reshape ravel transpose squeeze expand_dims broadcast_to
        sum prod mean std var max min argmax argmin all any cumsum dot matmul tensordot
        outer sort argsort searchsorted take take_along_axis clip pad tile repeat unique
        nonzero maximum roll flip moveaxis round allclose vectorize
    """,
    "numpy.linalg": """
        norm solve
    """,
    "numpy.fft": """
        fft
    """,
    "random": """
        key split fold_in normal uniform randint bernoulli categorical permutation choice
    """,
    "nn": """
        relu gelu silu softmax log_softmax logsumexp one_hot sigmoid softplus
    """,
    "linen": """
        Module Dense Conv BatchNorm LayerNorm Dropout Embed Sequential compact jit scan
        remat
    """,
    "tree_util": """
        tree_map tree_structure tree_unflatten tree_leaves tree_reduce
    """,
}
"""Names whose docstring must have an example."""

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


def names() -> Iterator[tuple[str, Any]]:
    """Yield the names and what they name."""
    for module, listed in SHOWN.items():
        holder = importlib.import_module(f"kiln.{module}".rstrip("."))
        for name in listed.split():
            yield f"{holder.__name__}.{name}", inspect.unwrap(getattr(holder, name))


def failures(name: str, text: str) -> list[str]:
    """Run the examples of a docstring; return what went wrong, or that there is none."""
    example = text.partition("Example:\n")[2]
    test = doctest.DocTestParser().get_doctest(example, dict(KNOWN), name, None, None)
    if not test.examples:
        return [f"{name} has no example"]
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return said


def test_a_hundred_functions_have_examples_that_hold() -> None:
    found = list(names())
    assert len({name for name, _ in found}) == len(found) >= 100
    options = np.get_printoptions()
    try:
        wrong = [
            line for name, value in found for line in failures(name, inspect.getdoc(value) or "")
        ]
    finally:
        np.set_printoptions(**options)
    assert not wrong, "\n".join(wrong)


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
