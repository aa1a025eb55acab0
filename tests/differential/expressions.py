"""Cases written as Python expressions, evaluated with the names of one library or the other.

In an expression `f(2, 3)` is a float32 array of that shape, and likewise `f16`, `bf`, `i8`, `i`,
`u8`, `u`, `b` and `z` of the other dtypes; a keyword `seed` gives other values. `arr` makes an array
of what NumPy understands, `jax`, `jnp`, `lax` and `np` are what they are everywhere.

With a dtype `D`, `x(2, 3)` is an array of that dtype, `p(2, 3)` one of numbers from 1 to 4, `e()` its
awkward numbers, `s(2, 3)` two well conditioned 3 by 3 matrices and `h(2, 3)` two positive definite
ones.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
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


def names_of(lib: Any, dtype: str) -> dict[str, Any]:
    """Return the names that expressions about one dtype use beside `names`."""

    def maker(values: Callable[..., np.ndarray]) -> Any:
        return lambda *shape, seed="": lib.numpy.asarray(values(dtype, shape, seed))

    found = {"x": smooth, "p": _positive, "s": _conditioned, "h": _definite}
    return {
        **{name: maker(values) for name, values in found.items()},
        "e": lambda: lib.numpy.asarray(edges(dtype)),
        "D": dtype,
    }


def _positive(dtype: str, shape: tuple[int, ...], seed: str) -> np.ndarray:
    return (np.abs(smooth("float32", shape, seed)) % 3 + 1).astype(dtype)


def _conditioned(dtype: str, shape: tuple[int, ...], seed: str) -> np.ndarray:
    steps = np.diag(7 * np.arange(1, shape[-1] + 1))
    return (smooth(dtype, (*shape, shape[-1]), seed) + steps).astype(dtype)


def _definite(dtype: str, shape: tuple[int, ...], seed: str) -> np.ndarray:
    x = smooth(dtype, (*shape, shape[-1]), seed).astype(complex)
    steps = np.diag(5 * np.arange(1, shape[-1] + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (x @ x.conj().swapaxes(-1, -2) + steps).astype(dtype)


def case(
    group: str,
    text: str,
    tolerance: float | None = None,
    dtype: str = "",
    x64: bool = False,
    jit: bool = True,
) -> Case:
    """Return the case of an expression, if so for a dtype and in x64 mode.

    What jit itself does is asked as well; without it far fewer programs are compiled.
    """

    def run(lib: Any) -> Any:
        layout = lib.threefry_partitionable(True)
        with lib.disable_jit(not jit), lib.enable_x64(x64), layout:
            known = names(lib) | (names_of(lib, dtype) if dtype else {})
            leaves = lib.tree.leaves(eval(text, known))
        # Tangents of integers are stored as bools: their own dtype has no name and no bytes.
        float0 = [getattr(x, "dtype", None) == lib.dtypes.float0 for x in leaves]
        return [np.zeros(x.shape, bool) if f else x for x, f in zip(leaves, float0, strict=True)]

    return Case(group, f"{dtype}: {text}" if dtype else text, run, tolerance)


def cases(groups: dict[str, str], tolerances: dict[str, float] | None = None) -> Iterable[Case]:
    """Return the cases of texts with one expression a line, by group."""
    for group, text in groups.items():
        for line in lines(text):
            yield case(group, line, (tolerances or {}).get(group))


def lines(text: str) -> list[str]:
    """Return the expressions of a text, each once."""
    return list(dict.fromkeys(filter(None, map(str.strip, text.splitlines()))))
