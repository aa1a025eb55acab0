"""Linear algebra gives jax's values, dtypes, weak types and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy
from tests.differential.operands import DTYPES, Make, array, operands, plain, smooth
from tests.differential.oracle import Case, Topic


def call(name: str, *makes: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda lib: getattr(lib.numpy.linalg, name)(*operands(lib, makes), **options)


def square(dtype: str = "float32", shape: tuple[int, ...] = (3, 3)) -> np.ndarray:
    """Return well conditioned matrices with values far apart."""
    steps = np.diag(7.0 * np.arange(1, shape[-1] + 1))
    return (smooth(dtype, shape).astype(np.dtype(dtype)) + steps).astype(dtype)


def definite(dtype: str = "float32", shape: tuple[int, ...] = (3, 3)) -> np.ndarray:
    """Return positive definite matrices."""
    x = smooth(dtype, shape).astype("complex64" if dtype == "complex64" else "float32")
    return (x @ x.conj().swapaxes(-1, -2) + square("float32", shape) * 0 + _ladder(shape)).astype(
        dtype
    )


def _ladder(shape: tuple[int, ...]) -> np.ndarray:
    return np.diag(5.0 * np.arange(1, shape[-1] + 1)).astype("float32")


def weak(lib: Any, shape: tuple[int, ...]) -> Any:
    """Return a weak matrix: full is weak, and so is its triangle with twos on the diagonal."""
    return lib.numpy.full(shape, 2.0)


OF_SQUARE = ("inv", "det", "slogdet", "eig", "eigvals", "matrix_rank", "cond", "trace", "diagonal")
OF_HERMITIAN = ("cholesky", "eigh", "eigvalsh")
OF_ANY = ("svdvals", "qr", "pinv", "matrix_norm", "vector_norm", "norm", "matrix_transpose")
SINGULAR = np.array([[1, 2], [2, 4]], np.float32)


def _decompositions() -> Iterator[Case]:
    for name in OF_SQUARE:
        for dtype in ("int32", "float32", "complex64", "float16", "bool"):
            if (name, dtype) in (("cond", "bool"), ("inv", "bool")):
                continue
            yield Case(
                name,
                dtype,
                call(name, array(square(dtype) if dtype != "bool" else np.eye(3, dtype=bool))),
            )
        for shape in ((1, 1), (2, 2), (4, 4), (2, 3, 3), (5, 4, 4), (0, 0), (0, 2, 2)):
            if (name, shape) in (
                ("eig", (5, 4, 4)),
                ("eigvals", (5, 4, 4)),
                ("matrix_rank", (0, 0)),
            ):
                continue
            yield Case(name, str(shape), call(name, array(square("float32", shape))), 1e-4)
        yield Case(name, "wide", call(name, array(smooth("float32", (2, 3)))))
        yield Case(name, "vector", call(name, array(smooth("float32", (3,)))))
        yield Case(name, "list", call(name, plain([[1.0, 2.0], [3.0, 5.0]])))
        yield Case(name, "weak", lambda lib, name=name: _of_weak(lib, name))
        if name not in ("inv", "eig", "eigvals", "cond"):
            yield Case(name, "singular", call(name, array(SINGULAR)))
    for name in OF_HERMITIAN:
        for dtype in ("int32", "float32", "complex64", "float16"):
            yield Case(name, dtype, call(name, array(definite(dtype))), 1e-4)
        for shape in ((1, 1), (2, 3, 3), (4, 4), (0, 0), (0, 2, 2)):
            yield Case(name, str(shape), call(name, array(definite("float32", shape))), 1e-4)
        yield Case(name, "list", call(name, plain([[1.0, 0.0], [0.0, 5.0]])))
        lop = array(np.array([[4, 1], [2, 9]], np.float32))
        yield Case(name, "symmetrized", call(name, lop))
        yield Case(name, "one triangle", call(name, lop, symmetrize_input=False))
    lop = array(np.array([[4, 1], [2, 9]], np.complex64))
    yield Case("cholesky", "upper", call("cholesky", lop, upper=True))
    yield Case("cholesky", "indefinite", call("cholesky", array(np.diag([1, -1, 2]))))
    upper = call("cholesky", lop, upper=True, symmetrize_input=False)
    yield Case("cholesky", "upper triangle", upper)
    for uplo in ("L", "U", "X", None):
        yield Case("eigh", f"{uplo}", call("eigh", lop, uplo, symmetrize_input=False))
        yield Case("eigvalsh", f"{uplo}", call("eigvalsh", lop, uplo, symmetrize_input=False))


def _factors() -> Iterator[Case]:
    for name in OF_ANY:
        for dtype in DTYPES:
            yield Case(name, dtype, call(name, array(smooth(dtype, (3, 2)))), 1e-4)
        for shape in ((2, 3), (3, 3), (2, 4, 3), (0, 2), (2, 0), (0, 3, 2), (1, 1)):
            yield Case(name, str(shape), call(name, array(smooth("float32", shape))), 1e-4)
        yield Case(name, "vector", call(name, array(smooth("float32", (3,)))))
        yield Case(name, "scalar", call(name, array(smooth("float32", ()))))
        yield Case(name, "list", call(name, plain([[1.0, 0.0], [0.0, 5.0]])))
        yield Case(name, "weak", lambda lib, name=name: _of_weak(lib, name))
    tall = array(smooth("float32", (4, 2)))
    for mode in ("reduced", "complete", "r", "raw", "full", "economic"):
        yield Case("qr", mode, call("qr", tall, mode), 1e-4)
        yield Case("qr", f"wide {mode}", call("qr", array(smooth("complex64", (2, 3))), mode), 1e-4)
    for full in (True, False):
        for uv in (True, False):
            for dtype in ("float32", "complex64", "int32", "float16"):
                matrix = array(smooth(dtype, (4, 2)))
                run = call("svd", matrix, full, uv)
                yield Case("svd", f"{dtype} {full} {uv}", run, 1e-4)
    lop = array(np.array([[1, 2], [2, -4]], np.float32))
    yield Case("svd", "hermitian", call("svd", lop, hermitian=True))
    yield Case("svd", "hermitian values", call("svd", lop, hermitian=True, compute_uv=False))
    yield Case("svd", "subset", call("svd", tall, False, subset_by_index=(0, 1)))
    yield Case("pinv", "hermitian", call("pinv", lop, hermitian=True))
    yield Case("pinv", "singular", call("pinv", array(SINGULAR)))
    for options in ({"rtol": 0.5}, {"rcond": 0.5}, {"rtol": 0.5, "rcond": 0.5}):
        yield Case("pinv", str(options), call("pinv", array(square()), **options))
    for options in (
        {"rtol": 0.5},
        {"tol": 0.5},
        {"rtol": 0.5, "tol": 0.5},
        {"hermitian": True},
    ):
        yield Case("matrix_rank", str(options), call("matrix_rank", array(definite()), **options))


def _norms() -> Iterator[Case]:
    vector, matrix = array(smooth("float32", (5,))), array(smooth("float32", (3, 4)))
    cube = array(smooth("complex64", (2, 3, 4)))
    for order in (None, 0, 1, 2, 3, -1, -2, 0.5, np.inf, -np.inf, "fro", "nuc", "bad"):
        yield Case("norm", f"vector {order}", call("norm", vector, order))
        yield Case("norm", f"matrix {order}", call("norm", matrix, order), 1e-4)
        yield Case("norm", f"cube {order}", call("norm", cube, order))
        for axis in (0, -1, (0, 2), (2, 1)):
            for keep in (False, True):
                label = f"cube {order} {axis} {keep}"
                yield Case("norm", label, call("norm", cube, order, axis, keep), 1e-4)
        yield Case("vector_norm", f"{order}", call("vector_norm", vector, ord=order))
        for axis in (None, 1, (0, 2)):
            for keep in (False, True):
                run = call("vector_norm", cube, axis=axis, keepdims=keep, ord=order)
                yield Case("vector_norm", f"cube {order} {axis} {keep}", run, 1e-4)
        for keep in (False, True):
            run = call("matrix_norm", cube, keepdims=keep, ord=order)
            yield Case("matrix_norm", f"cube {order} {keep}", run, 1e-4)
        yield Case("cond", f"{order}", call("cond", array(square()), order), 1e-4)
    for axis in ((0, 1, 2), (0, 0), 4, 1.5):
        yield Case("norm", f"axis {axis}", call("norm", cube, None, axis))
    yield Case("cond", "zeros", call("cond", array(np.zeros((2, 2), np.float32))))
    yield Case("cond", "zeros 1", call("cond", array(np.zeros((2, 2), np.float32)), 1))


SHAPES = [
    ((3, 3), (3,)),
    ((3, 3), (3, 2)),
    ((2, 3, 3), (3,)),
    ((2, 3, 3), (3, 2)),
    ((3, 3), (2, 3, 2)),
    ((2, 3, 3), (2, 3, 2)),
    ((2, 1, 3, 3), (4, 3, 2)),
    ((2, 3, 3), (2, 3)),
    ((3, 3), (4,)),
    ((3, 2), (3,)),
    ((3,), (3,)),
    ((3, 3), ()),
    ((0, 0), (0, 2)),
    ((2, 2), (2, 0)),
]


def _residuals_beside_one(run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Those of equations that can be met are rounding errors, which differ between processors."""

    def of(lib: Any) -> list[Any]:
        solution, residuals, rank, values = run(lib)
        return [solution, residuals + 1, rank, values]

    return of


