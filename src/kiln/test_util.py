"""Derivatives checked against finite differences, for tests of programs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kiln.api.derivatives.linear import jvp, linearize, vjp
from kiln.base import dtypes
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.tree import tree_flatten, tree_leaves, tree_map
from kiln.core.trace import aval_of

__all__ = ["check_grads", "check_jvp", "check_vjp"]

STEP = 1e-4
"""The distance of the two points of a finite difference, where none is given."""

Tolerance = float | Mapping[Any, float] | None

TOLERANCES: dict[Any, float] = {
    "float8_e4m3b11fnuz": 1e-1,
    "float8_e4m3fn": 1e-1,
    "float8_e4m3fnuz": 1e-1,
    "float8_e5m2": 1e-1,
    "float8_e5m2fnuz": 1e-1,
    "bfloat16": 1e-1,
    "float16": 1e-2,
    "float32": 2e-3,
    "float64": 1e-5,
    "complex64": 1e-3,
    "complex128": 1e-5,
}
"""Of derivatives, relative and absolute, per element, by dtype; the values of `jax.test_util`."""


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float = STEP,
    err_msg: str = "",
) -> None:
    """Check `f_jvp(args, tangents)` against differences of `f`, in one random direction.

    Raises: AssertionError if values or derivatives differ by more than the tolerances.
    """
    args = tuple(args)
    direction = _random_like(np.random.RandomState(0), args)
    value, derivative = f_jvp(args, direction)
    expected = f(*args)
    _check_near(value, expected, atol, rtol, f"{err_msg} primal".strip())
    difference = _difference(f, args, direction, eps)
    _check_near(derivative, difference, atol, rtol, f"{err_msg} tangent".strip())


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float = STEP,
    err_msg: str = "",
) -> None:
    """Check `f_vjp(*args)` against differences of `f`, in one random direction.

    Raises: AssertionError if values or derivatives differ by more than the tolerances.
    """
    args = tuple(args)
    random = np.random.RandomState(0)
    value, pull = f_vjp(*args)
    _check_near(value, f(*args), atol, rtol, f"{err_msg} primal".strip())
    direction = _random_like(random, args)
    difference = _difference(f, args, direction, eps)
    cotangent = _random_like(random, value)
    pulled = tree_map(np.conj, pull(tree_map(np.conj, cotangent)))
    _check_near(
        _inner_product(direction, pulled),
        _inner_product(difference, cotangent),
        atol,
        rtol,
        f"{err_msg} cotangent projection".strip(),
    )


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: Tolerance = None,
    rtol: Tolerance = None,
    eps: float | None = None,
) -> None:
    """Check derivatives of a function up to an order against finite differences.

    `modes` are among "fwd" (`jvp`), "rev" (`vjp`), "lin" (`linearize`). Each derivative is checked
    in one random direction.

    Raises: AssertionError if a derivative differs by more than the tolerances, per element.
    Example:
        >>> kiln.test_util.check_grads(jnp.sin, (0.5,), order=2)
    """
    options: dict[str, Any] = {"atol": atol, "rtol": rtol, "eps": eps or STEP}

    def check(f: Callable[..., Any], args: Any, order: int, before: str) -> None:
        for mode, name, derived in (("fwd", "JVP", jvp), ("lin", "LIN", _jvp_by_linearize)):
            if mode in modes:
                text = f"{name} of {before}" if before else name
                derivative = functools.partial(derived, f)
                check_jvp(f, derivative, args, err_msg=text, **options)
                if order > 1:
                    check(derivative, (args, args), order - 1, text)
        if "rev" in modes:
            text = f"VJP of {before}" if before else "VJP"
            check_vjp(f, functools.partial(vjp, f), args, err_msg=text, **options)
            if order > 1:

                def pulled_back(*args: Any) -> Any:
                    value, pull = vjp(f, *args)
                    return pull(value)

                check(pulled_back, args, order - 1, text)

    check(f, tuple(args), order, "")


def _jvp_by_linearize(f: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    value, push = linearize(f, *primals)
    return value, push(*tangents)


def _random_like(random: np.random.RandomState, tree: Any) -> Any:
    def draw(x: Any) -> Any:
        aval = aval_of(x)
        shape = tuple(map(int, aval.shape))
        if aval.dtype == dtypes.float0 or not dtypes.issubdtype(aval.dtype, np.inexact):
            return np.zeros(shape, dtypes.float0)
        found = np.asarray(random.randn(*shape)).astype(aval.dtype)
        if dtypes.issubdtype(aval.dtype, np.complexfloating):
            found = found + aval.dtype.type(1j) * np.asarray(random.randn(*shape), aval.dtype)
        return found.item() if isinstance(x, (float, complex)) else found

    return tree_map(draw, tree)


def _difference(f: Callable[..., Any], args: Any, direction: Any, eps: float) -> Any:
    def moved(by: float) -> list[Any]:
        return [tree_map(lambda x, d: _step(x, d, by), x, d) for x, d in zip(args, direction)]

    def slope(above: Any, below: Any) -> Any:
        aval = aval_of(above)
        if not dtypes.issubdtype(aval.dtype, np.inexact):
            return np.zeros(aval.shape, dtypes.float0)
        high, low = np.asarray(above), np.asarray(below)
        with np.errstate(invalid="ignore"):
            # The difference of two infinities is nan.
            gap = np.where(high == low, np.zeros((), high.dtype), high - low)
        return (gap * np.asarray(0.5 / eps, high.dtype)).astype(high.dtype)

    return tree_map(slope, f(*moved(eps)), f(*moved(-eps)))


def _step(x: Any, direction: Any, by: float) -> Any:
    if getattr(direction, "dtype", None) == dtypes.float0:
        return x
    dtype = aval_of(x).dtype
    found = np.asarray(x, dtype) + np.asarray(direction, dtype) * np.asarray(by, dtype)
    return found.item() if isinstance(x, (float, complex)) else found.astype(dtype)


def _inner_product(xs: Any, ys: Any) -> Any:
    pairs = zip(tree_leaves(xs), tree_leaves(ys), strict=True)
    parts = [
        np.real(np.dot(np.conj(np.asarray(x)).reshape(-1), np.asarray(y).reshape(-1)))
        for x, y in pairs
        if aval_of(x).dtype != dtypes.float0
    ]
    return sum(parts[1:], start=parts[0]) if parts else np.float32(0)


def _tolerance(dtype: Any, given: Tolerance) -> float:
    name = dtypes.long_name(dtypes.canonicalize_dtype(dtype))
    if given is None or isinstance(given, Mapping):
        found = {dtypes.long_name(np.dtype(k)): v for k, v in (given or {}).items()}
        return float(found.get(name, TOLERANCES.get(name, 0.0)))
    return float(given)


def _check_near(found: Any, expected: Any, atol: Tolerance, rtol: Tolerance, text: str) -> None:
    ours, tree = tree_flatten(found)
    theirs, other = tree_flatten(expected)
    assert tree == other, f"{text}: results of structures {tree} and {other}"
    for x, y in zip(ours, theirs, strict=True):
        if aval_of(x).dtype == dtypes.float0:
            continue
        a, b = np.asarray(x), np.asarray(y)
        if not dtypes.issubdtype(a.dtype, np.inexact):
            np.testing.assert_array_equal(a, b, err_msg=text)
            continue
        assert a.shape == b.shape, f"{text}: shapes {a.shape} and {b.shape}"
        limits = [max(_tolerance(a.dtype, t), _tolerance(b.dtype, t)) for t in (atol, rtol)]
        wide = np.complex128 if np.iscomplexobj(a) else np.float64
        np.testing.assert_allclose(
            a.astype(wide),
            b.astype(wide),
            atol=limits[0] * a.size,
            rtol=limits[1] * b.size,
            err_msg=text,
        )


_suggest_names(globals())
