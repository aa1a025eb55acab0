"""What a module of linen does, as arrays: the names of its variables, their values, what comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def names(tree: Any) -> np.ndarray:
    """Return the paths of a tree of variables, sorted, as the bytes of a text."""
    return np.frombuffer("\n".join(path for path, _ in _flat(tree)).encode(), np.uint8)


def values(tree: Any) -> list[Any]:
    """Return the variables in the order of their paths."""
    return [value for _, value in _flat(tree)]


def _flat(tree: Any, prefix: str = "") -> list[tuple[str, Any]]:
    if hasattr(tree, "items"):
        return [
            found
            for name, child in sorted(tree.items())
            for found in _flat(child, f"{prefix}/{name}")
        ]
    if isinstance(tree, (list, tuple)):
        return [found for i, x in enumerate(tree) for found in _flat(x, f"{prefix}[{i}]")]
    return [] if tree is None else [(prefix, tree)]


def trained(
    lib: Any,
    module: Any,
    x: Any,
    *rest: Any,
    init: dict[str, Any] | None = None,
    **options: Any,
) -> list[Any]:
    """Return names, initial values, outputs, and the slopes of the outputs' mean square.

    `init` are the options of `init` where they differ from those of `apply`.
    """
    key, other = lib.random.key(3), lib.random.key(4)
    seen: list[np.ndarray] = []

    def run(key: Any, other: Any) -> Any:
        asked = options if init is None else init
        variables = module.init({"params": key, "dropout": other}, x, *rest, **asked)
        others = {name: tree for name, tree in variables.items() if name != "params"}

        def loss(params: Any, x: Any) -> Any:
            out = module.apply(
                {"params": params, **others}, x, *rest, rngs={"dropout": other}, **options
            )
            leaves = values(out)
            seen[:] = [names(variables), names(out)]
            return sum((abs(leaf.astype(np.float32)) ** 2).mean() for leaf in leaves), leaves

        slope = lib.value_and_grad(loss, (0, 1), has_aux=True)
        (_, leaves), slopes = slope(variables["params"], x)
        # As one array: a slope that is zero but for rounding is compared with the others.
        flat = [leaf.astype(np.float32).ravel() for leaf in values(slopes[0])]
        return values(variables), leaves, lib.numpy.concatenate(flat), slopes[1]

    with lib.threefry_partitionable(True), lib.disable_jit(False):
        found = lib.jit(run)(key, other)
    return [*seen, *found]


def compiled(lib: Any, run: Callable[..., Any], *args: Any) -> Any:
    """Run a function as one program."""
    with lib.threefry_partitionable(True), lib.disable_jit(False):
        return lib.jit(run)(*args)
