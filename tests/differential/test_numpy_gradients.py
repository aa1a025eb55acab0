"""Gradients of functions of kiln.numpy are jax's, also where a formula is delicate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy
from tests.differential.operands import smooth
from tests.differential.oracle import Case, Topic

V = np.array([0.5, -1.5, 2.0, 0.25, -0.75], np.float32)
W = np.array([1.5, 0.5, -2.0, 0.25, 3.0], np.float32)
P = np.abs(V) / 3
M = smooth("float32", (3, 4))
SQUARE = smooth("float32", (3, 3))
HOLED = np.where(np.eye(3, 4, dtype=bool), np.float32(np.nan), M)
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0], np.float32)
ZEROS = np.zeros(3, np.float32)
ONE_ZERO = np.array([2.0, 0.0, 3.0], np.float32)
Fun = Callable[..., Any]

UNARY_ANY = [
    "abs",
    "square",
    "exp",
    "exp2",
    "expm1",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
    "arcsinh",
    "arctan",
    "sinc",
    "i0",
    "sign",
    "floor",
    "round",
    "deg2rad",
    "cbrt",
    "negative",
    "reciprocal",
    "nan_to_num",
    "fabs",
    "trunc",
]
UNARY_POSITIVE = ["sqrt", "log", "log2", "log10", "log1p", "arcsin", "arccos", "arctanh"]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "power",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "arctan2",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "mod",
    "fmod",
    "floor_divide",
    "copysign",
    "heaviside",
]
SPECIAL: dict[str, tuple[Fun, Any]] = {
    "sinc at 0": (lambda n, x: n.sinc(x), np.array([0.0, 1e-3, 0.02, 0.5], np.float32)),
    "logaddexp equal": (lambda n, x: n.logaddexp(x, x[::-1]), np.zeros(2, np.float32)),
    "maximum of ties": (lambda n, x: n.maximum(x, 1.0), np.ones(3, np.float32)),
    "max of ties": (lambda n, x: n.max(x), np.array([2.0, 1.0, 2.0], np.float32)),
    "clip at the edge": (lambda n, x: n.clip(x, 0.0, 1.0), np.array([0.0, 0.5, 1.0], np.float32)),
    "where safe": (lambda n, x: n.where(x > 0, n.log(n.where(x > 0, x, 1.0)), 0.0), V),
    "hypot at an axis": (lambda n, x: n.hypot(x, 0.0), np.array([2.0, -1.0], np.float32)),
    "power 2": (lambda n, x: x**2, V),
    "power -3": (lambda n, x: x**-3, V),
    "power 0": (lambda n, x: x**0, V),
    "power 2.0": (lambda n, x: n.abs(x) ** 2.0, V),
    "power of exponent": (lambda n, x: 2.0**x, V),
    "zero to a power": (lambda n, x: x**2.5, np.zeros(2, np.float32)),
    "sum": (lambda n, x: n.sum(x, 0), M),
    "mean": (lambda n, x: n.mean(x, 1), M),
    "mean where": (lambda n, x: n.mean(x, 1, where=x > -1), M),
    "var": (lambda n, x: n.var(x, 0), M),
    "std": (lambda n, x: n.std(x, 1, ddof=1), M),
    "prod": (lambda n, x: n.prod(x, 1), M),
    "prod with zero": (lambda n, x: n.prod(x), np.array([2.0, 0.0, 3.0], np.float32)),
    "cumsum": (lambda n, x: n.cumsum(x, 1), M),
    "cumprod": (lambda n, x: n.cumprod(x, 1), M),
    "sort": (lambda n, x: n.sort(x, 1), M),
    "median": (lambda n, x: n.median(x, 1), M),
    "quantile": (lambda n, x: n.quantile(x, 0.3, axis=0), M),
    "nanmean": (lambda n, x: n.nanmean(x, 1), M),
    "nanvar": (lambda n, x: n.nanvar(x, 1), HOLED),
    "nanvar ddof": (lambda n, x: n.nanvar(x, 0, ddof=1), HOLED),
    "nanstd": (lambda n, x: n.nanstd(x, 1), HOLED),
    "nanvar mean": (lambda n, x: n.nanvar(x, 1, mean=n.nanmean(x, 1, keepdims=True)), HOLED),
    "nansum": (lambda n, x: n.nansum(x, 1), HOLED),
    "nanprod": (lambda n, x: n.nanprod(x, 1), HOLED),
    "nanmean of holes": (lambda n, x: n.nanmean(x, 1), HOLED),
    "nanmax": (lambda n, x: n.nanmax(x, 1), HOLED),
    "nanmin": (lambda n, x: n.nanmin(x, 0), HOLED),
    "nanmedian": (lambda n, x: n.nanmedian(x, 1), HOLED),
    "nanquantile": (lambda n, x: n.nanquantile(x, 0.3, axis=1), HOLED),
    "nancumsum": (lambda n, x: n.nancumsum(x, 1), HOLED),
    "nan_to_num of holes": (lambda n, x: n.nan_to_num(x), ODD),
    "var of infinities": (lambda n, x: n.var(x), ODD),
    "std of equals": (lambda n, x: n.std(x), ZEROS),
    "norm of zeros": (lambda n, x: n.linalg.norm(x), ZEROS),
    "norm of one axis of zeros": (lambda n, x: n.linalg.norm(x[None], axis=1), ZEROS),
    "1-norm of zeros": (lambda n, x: n.linalg.norm(x, 1), ZEROS),
    "inf-norm of zeros": (lambda n, x: n.linalg.norm(x, n.inf), ZEROS),
    "3-norm of zeros": (lambda n, x: n.linalg.norm(x, 3), ZEROS),
    "hypot of zeros": (lambda n, x: n.hypot(x, x), ZEROS),
    "abs of zeros": (lambda n, x: n.abs(x), ZEROS),
    "sqrt of zeros": (lambda n, x: n.sqrt(x), ZEROS),
    "prod of zeros": (lambda n, x: n.prod(x), ZEROS),
    "prod of one zero": (lambda n, x: n.prod(x), ONE_ZERO),
    "cumprod of one zero": (lambda n, x: n.cumprod(x), ONE_ZERO),
    "max of infinities": (lambda n, x: n.max(x[1:]), ODD),
    "sum of odd": (lambda n, x: n.sum(x), ODD),
    "mean of odd": (lambda n, x: n.mean(x), ODD),
    "logaddexp of infinities": (lambda n, x: n.logaddexp(x, 0.0), ODD[1:]),
    "maximum of odd": (lambda n, x: n.maximum(x, 0.0), ODD),
    "sinc of odd": (lambda n, x: n.sinc(x), ODD[:1]),
    "average": (lambda n, x: n.average(x, 1, weights=n.array([1.0, 2.0, 3.0, 4.0])), M),
    "matmul": (lambda n, x: x @ x.T, M),
    "einsum": (lambda n, x: n.einsum("ij,kj->ik", x, x), M),
    "tensordot": (lambda n, x: n.tensordot(x, x, ((0,), (0,))), M),
    "kron": (lambda n, x: n.kron(x, x), SQUARE),
    "cross": (lambda n, x: n.cross(x, x[::-1]), SQUARE),
    "trace": (lambda n, x: n.trace(x), SQUARE),
    "diag": (lambda n, x: n.diag(x), SQUARE),
    "tril": (lambda n, x: n.tril(x), SQUARE),
    "convolve": (lambda n, x: n.convolve(x, x[:2]), V),
    "pad": (lambda n, x: n.pad(x, ((1, 0), (2, 1)), mode="reflect"), M),
    "roll": (lambda n, x: n.roll(x, 1, 1), M),
    "repeat": (lambda n, x: n.repeat(x, 2, 1), M),
    "tile": (lambda n, x: n.tile(x, (2, 1)), M),
    "concatenate": (lambda n, x: n.concatenate([x, 2 * x], 1), M),
    "stack": (lambda n, x: n.stack([x, x * x]), M),
    "split": (lambda n, x: n.split(x, 2, 1)[1], M),
    "take": (lambda n, x: n.take(x, n.array([0, 2, 2]), axis=1), M),
    "index": (lambda n, x: x[1, ::2], M),
    "gradient": (lambda n, x: n.gradient(x, axis=1), M),
    "interp": (lambda n, x: n.interp(x, n.array([-2.0, 0.0, 3.0]), n.array([1.0, 5.0, 2.0])), V),
    "interp values": (lambda n, x: n.interp(0.3, n.arange(5.0), x), V),
    "trapezoid": (lambda n, x: n.trapezoid(x, axis=1), M),
    "polyval": (lambda n, x: n.polyval(x, 1.5), V),
    "linspace": (lambda n, x: n.linspace(x[0], x[1], 4), V),
    "array": (lambda n, x: n.array([x[0], 2.0 * x[1], 3.0]), V),
    "frexp": (lambda n, x: n.frexp(x)[0], V),
    "ldexp": (lambda n, x: n.ldexp(x, 3), V),
    "modf": (lambda n, x: n.modf(x)[0], V),
    "cov": (lambda n, x: n.cov(x), M),
    "vander": (lambda n, x: n.vander(x, 3), V),
}


def _gradient(fun: Fun, at: Any, second: bool = False) -> Callable[[Any], Any]:
    def run(lib: Any) -> Any:
        def scalar(x: Any) -> Any:
            out = fun(lib.numpy, x)
            weights = lib.numpy.cos(lib.numpy.arange(out.size, dtype="float32")).reshape(out.shape)
            return (out * weights).sum()

        x = lib.numpy.asarray(at)
        if not second:
            return lib.grad(scalar)(x)
        return lib.grad(lambda x: (lib.grad(scalar)(x) ** 2).sum())(x)

    return run


def cases() -> Iterator[Case]:
    for names, at in ((UNARY_ANY, V), (UNARY_POSITIVE, P)):
        for name in names:
            fun = lambda n, x, name=name: getattr(n, name)(x)
            yield Case("unary", name, _gradient(fun, at), 1e-4)
            if name not in ("sinc", "i0", "sign"):
                yield Case("unary twice", name, _gradient(fun, at, second=True), 1e-3)
    for name in BINARY:
        left = P if name == "power" else V
        by_left = lambda n, x, name=name: getattr(n, name)(x, W)
        by_right = lambda n, x, name=name, left=left: getattr(n, name)(left, x)
        yield Case("binary", f"{name} left", _gradient(by_left, left), 1e-4)
        yield Case("binary", f"{name} right", _gradient(by_right, W), 1e-4)
    for name, (fun, at) in SPECIAL.items():
        yield Case("special", name, _gradient(fun, at), 1e-4)


TOPIC = Topic("numpy_gradients", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
