"""Whole programs as functions of one number, to be exported; and jax's part in the round trips.

`python -m tests.programs.exported FOLDER` runs with jax alone: it calls what `NAME.kiln` stores,
and stores the programs of jax as `NAME.jax`; numbers go to `NAME.npz`.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.programs import networks, numerics
from tests.programs.models import MODELS
from tests.programs.registry import data

# Programs that compute with their data in NumPy: their results are scaled instead.
ON_HOST = ("adam_training", "implicit_differentiation")
NOT_REVERSIBLE = ("conjugate_gradients",)
"""Programs with loops of unknown length, which have no reverse derivative."""
NOT_JITTED_BY_JAX = ("implicit_differentiation",)
"""Programs with constants of NumPy where jax 0.10 refuses them inside a jitted function."""
ONE = np.float32(1.0)
STACK = np.array([1.0, 0.75], np.float32)


@contextlib.contextmanager
def _scaled_data(x: Any) -> Iterator[None]:
    def scaled(*args: Any, **kwargs: Any) -> Any:
        return x * data(*args, **kwargs)

    networks.data = numerics.data = scaled  # type: ignore[assignment]
    try:
        yield
    finally:
        networks.data = numerics.data = data


def function_of(name: str, lib: Any) -> Callable[[Any], list[Any]]:
    """Return a program as a function of the number that its data are scaled by."""

    def run(x: Any) -> list[Any]:
        if name in ON_HOST:
            return [x * leaf for leaf in lib.tree.leaves(MODELS[name](lib))]
        with _scaled_data(x):
            return list(lib.tree.leaves(MODELS[name](lib)))

    return run


def loss_of(run: Callable[[Any], Any], jnp: Any) -> Callable[[Any], Any]:
    """Return a number that depends on all inexact results."""

    def loss(x: Any) -> Any:
        leaves = [y for y in run(x) if jnp.issubdtype(y.dtype, jnp.inexact)]
        return sum((jnp.sum(jnp.tanh(y.astype(jnp.float32))) for y in leaves), jnp.float32(0))

    return loss


def order_of(name: str) -> int:
    """Return how many derivatives are stored with a program."""
    return 0 if name in NOT_REVERSIBLE else 1


def run_with_jax(folder: Path) -> None:
    """Call what kiln stored, and store what jax exports."""
    jax = importlib.import_module("jax")
    export = importlib.import_module("jax.export")
    for path in sorted(folder.glob("*.kiln")):
        name = path.stem
        loaded = export.deserialize(bytearray(path.read_bytes()))
        found = {f"out{i}": np.asarray(y, np.float32) for i, y in enumerate(loaded.call(ONE))}
        if order_of(name):
            found["grad"] = np.asarray(jax.grad(loss_of(loaded.call, jax.numpy))(ONE))
        np.savez(path.with_suffix(".npz"), **found)
        if name in NOT_JITTED_BY_JAX:
            continue
        own = export.export(jax.jit(function_of(name, jax)))(ONE)
        path.with_suffix(".jax").write_bytes(bytes(own.serialize(vjp_order=order_of(name))))


if __name__ == "__main__":
    run_with_jax(Path(sys.argv[1]))
