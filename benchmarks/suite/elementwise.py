"""Rows of one operation per element: arithmetic, activations, layouts; and large outputs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy
import scipy.special

from benchmarks.suite.row import Row, Work, integers, normal, shared, uniform

MEBI = 1 << 20


def add_one(n: int) -> Work:
    """Add one."""
    return shared(lambda np, x: x + 1, normal(n), numba="add_one")


def selu(n: int, dtype: str = "float32") -> Work:
    """Return the activation of the tutorial."""

    def of(np: Any, x: Any) -> Any:
        return 1.05 * np.where(x > 0, x, 1.67 * np.exp(x) - 1.67)

    return shared(of, normal(n, dtype=dtype), numba="selu")


def selu_f64(n: int) -> Work:
    """Return the activation in float64."""
    return selu(n, "float64")


def selu_bf16(n: int) -> Work:
    """Return the activation in bfloat16."""

    def of(np: Any, x: Any) -> Any:
        return 1.05 * np.where(x > 0, x, 1.67 * np.exp(x) - 1.67)

    def torch_of(torch: Any, x: Any) -> Any:
        return of(torch, x)

    x = normal(n).astype(ml_dtypes.bfloat16)
    return Work((x,), lambda lib, x: of(lib.np, x), torch=torch_of)


def gelu(n: int) -> Work:
    """Return the activation by its approximation with tanh."""

    def plain(x: Any) -> Any:
        cubic = x + numpy.float32(0.044715) * x * x * x
        return numpy.float32(0.5) * x * (1 + numpy.tanh(numpy.float32(0.7978845608) * cubic))

    return Work(
        (normal(n),),
        lambda lib, x: lib.root.nn.gelu(x, approximate=True),
        plain,
        lambda torch, x: torch.nn.functional.gelu(x, approximate="tanh"),
        "gelu",
    )


def silu(n: int) -> Work:
    """Return the activation x times its logistic function."""
    return Work(
        (normal(n),),
        lambda lib, x: lib.root.nn.silu(x),
        lambda x: x * scipy.special.expit(x),
        lambda torch, x: torch.nn.functional.silu(x),
        "silu",
    )


def polynomial(n: int) -> Work:
    """Evaluate a polynomial of degree seven by Horner's rule."""
    coefficients = (0.3, -1.2, 0.7, 2.0, -0.4, 0.9, 1.1, -0.6)

    def of(np: Any, x: Any) -> Any:
        total = x * coefficients[0] + coefficients[1]
        for c in coefficients[2:]:
            total = total * x + c
        return total

    return shared(of, normal(n), numba="polynomial")


def whole_numbers(n: int) -> Work:
    """Mix the bits of whole numbers."""

    def of(np: Any, x: Any) -> Any:
        x = (x ^ (x >> 7)) * 40503
        return (x ^ (x >> 11)) & 0xFFFF

    return shared(of, integers(n, high=1 << 15))


def complex_product(n: int) -> Work:
    """Multiply complex numbers, and add."""
    x, y = (normal(n, seed=i) + 1j * normal(n, seed=i + 2) for i in range(2))
    x, y = x.astype("complex64"), y.astype("complex64")
    return shared(lambda np, x, y: x * y + x, x, y)


def strided(n: int) -> Work:
    """Add every second column to its neighbor."""
    return shared(lambda np, x: x[:, ::2] * 2 + x[:, 1::2], normal(n, n))


def stencil(n: int) -> Work:
    """Average the four neighbors of each inner point."""

    def of(np: Any, x: Any) -> Any:
        return 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])

    return shared(of, normal(n, n), numba="stencil")


def padded(n: int) -> Work:
    """Surround a matrix with zeros."""
    return Work(
        (normal(n, n),),
        lambda lib, x: lib.np.pad(x, 3) * 2,
        lambda x: numpy.pad(x, 3) * 2,
        lambda torch, x: torch.nn.functional.pad(x, (3, 3, 3, 3)) * 2,
    )


def joined(n: int) -> Work:
    """Put matrices side by side."""

    def of(np: Any, x: Any, y: Any) -> Any:
        return np.concatenate([x, y * 2], 1)

    return shared(of, normal(n, n), normal(n, n, seed=1))


def flipped(n: int) -> Work:
    """Roll the rows and reverse the columns."""

    def of(np: Any, x: Any) -> Any:
        return np.roll(np.flip(x, (1,)), 5, 0) + x

    return shared(of, normal(n, n))


def outer_sum(n: int) -> Work:
    """Add a column to a row."""

    def of(np: Any, x: Any, y: Any) -> Any:
        return x[:, None] + y[None, :]

    return shared(of, normal(n), normal(n, seed=1))


def scaled_pair(n: int) -> Work:
    """Return two large results."""
    return shared(lambda np, x: (x * 2, x - 1), normal(n))