def _equations() -> Iterator[Case]:
    for a, b in SHAPES:
        x = square("float32", a) if len(a) > 1 and a[-1] == a[-2] else smooth("float32", a)
        run = call("solve", array(x), array(smooth("float32", b)))
        yield Case("solve", f"{a},{b}", run, 1e-4)
    for a in ("int32", "float32", "complex64", "float16"):
        for b in ("int32", "float32", "complex64"):
            run = call("solve", array(square(a)), array(smooth(b, (3,))))
            yield Case("solve", f"{a},{b}", run, 1e-4)
    yield Case("solve", "list", call("solve", array(square()), plain([1.0, 2.0, 3.0])))
    tall, wide = array(smooth("float32", (5, 3))), array(smooth("float32", (2, 4)))
    for numpy_resid in (False, True):
        for shape in ((5,), (5, 2), (4,), (5, 2, 2)):
            run = call("lstsq", tall, array(smooth("float32", shape)), numpy_resid=numpy_resid)
            yield Case("lstsq", f"{shape} {numpy_resid}", run, 1e-3)
        run = call("lstsq", wide, array(smooth("float32", (2, 3))), numpy_resid=numpy_resid)
        yield Case("lstsq", f"wide {numpy_resid}", _residuals_beside_one(run), 1e-3)
    singular = array(np.array([[1, 2], [2, 4], [3, 6]], np.float32))
    yield Case("lstsq", "singular", call("lstsq", singular, array(np.ones(3)), 1e-3), 1e-3)
    none, ones = array(np.ones((3, 0), np.float32)), array(np.ones((3, 2), np.float32))
    yield Case("lstsq", "no columns", call("lstsq", none, ones))
    yield Case("lstsq", "no rows", call("lstsq", array(np.ones((0, 3))), array(np.ones((0, 2)))))
    yield Case("lstsq", "int", call("lstsq", array(np.eye(3, dtype=int)), array(np.arange(3))))
    for n in (-2, -1, 0, 1, 2, 3, 5, 2.0, np.int64(2)):
        for dtype in ("int32", "float32", "complex64", "bool"):
            if dtype == "bool" and n != 2:
                continue
            label = f"{dtype} {n!r}"
            yield Case(
                "matrix_power",
                label,
                call(
                    "matrix_power",
                    array(
                        square(dtype) % 5
                        if dtype == "int32"
                        else square(dtype) / 7
                        if dtype != "bool"
                        else np.eye(2, dtype=bool)
                    ),
                    n,
                ),
                1e-3,
            )
    yield Case(
        "matrix_power", "stack", call("matrix_power", array(square("float32", (2, 3, 3))), 3), 1e-4
    )
    yield Case("matrix_power", "wide", call("matrix_power", wide, 2))
    yield Case("matrix_power", "vector", call("matrix_power", array(np.ones(3)), 2))
    chain = [(3,), (3, 4), (4, 2), (2, 5), (5,)]
    for first, last in ((0, 5), (1, 5), (0, 4), (1, 4), (1, 3), (1, 2), (2, 2)):
        makes = [array(smooth("float32", s)) for s in chain[first:last]]
        yield Case(
            "multi_dot",
            f"{first},{last}",
            lambda lib, m=makes: lib.numpy.linalg.multi_dot([x(lib) for x in m]),
            1e-4,
        )
    swapped = [array(smooth("float32", s)) for s in ((3, 4), (3, 4))]
    yield Case(
        "multi_dot", "mismatch", lambda lib: lib.numpy.linalg.multi_dot([x(lib) for x in swapped])
    )
    tensor = array(smooth("float32", (4, 6, 8, 3)))
    yield Case("tensorinv", "2", call("tensorinv", tensor), 1e-2)
    yield Case("tensorinv", "1", call("tensorinv", array(smooth("float32", (6, 2, 3))), 1), 1e-3)
    yield Case("tensorinv", "0", call("tensorinv", tensor, 0))
    yield Case("tensorinv", "unequal", call("tensorinv", tensor, 1))
    wide = array(smooth("float32", (2, 3, 6)))
    run = call("tensorsolve", wide, array(smooth("float32", (2, 3))))
    yield Case("tensorsolve", "plain", run, 1e-3)
    moved = array(smooth("float32", (2, 6, 3)))
    run = call("tensorsolve", moved, array(smooth("float32", (2, 3))), axes=(1,))
    yield Case("tensorsolve", "axes", run, 1e-3)
    for name, a, b in (
        ("cross", (2, 3), (3,)),
        ("cross", (2,), (2,)),
        ("outer", (2,), (3,)),
        ("outer", (2, 2), (3,)),
        ("vecdot", (2, 3), (3,)),
        ("matmul", (2, 3), (3, 2)),
        ("tensordot", (2, 3, 4), (3, 4, 2)),
    ):
        x, y = array(smooth("float32", a)), array(smooth("int32", b))
        yield Case(name, f"{a},{b}", call(name, x, y))
    yield Case("trace", "offset", call("trace", array(smooth("int8", (2, 3, 3))), offset=1))
    yield Case("trace", "dtype", call("trace", array(smooth("int8", (3, 3))), dtype="float32"))
    yield Case("diagonal", "offset", call("diagonal", array(smooth("int8", (2, 3, 4))), offset=-1))


