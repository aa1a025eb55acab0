"""Operators that run a plan give what the functions give."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kiln
import kiln.numpy as jnp
from kiln import _runtime
from kiln.base.options.config import override
from kiln.core.operators import operators

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "__add__": operator.add,
    "__sub__": operator.sub,
    "__mul__": operator.mul,
    "__truediv__": operator.truediv,
    "__eq__": operator.eq,
    "__ne__": operator.ne,
    "__lt__": operator.lt,
    "__le__": operator.le,
    "__gt__": operator.gt,
    "__ge__": operator.ge,
}
UNARY: dict[str, Callable[[Any], Any]] = {"__neg__": operator.neg, "__abs__": abs}
DTYPES = ["float32", "float64", "int32", "int64", "bool", "int8", "bfloat16", "complex64"]
SPECIAL = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 3e38, 1e-45]


def same(got: Any, want: Any, *, nan_signs: bool = True) -> None:
    assert type(got) is type(want)
    assert got.aval == want.aval
    a, b = np.asarray(got), np.asarray(want)
    if got.dtype == jnp.bfloat16:
        a, b = a.astype(np.float32), b.astype(np.float32)
    np.testing.assert_array_equal(a, b)
    if b.dtype.kind == "f":
        told = ~np.isnan(b) | nan_signs
        np.testing.assert_array_equal(np.signbit(a) & told, np.signbit(b) & told)


def function(name: str) -> Callable[..., Any]:
    """Return the function behind an operator, which runs no plan of its own."""
    found: Callable[..., Any] = operators[name].__wrapped__  # type: ignore[attr-defined]
    return found


def functions(name: str, a: Any, b: Any) -> Any:
    """Apply by the functions, as where a trace is in force."""
    if isinstance(a, kiln.Array):
        return function(name)(a, b)
    reflected = {"__lt__": "__gt__", "__gt__": "__lt__", "__le__": "__ge__", "__ge__": "__le__"}
    if name in ("__eq__", "__ne__", *reflected):
        return function(reflected.get(name, name))(b, a)
    return function("__r" + name[2:])(b, a)


def operand(dtype: str, shape: tuple[int, ...], seed: int) -> Any:
    draw = np.random.default_rng(seed)
    if dtype == "float32" or dtype == "float64":
        return jnp.asarray(draw.choice(SPECIAL, shape), dtype)
    return jnp.asarray(draw.integers(-100, 100, shape), dtype)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary_operators(name: str, dtype: str, x64: bool) -> None:
    if (dtype == "complex64" and name[2] in "lg") or (dtype == "bool" and name == "__sub__"):
        return
    with kiln.enable_x64(x64), np.errstate(all="ignore"):
        for shape in [(), (1,), (7,), (3, 5), (0,), (1000,)]:
            a, b = operand(dtype, shape, 1), operand(dtype, shape, 2)
            pairs: list[tuple[Any, Any]] = [(a, b), (a, a), (a, 2), (2, a), (a, -1.5), (0.5, a)]
            pairs += [(a, True), (a, np.float32(2)), (np.int32(3), a), (a, jnp.float32(2))]
            for left, right in pairs:
                same(BINARY[name](left, right), functions(name, left, right))


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary_operators(name: str, dtype: str, x64: bool) -> None:
    if dtype == "bool" and name == "__neg__":
        return
    with kiln.enable_x64(x64):
        for shape in [(), (7,), (3, 5), (0,), (40000,)]:
            a = operand(dtype, shape, 1)
            same(UNARY[name](a), function(name)(a))


@given(
    st.sampled_from(sorted(BINARY)),
    st.lists(st.floats(width=32), min_size=1, max_size=20),
    st.one_of(st.floats(), st.integers(-(2**40), 2**40), st.booleans()),
)
def test_numbers_of_all_kinds(name: str, values: list[float], number: Any) -> None:
    a = jnp.asarray(np.asarray(values, np.float32))
    with np.errstate(all="ignore"):
        for left, right in [(a, number), (number, a)]:
            try:
                want = functions(name, left, right)
            except OverflowError:
                with pytest.raises(OverflowError):
                    BINARY[name](left, right)
                continue
            # Which sign two nans give, IEEE 754 leaves open (section 6.3).
            same(BINARY[name](left, right), want, nan_signs=False)


def test_weak_types_and_views() -> None:
    weak = jnp.asarray(2.0)
    assert (weak + 1).weak_type and (weak + weak).weak_type
    assert (weak + jnp.float32(1)).weak_type is False
    spread = jnp.ones((3, 4))
    turned = jnp.arange(12.0).reshape(3, 4).T.T
    same(spread + turned, function("__add__")(spread, turned))
    same(spread + spread, function("__add__")(spread, spread))


def test_operators_are_recorded_under_a_trace() -> None:
    x = jnp.arange(3.0)
    assert "add" in str(kiln.make_jaxpr(lambda y: x + x + y)(x))
    assert kiln.grad(lambda y: (x * y + y * y).sum())(x).tolist() == [0, 3, 6]
    assert kiln.vmap(lambda y: x + y)(x).shape == (3, 3)


def test_options_are_respected() -> None:
    x = jnp.arange(3.0)
    with override(debug_nans=True), pytest.raises(FloatingPointError):
        x / x
    compiled: list[str] = []
    with override(engine="xla"):
        same(x + x, function("__add__")(x, x))
    assert compiled == []


def test_deleted_arrays_are_refused() -> None:
    x = jnp.arange(3.0)
    x.delete()
    for use in (lambda: x + 1, lambda: 1 + x, lambda: x + x, lambda: -x, lambda: x < 2):
        with pytest.raises(RuntimeError, match="deleted"):
            use()


def test_what_arrays_cannot_be_combined_with() -> None:
    x = jnp.arange(3.0)
    for other in (None, "a", object(), [1, 2]):
        with pytest.raises(TypeError):
            x + other
        with pytest.raises(TypeError):
            other - x
    with pytest.raises((TypeError, ValueError), match="shape"):
        x + jnp.arange(4.0)

    class Other:
        def __radd__(self, x: Any) -> str:
            return "mine"

        def __add__(self, x: Any) -> str:
            return "mine too"

    assert x + Other() == "mine" and Other() + x == "mine too"


def test_numpy_arrays_give_way() -> None:
    x, v = jnp.arange(3.0), np.arange(3, dtype=np.float32)
    for made in (x + v, v + x, v * x, x - v, v / (x + 1), np.float32(2) * x):
        assert isinstance(made, kiln.Array)
    assert isinstance(v < x, kiln.Array) and isinstance(x == v, kiln.Array)
    with pytest.raises(TypeError):
        hash(x)


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int32", "int64", "int8", "bool", "bfloat16"]
)
@pytest.mark.parametrize("shape", [(4,), (), (2, 1), (0,)])
def test_numpy_operands_are_as_arrays(dtype: str, shape: tuple[int, ...]) -> None:
    given = np.arange(np.prod(shape)).reshape(shape).astype(jnp.dtype(dtype))
    x = jnp.arange(1.0, 5.0) if shape in ((4,), ()) else jnp.arange(1.0, 5.0)[: max(shape[:1])]
    for op in (operator.add, operator.sub, operator.mul, operator.truediv, operator.lt):
        for mine, theirs in (
            (op(x, given), op(x, jnp.asarray(given))),
            (op(given, x), op(jnp.asarray(given), x)),
        ):
            assert mine.aval == theirs.aval
            np.testing.assert_array_equal(mine, theirs)


def test_numpy_operands_that_are_no_numbers() -> None:
    x = jnp.ones(2)
    with pytest.raises(TypeError):
        x + np.array(["a", "b"])
    assert kiln.make_jaxpr(lambda x: x + np.ones(2, np.float32))(x).eqns[-1].primitive.name == "add"
    given = np.ones(2, np.float32)
    total = x + given
    given[:] = 7
    assert total.tolist() == [2, 2]


def test_numpy_operands_ask_no_function() -> None:
    def asked(*args: Any) -> Any:
        raise AssertionError(args)

    table: dict[str, Any] = {
        "__add__": _runtime.EagerFunction(asked, "add"),
        "__radd__": _runtime.EagerFunction(asked, "add", True),
        "__lt__": _runtime.EagerFunction(asked, "less"),
    }
    x, given = jnp.ones(3), np.arange(3, dtype=np.float32)
    _runtime.set_operator_table({**operators, **table})
    try:
        assert (x + given).tolist() == (given + x).tolist() == [1, 2, 3]
        assert (x < given).tolist() == [False, False, True]
        with pytest.raises(AssertionError):
            x + jnp.ones(())
    finally:
        _runtime.set_operator_table(operators)
    assert (x + jnp.ones(())).tolist() == [2, 2, 2]


def test_which_loops_a_function_may_be() -> None:
    swapped: Any = _runtime.EagerFunction(len, "subtract", True)
    x = jnp.arange(3.0)
    assert swapped(x, 1).tolist() == [1, 0, -1] and swapped(1, x).tolist() == [-1, 0, 1]
    negated: Any = _runtime.EagerFunction(len, "negative")
    assert negated(x).tolist() == [0, -1, -2] and negated([x]) == 1
    for name, is_swapped in (("argmax", False), ("none", False), ("negative", True)):
        with pytest.raises(ValueError, match="no loops"):
            _runtime.EagerFunction(len, name, is_swapped)
