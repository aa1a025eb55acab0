"""Rows that reduce axes, and rows of softmax and normalization."""

from __future__ import annotations

from typing import Any

import numpy
import scipy.special

from benchmarks.suite.row import Row, Work, integers, normal, shared


def sum_all(n: int) -> Work:
    """Add everything."""
    return shared(lambda np, x: np.sum(x), normal(n, n), numba="sum_all")


def sum_columns(n: int) -> Work:
    """Add along axis 0."""
    return shared(lambda np, x: np.sum(x, 0), normal(n, n))


def sum_rows(n: int) -> Work:
    """Add along axis 1."""
    return shared(lambda np, x: np.sum(x, 1), normal(n, n), numba="sum_rows")


def sum_f64(n: int) -> Work:
    """Add everything, in float64."""
    return shared(lambda np, x: np.sum(x), normal(n, n, dtype="float64"))


def sum_middle(n: int) -> Work:
    """Add along the middle axis of three."""
    return shared(lambda np, x: np.sum(x, 1), normal(n, n, n))


def mean(n: int) -> Work:
    """Return the mean of each row."""
    return shared(lambda np, x: np.mean(x, 1), normal(n, n))


def variance(n: int) -> Work:
    """Return the variance of each column."""
    return Work(
        (normal(n, n),),
        lambda lib, x: lib.np.var(x, axis=0),
        lambda x: numpy.var(x, axis=0),
        lambda torch, x: torch.var(x, 0, correction=0),
    )


def argmax(n: int) -> Work:
    """Return where each row is greatest."""
    return shared(lambda np, x: np.argmax(x, 1), normal(n, n), numba="argmax_rows")


def argmax_all(n: int) -> Work:
    """Return where a vector is greatest."""
    return shared(lambda np, x: np.argmax(x), normal(n))


def greatest(n: int) -> Work:
    """Return the greatest number of each column."""
    return Work(
        (normal(n, n),),
        lambda lib, x: lib.np.max(x, 0),
        lambda x: numpy.max(x, 0),
        lambda torch, x: torch.amax(x, 0),
    )


def distance(n: int) -> Work:
    """Return the squared distance of two vectors."""
    return shared(lambda np, x, y: np.sum((x - y) ** 2), normal(n), normal(n, seed=1))


def transposed(n: int) -> Work:
    """Add a matrix and a transposed one along axis 1."""
    return shared(lambda np, x, y: np.sum(x * y.T, 1), normal(n, n), normal(n, n, seed=1))


def counted(n: int) -> Work:
    """Count the numbers within an interval."""
    return shared(lambda np, x: np.sum((x > -0.5) & (x < 1.5)), normal(n))


def softmax(n: int) -> Work:
    """Return the softmax of each row."""
    return Work(
        (normal(n, n),),
        lambda lib, x: lib.root.nn.softmax(x, axis=1),
        lambda x: scipy.special.softmax(x, axis=1),
        lambda torch, x: torch.softmax(x, 1),
        "softmax",
    )


def layernorm(n: int) -> Work:
    """Normalize each row, then scale and shift."""

    def program(lib: Any, x: Any, scale: Any, shift: Any) -> Any:
        mean = lib.np.mean(x, axis=1, keepdims=True)
        variance = lib.np.mean((x - mean) ** 2, axis=1, keepdims=True)
        return (x - mean) * lib.root.lax.rsqrt(variance + 1e-5) * scale + shift

    def plain(x: Any, scale: Any, shift: Any) -> Any:
        centered = x - numpy.mean(x, axis=1, keepdims=True)
        variance = numpy.mean(centered * centered, axis=1, keepdims=True)
        return centered / numpy.sqrt(variance + numpy.float32(1e-5)) * scale + shift

    def torch_of(torch: Any, x: Any, scale: Any, shift: Any) -> Any:
        return torch.nn.functional.layer_norm(x, (n,), scale, shift)

    arguments = (normal(n, n), normal(n, seed=1), normal(n, seed=2))
    return Work(arguments, program, plain, torch_of, "layernorm")