def _of_weak(lib: Any, name: str) -> Any:
    return getattr(lib.numpy.linalg, name)(lib.numpy.full((2, 2), 2.0) * lib.numpy.eye(2))


def _derivatives() -> Iterator[Case]:
    """Yield gradients of weighted sums of what a function returns."""

    def gradient(name: str, *makes: Make, **options: Any) -> Callable[[Any], Any]:
        def run(lib: Any) -> Any:
            jnp = lib.numpy

            def total(*xs: Any) -> Any:
                outs = getattr(jnp.linalg, name)(*xs, **options)
                outs = outs if isinstance(outs, tuple) else (outs,)
                parts = [
                    jnp.sum(jnp.abs(x + 0.25) ** 2 * jnp.arange(1, x.size + 1).reshape(x.shape))
                    for x in outs
                ]
                return sum(parts[1:], parts[0])

            xs = [make(lib) for make in makes]
            return lib.grad(total, tuple(range(len(xs))))(*xs)

        return run

    for dtype in ("float32", "complex64"):
        for name in ("inv", "det", "slogdet", "pinv", "norm", "cond", "trace"):
            yield Case("grad", f"{name} {dtype}", gradient(name, array(square(dtype))), 1e-3)
        for name in ("cholesky", "eigvalsh"):
            yield Case("grad", f"{name} {dtype}", gradient(name, array(definite(dtype))), 1e-3)
        tall = array(smooth(dtype, (4, 3)))
        for name in ("svdvals", "pinv"):
            yield Case("grad", f"{name} tall {dtype}", gradient(name, tall), 1e-2)
        run = gradient("solve", array(square(dtype)), array(smooth(dtype, (3, 2))))
        yield Case("grad", f"solve {dtype}", run, 1e-3)
        yield Case("grad", f"qr {dtype}", gradient("qr", array(square(dtype, (4, 4))[:, :3])), 1e-3)
    yield Case("grad", "eigh", gradient("eigh", array(definite())), 1e-3)
    yield Case("grad", "svd", gradient("svd", array(square()), full_matrices=False), 1e-3)
    yield Case(
        "grad",
        "svd tall",
        gradient("svd", array(square("float32", (4, 4))[:, :3]), full_matrices=False),
        1e-3,
    )
    lacking = np.array([[1, 2, 0, 1], [0, 1, 1, 2], [3, 0, 1, 1], [1, 3, 1, 3]], np.float32)
    yield Case("grad", "det without full rank", gradient("det", array(lacking)), 1e-3)
    for order in (None, 1, 2, np.inf, 3):
        vector = array(smooth("float32", (4,)))
        yield Case("grad", f"norm {order}", gradient("norm", vector, ord=order), 1e-3)
    yield Case(
        "grad",
        "lstsq",
        gradient("lstsq", array(smooth("float32", (5, 3))), array(smooth("float32", (5, 2)))),
        1e-2,
    )


def cases() -> Iterator[Case]:
    for part in (_decompositions, _factors, _norms, _equations, _derivatives):
        yield from part()


TOPIC = Topic("numpy_linalg", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
