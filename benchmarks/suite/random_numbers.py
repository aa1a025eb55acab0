"""Rows that draw random numbers. Only kiln draws the same numbers as JAX."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.suite.row import Row, Work

KEY = numpy.array([0, 42], "uint32")
OTHERS = ("numpy", "torch", "torch.compile", "numba")


def bits(n: int) -> Work:
    """Draw whole random words."""

    def plain(key: Any) -> Any:
        return numpy.random.default_rng(0).integers(0, 1 << 32, n, "uint32")

    def torch_of(torch: Any, key: Any) -> Any:
        return torch.randint(0, 1 << 31, (n,), dtype=torch.int32)

    return Work((KEY,), lambda lib, key: lib.root.random.bits(key, (n,)), plain, torch_of)


def uniform(n: int) -> Work:
    """Draw from an interval."""
    return Work(
        (KEY,),
        lambda lib, key: lib.root.random.uniform(key, (n,)),
        lambda key: numpy.random.default_rng(0).random(n, "float32"),
        lambda torch, key: torch.rand(n),
    )


def normal(n: int) -> Work:
    """Draw from the normal distribution."""
    return Work(
        (KEY,),
        lambda lib, key: lib.root.random.normal(key, (n,)),
        lambda key: numpy.random.default_rng(0).standard_normal(n, "float32"),
        lambda torch, key: torch.randn(n),
        "draw_normal" if n > 100 else None,
    )


def randint(n: int) -> Work:
    """Draw whole numbers below a thousand."""

    def plain(key: Any) -> Any:
        return numpy.random.default_rng(0).integers(0, 1000, n, "int32")

    return Work(
        (KEY,),
        lambda lib, key: lib.root.random.randint(key, (n,), 0, 1000),
        plain,
        lambda torch, key: torch.randint(0, 1000, (n,), dtype=torch.int32),
    )


def permutation(n: int) -> Work:
    """Draw an order of numbers."""
    return Work(
        (KEY,),
        lambda lib, key: lib.root.random.permutation(key, n),
        lambda key: numpy.random.default_rng(0).permutation(n),
        lambda torch, key: torch.randperm(n),
    )


def categorical(n: int, classes: int) -> Work:
    """Draw classes from the logarithms of their chances."""
    logits = numpy.linspace(-1, 1, n * classes, dtype="float32").reshape(n, classes)

    def torch_of(torch: Any, key: Any, logits: Any) -> Any:
        return torch.multinomial(torch.softmax(logits, 1), 1)[:, 0]

    def program(lib: Any, key: Any, logits: Any) -> Any:
        return lib.root.random.categorical(key, logits)

    return Work((KEY, logits), program, torch=torch_of)


def dropout(n: int) -> Work:
    """Set a tenth of a matrix to zero."""

    def program(lib: Any, key: Any, x: Any) -> Any:
        return lib.np.where(lib.root.random.bernoulli(key, 0.9, x.shape), x / 0.9, 0)

    def torch_of(torch: Any, key: Any, x: Any) -> Any:
        return torch.nn.functional.dropout(x, 0.1)

    return Work((KEY, numpy.ones((n, n), "float32")), program, torch=torch_of)


ROWS = [
    Row("random bits 1e3", "random", bits, (1000,), (9,), by_shape=OTHERS),
    Row("random bits 1e6", "random", bits, (1_000_000,), (33,), by_shape=OTHERS),
    Row("uniform 1e6", "random", uniform, (1_000_000,), (33,), by_shape=OTHERS),
    Row("normal 1e6", "random", normal, (1_000_000,), (33,), by_shape=OTHERS),
    Row("randint 1e6", "random", randint, (1_000_000,), (33,), by_shape=OTHERS),
    Row("categorical 1e5 x 10", "random", categorical, (100_000, 10), (5, 3), by_shape=OTHERS),
    Row("dropout 1024^2", "random", dropout, (1024,), (5,), by_shape=OTHERS),
    Row("permutation 1e6", "sorting", permutation, (1_000_000,), (33,), by_shape=OTHERS),
]