def rmsnorm(n: int) -> Work:
    """Divide each row by its root mean square, then scale."""

    def program(lib: Any, x: Any, scale: Any) -> Any:
        mean = lib.np.mean(x * x, axis=1, keepdims=True)
        return x * lib.root.lax.rsqrt(mean + 1e-6) * scale

    def plain(x: Any, scale: Any) -> Any:
        mean = numpy.mean(x * x, axis=1, keepdims=True)
        return x / numpy.sqrt(mean + numpy.float32(1e-6)) * scale

    def torch_of(torch: Any, x: Any, scale: Any) -> Any:
        return torch.nn.functional.rms_norm(x, (n,), scale, 1e-6)

    return Work((normal(n, n), normal(n, seed=1)), program, plain, torch_of)


def logsumexp(n: int) -> Work:
    """Return the logarithm of the sum of exponentials of each row."""
    return Work(
        (normal(n, n),),
        lambda lib, x: lib.root.nn.logsumexp(x, axis=1),
        lambda x: scipy.special.logsumexp(x, axis=1),
        lambda torch, x: torch.logsumexp(x, 1),
        "logsumexp",
    )


def cross_entropy(n: int, classes: int) -> Work:
    """Return the mean loss of classification, and its gradient."""

    def program(lib: Any, logits: Any, labels: Any) -> Any:
        def loss(logits: Any) -> Any:
            chosen = lib.np.take_along_axis(logits, labels[:, None], 1)[:, 0]
            return lib.np.mean(lib.root.nn.logsumexp(logits, axis=1) - chosen)

        return lib.root.value_and_grad(loss)(logits)

    def torch_of(torch: Any, logits: Any, labels: Any) -> Any:
        def loss(logits: Any) -> Any:
            return torch.nn.functional.cross_entropy(logits, labels.long())

        gradient, value = torch.func.grad_and_value(loss)(logits)
        return value, gradient

    return Work((normal(n, classes), integers(n, high=classes)), program, torch=torch_of)


SMALL, LARGE = 64, 1024
NORMS = {"softmax": softmax, "layernorm": layernorm, "rmsnorm": rmsnorm, "log-sum-exp": logsumexp}

ROWS = [
    Row("sum, 64^2", "reductions", sum_all, (SMALL,), (7,), tolerance=1e-4),
    Row("sum, 2048^2", "reductions", sum_all, (2048,), (7,), tolerance=1e-3, compiled=True),
    Row("sum axis 0, 2048^2", "reductions", sum_columns, (2048,), (7,)),
    Row("sum axis 1, 2048^2", "reductions", sum_rows, (2048,), (7,), compiled=True),
    Row("sum axis 1, 128^3", "reductions", sum_middle, (128,), (5,)),
    Row("sum f64, 1024^2", "reductions", sum_f64, (1024,), (7,), tolerance=1e-11, x64=True),
    Row("mean axis 1, 1024^2", "reductions", mean, (LARGE,), (7,)),
    Row("variance axis 0, 1024^2", "reductions", variance, (LARGE,), (7,)),
    Row("argmax axis 1, 1024^2", "reductions", argmax, (LARGE,), (7,)),
    Row("argmax 1e6", "reductions", argmax_all, (1_000_000,), (33,)),
    Row("max axis 0, 1024^2", "reductions", greatest, (LARGE,), (7,)),
    Row("squared distance 1e6", "reductions", distance, (1_000_000,), (33,), compiled=True),
    Row("sum of x * y.T, 1024^2", "reductions", transposed, (LARGE,), (7,)),
    Row("count in an interval 1e6", "reductions", counted, (1_000_000,), (33,)),
    *(
        Row(f"{name} {n}^2", "softmax and norms", build, (n,), (7,), compiled=n == LARGE)
        for name, build in NORMS.items()
        for n in (SMALL, LARGE)
    ),
    Row(
        "cross-entropy and gradient, 1024 x 1000",
        "softmax and norms",
        cross_entropy,
        (1024, 1000),
        (5, 7),
        compiled=True,
    ),
]
