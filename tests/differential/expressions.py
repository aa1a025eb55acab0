"""Cases written as Python expressions, evaluated with the names of one library or the other.

In an expression `f(2, 3)` is a float32 array of that shape, and likewise `f16`, `bf`, `i8`, `i`,
`u8`, `u`, `b` and `z` of the other dtypes; a keyword `seed` gives other values. `arr` makes an array
of what NumPy understands, `jax`, `jnp`, `lax` and `np` are what they are everywhere.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from tests.differential.operands import edges, smooth
from tests.differential.oracle import Case

MAKERS = {
    "f": "float32",
    "f16": "float16",
    "bf": "bfloat16",
    "i8": "int8",
    "i": "int32",
    "u8": "uint8",
    "u": "uint32",
    "b": "bool",
    "z": "complex64",
}


def names(lib: Any) -> dict[str, Any]:
    """Return the names an expression may use."""

    def maker(dtype: str) -> Any:
        def make(*shape: int, seed: str = "") -> Any:
            return lib.numpy.asarray(smooth(dtype, shape, seed))

        return make

    found = {name: maker(dtype) for name, dtype in MAKERS.items()}
    return found | {
        "jax": lib,
        "jnp": lib.numpy,
        "lax": lib.lax,
        "np": np,
        "functools": functools,
        "arr": lambda value, dtype=None: lib.numpy.asarray(np.asarray(value, dtype)),
        "edges": lambda dtype: lib.numpy.asarray(edges(dtype)),
    }


def case(group: str, text: str, tolerance: float | None = None) -> Case:
    """Return the case of an expression."""

    def run(lib: Any) -> Any:
        # What jit itself does is asked as well.
        with lib.disable_jit(False):
            leaves = lib.tree.leaves(eval(text, names(lib)))
        # Tangents of integers are stored as bools: their own dtype has no name and no bytes.
        float0 = [getattr(x, "dtype", None) == lib.dtypes.float0 for x in leaves]
        return [np.zeros(x.shape, bool) if f else x for x, f in zip(leaves, float0, strict=True)]

    return Case(group, text, run, tolerance)


def cases(groups: dict[str, str], tolerances: dict[str, float] | None = None) -> Iterable[Case]:
    """Return the cases of texts with one expression a line, by group."""
    for group, text in groups.items():
        for line in dict.fromkeys(filter(None, map(str.strip, text.splitlines()))):
            yield case(group, line, (tolerances or {}).get(group))
