"""Functions with scipy's names give jax's values, dtypes, weak types and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy
import kiln.scipy
from tests.differential.operands import Make, array, plain, smooth
from tests.differential.oracle import Case, Topic

UNARY = (
    *("erf", "erfc", "erfinv", "gammaln", "gamma", "gammasgn", "loggamma", "factorial"),
    *("digamma", "i0", "i0e", "i1", "i1e", "expit", "logit", "entr", "ndtr", "ndtri", "log_ndtr"),
    *("softmax", "log_softmax", "logsumexp"),
)
BINARY = (
    *("xlogy", "xlog1py", "rel_entr", "kl_div", "betaln", "beta", "poch"),
    *("gammainc", "gammaincc", "zeta", "polygamma"),
)
REFUSES_NARROW = ("ndtr", "ndtri", "log_ndtr")
POINTS = np.array([-1.5, 0.0, 0.3, 0.5, 0.9, 2.0, 7.25], np.float32)
SQUARE = (smooth("float32", (3, 3)) + np.diag([7, 14, 21])).astype(np.float32)
DEFINITE = (SQUARE @ SQUARE.T).astype(np.float32)


def special(name: str, *makes: Make, **options: Any) -> Callable[[Any], Any]:
    return lambda lib: getattr(lib.scipy.special, name)(*[m(lib) for m in makes], **options)


def linalg(name: str, *makes: Make, **options: Any) -> Callable[[Any], Any]:
    return lambda lib: getattr(lib.scipy.linalg, name)(*[m(lib) for m in makes], **options)


def _special() -> Iterator[Case]:
    for name in UNARY:
        yield Case(name, "points", special(name, array(POINTS)), 2e-4)
        yield Case(name, "int32", special(name, array(np.array([1, 3]))), 2e-4)
        if name not in REFUSES_NARROW:
            yield Case(name, "float16", special(name, array(np.array([0.3], np.float16))), 5e-3)
        yield Case(name, "scalar", special(name, plain(0.5)), 2e-4)
        yield Case(name, "weak", lambda lib, name=name: _of_weak(lib, name), 2e-4)
        yield Case(name, "gradient", _gradient(name, POINTS[2:5]), 1e-3)
    for name in BINARY:
        integers = name == "polygamma"
        left = np.array([1, 2, 3]) if integers else np.array([1.5, 2.0, 4.0], np.float32)
        right = array(np.array([0.5, 1.0, 2.5], np.float32))
        yield Case(name, "points", special(name, array(left), right), 2e-4)
        yield Case(
            name, "int32", special(name, array(np.array([1, 2])), array(np.array([2, 3]))), 2e-4
        )
        if not integers:
            yield Case(
                name, "float16", special(name, array(left.astype("float16")), plain(1.5)), 5e-3
            )
        if name not in ("beta", "poch"):
            yield Case(name, "scalars", special(name, plain(2), plain(3.0)), 2e-4)
        yield Case(name, "list", special(name, plain([1]), plain(2.0)))
    zeros, some = array(np.zeros(3, np.float32)), array(np.array([0, 1, -1], np.float32))
    for name in ("xlogy", "xlog1py", "rel_entr", "kl_div"):
        yield Case(name, "zeros", special(name, zeros, some))
    yield Case("polygamma", "float", special("polygamma", plain(1.5), plain(2.0)))
    x = array(np.array([0.1, 0.5, 0.9], np.float32))
    yield Case("betainc", "points", special("betainc", plain(1.5), plain(2.0), x), 2e-4)
    for d in (1, 2, 3):
        run = special("multigammaln", array(np.array([3.0, 4.5], np.float32)), plain(d))
        yield Case("multigammaln", f"{d}", run, 2e-4)
    tails = array(np.array([0, 1e-30, 1e-8, 1e-3, 0.01, 0.2, 0.8, 0.999, 1, 2], np.float32))
    yield Case("ndtri", "tails", special("ndtri", tails), 1e-4)
    far = array(np.array([-100, -30, -11, -9, -3, 0, 1], np.float32))
    yield Case("log_ndtr", "far", special("log_ndtr", far), 1e-4)
    yield Case("log_ndtr", "order", special("log_ndtr", far, 1.5))
    yield Case("log_ndtr", "negative order", special("log_ndtr", far, -1))
    yield Case("factorial", "exact", special("factorial", plain(3), True))
    yield Case("zeta", "alone", special("zeta", array(POINTS)))


def _of_weak(lib: Any, name: str) -> Any:
    return getattr(lib.scipy.special, name)(lib.numpy.full((2,), 0.5))


def _gradient(name: str, points: np.ndarray) -> Callable[[Any], Any]:
    def run(lib: Any) -> Any:
        fun = getattr(lib.scipy.special, name)
        return lib.grad(lambda x: lib.numpy.sum(fun(x) * lib.numpy.arange(1.0, 4.0)))(
            lib.numpy.asarray(points)
        )

    return run


def _linalg() -> Iterator[Case]:
    lop = array(np.array([[4, 1], [2, 9]], np.complex64))
    two, pair = array(np.ones(2, np.float32)), array(np.ones((2, 1), np.float32))
    square, definite = array(SQUARE), array(DEFINITE)
    right = array(smooth("float32", (3, 2)))
    for lower in (False, True):
        for name in ("cholesky", "cho_factor"):
            run = linalg(name, lop, lower)
            yield Case(name, f"{lower}", lambda lib, run=run: _arrays(run(lib)))
        for b in (two, pair):
            shape = "vector" if b is two else "matrix"
            run = linalg("cho_solve", lambda lib, lower=lower: (lop(lib), lower), b)
            yield Case("cho_solve", f"{lower} {shape}", run)
            run = linalg("solve", lop, b, lower=lower, assume_a="pos")
            yield Case("solve", f"positive {lower} {shape}", run)
        for unit in (False, True):
            for trans in (0, 1, 2, "N", "T", "C", 3, "X"):
                label = f"{lower} {unit} {trans!r}"
                run = linalg("solve_triangular", lop, pair, trans, lower, unit)
                yield Case("solve_triangular", label, run)
    yield Case("solve_triangular", "vector", linalg("solve_triangular", lop, two))
    ints = array(np.array([[1, 2], [0, 1]])), array(np.array([1, 2]))
    yield Case("solve_triangular", "int", linalg("solve_triangular", *ints))
    yield Case("lu_factor", "square", linalg("lu_factor", square))
    for trans in (0, 1, 2, 3):
        for b in (right, array(smooth("float32", (3,)))):
            shape = "matrix" if b is right else "vector"
            run = linalg("lu_solve", lambda lib: lib.scipy.linalg.lu_factor(square(lib)), b, trans)
            yield Case("lu_solve", f"{trans} {shape}", run, 1e-4)
    for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 3)):
        x = array(smooth("float32", shape))
        yield Case("lu", f"{shape}", linalg("lu", x), 1e-4)
        yield Case("lu", f"{shape} permuted", linalg("lu", x, True), 1e-4)
    for mode in ("full", "economic", "r", "raw"):
        for pivoting in (False, True):
            x = array(smooth("float32", (4, 2)))
            run = linalg("qr", x, mode=mode, pivoting=pivoting)
            yield Case("qr", f"{mode} {pivoting}", run, 1e-4)
    for assumed in ("gen", "sym", "her", "other"):
        yield Case("solve", assumed, linalg("solve", square, right, assume_a=assumed), 1e-4)
    yield Case("eigh", "b", linalg("eigh", definite, definite))
    yield Case("eigh", "values", linalg("eigh", definite, eigvals_only=True), 1e-4)
    yield Case("eigh", "both", linalg("eigh", definite, lower=False), 1e-4)
    yield Case("svd", "both", linalg("svd", array(smooth("float32", (4, 2))), False), 1e-4)
    yield Case("svd", "values", linalg("svd", square, compute_uv=False), 1e-4)
    yield Case("det", "square", linalg("det", square), 1e-4)
    yield Case("inv", "square", linalg("inv", square), 1e-4)
    for scale in (0.0, 0.01, 0.3, 1.0, 1e4):
        yield Case("expm", f"{scale}", linalg("expm", array(SQUARE * np.float32(scale / 5))), 2e-3)
    yield Case("expm", "complex", linalg("expm", array(smooth("complex64", (3, 3)) / 4)), 1e-3)
    yield Case("expm", "int", linalg("expm", array(np.array([[0, 1], [0, 0]]))))
    yield Case("expm", "stack", linalg("expm", array(smooth("float32", (2, 3, 3)))), 1e-3)
    triangle = array(np.triu(SQUARE / 9).astype(np.float32))
    yield Case("expm", "triangle", linalg("expm", triangle, upper_triangular=True), 1e-3)
    yield Case("expm", "few squarings", linalg("expm", square, max_squarings=1))
    yield Case("expm", "wide", linalg("expm", array(np.ones((2, 3)))))
    yield Case("expm", "float16", linalg("expm", array(np.ones((2, 2), "float16"))))
    row = array(np.ones((1, 3), np.int32))
    yield Case("block_diag", "two", linalg("block_diag", square, row))
    yield Case("block_diag", "none", linalg("block_diag"))
    yield Case("block_diag", "vector", linalg("block_diag", array(np.ones(2)), plain(3)))
    yield Case("block_diag", "stack", linalg("block_diag", array(np.ones((2, 2, 2)))))
    yield Case("block_diag", "empty", linalg("block_diag", array(np.ones((2, 0))), square))
    c, r = array(np.arange(3)), array(np.arange(4.0))
    yield Case("toeplitz", "both", linalg("toeplitz", c, r))
    yield Case("toeplitz", "complex", linalg("toeplitz", array(np.array([1, 2 + 1j]))))


def _arrays(out: Any) -> Any:
    return out[0] if isinstance(out, tuple) else out


def cases() -> Iterator[Case]:
    yield from _special()
    yield from _linalg()


TOPIC = Topic("scipy", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