def counted(n: int) -> Work:
    """Return consecutive numbers times a number."""

    def torch_of(torch: Any, a: Any) -> Any:
        return torch.arange(n, dtype=torch.float32) * a

    def plain(a: Any) -> Any:
        return numpy.arange(n, dtype="float32") * a

    a = numpy.array(0.5, "float32")
    return Work((a,), lambda lib, a: lib.np.arange(n, dtype="float32") * a, plain, torch_of)


FUNCTIONS = ("exp", "log", "tanh", "sin", "cos", "pow", "atan2", "erf", "log1p")
"""Timed in float32 and float64, at a thousand elements and at a million."""
SINGLE_ONLY = ("expm1", "logistic", "sin+cos")


def _function(np: Any, lib: Any, name: str) -> Any:
    # Where the libraries agree on neither the name nor the place.
    own = {
        "pow": lambda x: x**2.5,
        "sin+cos": lambda x: np.sin(x) + np.cos(x),
        "erf": getattr(lib, "erf", None),
        "logistic": getattr(lib, "sigmoid", None) or getattr(lib, "expit", None),
        "atan2": getattr(np, "arctan2", None),
    }
    return own.get(name) or getattr(np, name)


def elementary(name: str, dtype: str, n: int) -> Work:
    """Apply an elementary function."""
    positive = name in ("log", "pow", "log1p")
    x = uniform(n, low=0.01, high=20, dtype=dtype) if positive else 3 * normal(n, dtype=dtype)
    arguments = (x, normal(n, dtype=dtype, seed=1)) if name == "atan2" else (x,)

    def program(lib: Any, *xs: Any) -> Any:
        place = lib.root.nn if name == "logistic" else lib.root.lax
        return _function(lib.np, place, name)(*xs)

    def plain(*xs: Any) -> Any:
        return _function(numpy, scipy.special, name)(*xs)

    def torch_of(torch: Any, *xs: Any) -> Any:
        return _function(torch, torch, name)(*xs)

    return Work(arguments, program, plain, torch_of, name.replace("+", "_"))


def _elementary_rows() -> Iterator[Row]:
    for name in FUNCTIONS + SINGLE_ONLY:
        for dtype, short in (("float32", "f32"), ("float64", "f64")):
            for size, word in ((1000, "1e3"), (1_000_000, "1e6")):
                if name in SINGLE_ONLY and (short, word) != ("f32", "1e6"):
                    continue

                def build(n: int, name: str = name, dtype: str = dtype) -> Work:
                    return elementary(name, dtype, n)

                yield Row(
                    f"{name} {short} {word}",
                    "transcendental",
                    build,
                    (size,),
                    (67,),
                    # log1p of JAX is 128 ulp off in float64.
                    tolerance=1e-5 if short == "f32" else 1e-12,
                    x64=short == "f64",
                    compiled=short == "f32" and word == "1e6",
                )


ROWS = [
    Row("x + 1, 1 element", "elementwise", add_one, (1,), (1,)),
    Row("x + 1, 1e3", "elementwise", add_one, (1000,), (9,)),
    Row("x + 1, 1e6", "elementwise", add_one, (1_000_000,), (37,)),
    Row("selu 1e3", "elementwise", selu, (1000,), (9,)),
    Row("selu 1e6", "elementwise", selu, (1_000_000,), (67,), compiled=True),
    Row("selu f64 1e6", "elementwise", selu_f64, (1_000_000,), (67,), x64=True),
    Row("selu bf16 1e6", "elementwise", selu_bf16, (1_000_000,), (67,), tolerance=0.02),
    Row("gelu 1e3", "elementwise", gelu, (1000,), (9,)),
    Row("gelu 1e6", "elementwise", gelu, (1_000_000,), (67,), compiled=True),
    Row("silu 1e6", "elementwise", silu, (1_000_000,), (67,)),
    Row("polynomial of degree 7, 1e6", "elementwise", polynomial, (1_000_000,), (67,)),
    Row("bits of int32, 1e6", "elementwise", whole_numbers, (1_000_000,), (67,)),
    Row("complex64 x * y + x, 1e6", "elementwise", complex_product, (1_000_000,), (33,)),
    Row("every second column, 2048^2", "elementwise", strided, (2048,), (6,)),
    Row("stencil of 5 points, 2048^2", "elementwise", stencil, (2048,), (7,), compiled=True),
    Row("pad 1024^2", "elementwise", padded, (1024,), (5,)),
    Row("concatenate 1024^2", "elementwise", joined, (1024,), (5,)),
    Row("flip and roll 1024^2", "elementwise", flipped, (1024,), (7,)),
    *_elementary_rows(),
    Row("x + 1, 64 MiB", "large outputs", add_one, (16 * MEBI,), (65,), compiled=True),
    Row("outer sum 4096^2", "large outputs", outer_sum, (4096,), (7,)),
    Row("two outputs of 64 MiB", "large outputs", scaled_pair, (16 * MEBI,), (65,)),
    Row("arange * a, 64 MiB", "large outputs", counted, (16 * MEBI,), (65,)),
]
