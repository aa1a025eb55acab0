"""Operands for comparisons: arrays of each dtype with edge values, and Python scalars.

An operand is a function of the library, so that weak arrays are made by the library itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np

Make = Callable[[Any], Any]

DTYPES = (
    *("bool", "int8", "uint8", "int32", "uint32"),
    *("float16", "bfloat16", "float32", "complex64"),
)
SCALARS: dict[str, Any] = {"True": True, "2": 2, "-3": -3, "1.5": 1.5, "1+2j": 1 + 2j}

_EDGES: dict[str, list[Any]] = {
    "b": [False, True, True, False, True, False],
    "i": [0, 1, -1, 5, -7, 100],
    "u": [0, 1, 2, 5, 7, 200],
    "f": [0.0, -0.0, 1.5, -2.25, np.nan, np.inf],
    "c": [0.25, 1.5, -2.25 + 1j, 0.5 - 3j, -1j, 2.0],
}


def kind_of(dtype: str) -> str:
    """Return the letter of a dtype's kind."""
    return "f" if dtype == "bfloat16" else np.dtype(dtype).kind


def edges(dtype: str, turn: int = 0) -> np.ndarray:
    """Return six values of a dtype, among them its awkward ones, rotated by `turn`."""
    found = np.array(_EDGES[kind_of(dtype)])
    return np.roll(found, turn).astype(_numpy(dtype))


def _numpy(dtype: str) -> Any:
    return ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)


def smooth(dtype: str, shape: tuple[int, ...], seed: str = "") -> np.ndarray:
    """Return tame values of a shape, the same for the same arguments."""
    key = zlib.crc32(f"{dtype}{shape}{seed}".encode())
    rng = np.random.default_rng(key)
    kind = kind_of(dtype)
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        return rng.integers(0 if kind == "u" else -6, 7, shape).astype(dtype)
    drawn = np.round(rng.uniform(-3, 3, shape), 2)
    if kind == "c":
        drawn = drawn + 1j * np.round(rng.uniform(-3, 3, shape), 2)
    return np.asarray(drawn).astype(_numpy(dtype))


def array(value: Any) -> Make:
    """Return an operand: an array of NumPy data."""
    return lambda lib: lib.numpy.asarray(value)


def plain(value: Any) -> Make:
    """Return an operand: the very object."""
    return lambda lib: value


def operands(lib: Any, makes: Iterable[Any]) -> list[Any]:
    """Return what to pass: operands made by the library, and all else as it is."""
    return [make(lib) if callable(make) else make for make in makes]


def unary_operands() -> dict[str, Make]:
    """Return one operand of each dtype, scalars, weak and empty arrays, by name."""
    found = {dtype: array(edges(dtype)) for dtype in DTYPES}
    found |= {name: plain(value) for name, value in SCALARS.items()}
    found["weak-int"] = array(3)
    found["weak-float"] = array(-1.25)
    found["numpy-scalar"] = plain(np.float32(0.75))
    found["float64-array"] = plain(np.array([0.5, 2.0]))
    found["empty"] = array(np.zeros((0, 2), np.float32))
    found["matrix"] = array(smooth("float32", (2, 3)))
    return found


def binary_operands() -> dict[str, tuple[Make, Make]]:
    """Return pairs of operands of many dtypes and shapes, by name."""
    found: dict[str, tuple[Make, Make]] = {}
    for dtype in DTYPES:
        x = array(edges(dtype))
        found[f"{dtype},{dtype}"] = (x, array(edges(dtype, 1)))
        for name, value in SCALARS.items():
            # Products of complex numbers with infinities are nowhere the same.
            y = array(smooth(dtype, (6,))) if isinstance(value, complex) else x
            found[f"{dtype},{name}"] = (y, plain(value))
            found[f"{name},{dtype}"] = (plain(value), y)
        for other in ("int32", "float32"):
            if other != dtype:
                tame = dtype == "complex64"
                values = smooth(other, (6,)) if tame else edges(other, 1)
                found[f"{dtype},{other}"] = (x, array(values))
        found[f"{dtype},weak-int"] = (x, array(3))
        found[f"weak-float,{dtype}"] = (array(-1.25), x)
    found["int8,uint8"] = (array(edges("int8")), array(edges("uint8", 1)))
    found["bfloat16,float16"] = (array(edges("bfloat16")), array(edges("float16", 2)))
    found["2,1.5"] = (plain(2), plain(1.5))
    found["2,-3"] = (plain(2), plain(-3))
    found["True,2"] = (plain(True), plain(2))
    found["weak-int,weak-float"] = (array(3), array(-1.25))
    found["float32,numpy-float64"] = (array(edges("float32")), plain(np.float64(2)))
    found["int32,numpy-int64-array"] = (array(edges("int32")), plain(np.arange(6)))
    for a, b in (((), (3,)), ((3, 1), (1, 4)), ((2, 3), (3,)), ((0,), (1,)), ((2, 0), (1, 1))):
        found[f"{a},{b}"] = (array(smooth("float32", a, "a")), array(smooth("float32", b, "b")))
    found["list"] = (plain([1, 2]), plain(2))
    found["none"] = (plain(2), plain(None))
    found["incompatible"] = (array(np.ones(3, np.float32)), array(np.ones(4, np.float32)))
    return found
