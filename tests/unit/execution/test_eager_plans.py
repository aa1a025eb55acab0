"""Eager functions give what they give otherwise, and run no Python for a call like one before."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import _runtime, lax
from kiln.base.options.config import override
from kiln.execution.eager import EVAL
from kiln.execution.eager_plans import clear, eager, plan_of

SHAPES = [(), (1,), (7,), (3, 5), (0,), (2, 0), (2, 3, 4), (1500,)]
DTYPES = ["float32", "int32", "bool", "uint8", "bfloat16", "complex64"]
SPECIAL = [0.0, -0.0, 1.0, 0.5, -1.5, 2.5, np.inf, -np.inf, np.nan, 3e38, 1e-45]

UNARY: list[Callable[[Any], Any]] = [
    *(jnp.exp, jnp.sin, jnp.sqrt, jnp.tanh, jnp.log, jnp.abs, jnp.square, jnp.floor, jnp.isnan),
    *(jnp.sign, jnp.rint, jnp.trunc, jnp.log2, jnp.isfinite, jnp.reciprocal, jnp.logical_not),
    *(jnp.ravel, jnp.transpose, jnp.squeeze, jnp.zeros_like, jnp.ones_like, jnp.argmax),
    *(jnp.sum, jnp.mean, jnp.max, jnp.min, jnp.prod, jnp.any, jnp.all, jnp.var, jnp.argmin),
    *(jnp.cumsum, jnp.cumprod, jnp.sort, lax.exp, lax.neg, lax.rsqrt, lax.logistic),
    lambda x: x.astype("int32"),
    lambda x: x.astype(jnp.float32),
    lambda x: x.astype(bool),
    lambda x: x**2,
    lambda x: x**3,
    lambda x: x // 2,
    lambda x: x % 3,
    lambda x: 5 % x,
    lambda x: jnp.clip(x, 0, 1),
    lambda x: jnp.maximum(x, 0),
    lambda x: jnp.where(x, x, 1),
    lambda x: x.reshape(-1),
    lambda x: x[None],
    lambda x: jnp.expand_dims(x, -1),
    lambda x: jnp.broadcast_to(x, (2, *x.shape)),
    lambda x: jnp.stack([x, x], axis=-1),
    lambda x: jnp.concatenate([x.reshape(-1), x.reshape(-1)]),
    lambda x: jnp.sum(x, axis=0),
    lambda x: jnp.max(x, axis=-1, keepdims=True),
    lambda x: jnp.argmax(x, axis=0),
    lambda x: jnp.cumsum(x, axis=-1),
    lambda x: jnp.flip(x),
    lambda x: x[0],
    lambda x: x[1:3],
    lambda x: x[::-1],
    lambda x: x[..., 0],
    lambda x: x.at[0].set(x[-1]),
    lambda x: x.at[..., 0].add(x[..., -1]),
    lambda x: jnp.split(x, 1),
    lambda x: jnp.divmod(x, 2),
]
BINARY: list[Callable[[Any, Any], Any]] = [
    *(jnp.add, jnp.subtract, jnp.multiply, jnp.divide, jnp.maximum, jnp.minimum, jnp.power),
    *(jnp.floor_divide, jnp.remainder, jnp.fmod, jnp.equal, jnp.less, jnp.logical_and),
    *(jnp.bitwise_xor, jnp.arctan2, jnp.dot, jnp.outer, lax.max, lax.rem, lax.div, lax.pow),
    lambda x, y: jnp.where(x > y, x, y),
    lambda x, y: lax.clamp(y, x, y),
    lambda x, y: x.at[0].set(y[0].astype(x.dtype)),
]


def operand(dtype: str, shape: tuple[int, ...], seed: int) -> Any:
    draw = np.random.default_rng(seed)
    if dtype in ("float32", "bfloat16"):
        return jnp.asarray(draw.choice(SPECIAL, shape), dtype)
    if dtype == "bool":
        return jnp.asarray(draw.integers(0, 2, shape), dtype)
    low = 0 if dtype == "uint8" else -100
    return jnp.asarray(draw.integers(low, 100, shape), dtype)


def by_functions(fun: Callable[..., Any], *args: Any) -> Any:
    """Call with nothing known."""
    clear()
    return fun(*args)


def same(got: Any, want: Any, rounding: float = 0) -> None:
    if isinstance(want, (tuple, list)):
        assert type(got) is type(want) and len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            same(a, b, rounding)
        return
    assert type(got) is type(want) and got.dtype == want.dtype and got.shape == want.shape
    assert getattr(got, "aval", None) == getattr(want, "aval", None)
    if rounding:
        np.testing.assert_allclose(got, want, rtol=rounding, atol=rounding)
    else:
        assert np.asarray(got).tobytes() == np.asarray(want).tobytes()


def runs() -> int:
    return _runtime.plan_statistics()["runs"]


def check(fun: Callable[..., Any], *args: Any, rounding: float = 0) -> bool:
    """Compare the third call with the first; tell whether a plan ran."""
    try:
        with np.errstate(all="ignore"):
            want = by_functions(fun, *args)
    except Exception as error:  # noqa: BLE001
        for _ in range(3):
            with pytest.raises(type(error)):
                fun(*args)
        return False
    fun(*args)
    before = runs()
    same(fun(*args), want, rounding)
    return runs() > before


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_functions_of_one_array(shape: tuple[int, ...], dtype: str) -> None:
    x = operand(dtype, shape, 1)
    planned = [check(fun, x) for fun in UNARY]
    assert sum(planned) > len(UNARY) // 3


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_functions_of_two_arrays(shape: tuple[int, ...], dtype: str) -> None:
    x, y = operand(dtype, shape, 1), operand(dtype, shape, 2)
    for fun in BINARY:
        check(fun, x, y)
        check(fun, x, operand("int32", (), 3))
        check(fun, operand("float32", (5,), 4), y)


def dense(x: Any) -> Any:
    """Lay the elements out in row-major order: how BLAS rounds depends on it."""
    return jnp.asarray(np.ascontiguousarray(np.asarray(x)))


def test_matrices() -> None:
    """The order in which NumPy's BLAS adds depends on the layout, on some processors."""
    draw = np.random.default_rng(0)
    for m, n, p in [(1, 1, 1), (3, 4, 5), (1, 8, 1), (8, 1, 3), (40, 30, 20), (1, 7, 5), (6, 7, 1)]:
        x, y = (jnp.asarray(draw.normal(size=s), "float32") for s in ((m, n), (n, p)))
        for fun, args in [
            (jnp.matmul, (x, y)),
            (jnp.dot, (x, y[:, 0])),
            (jnp.dot, (x[0], y)),
            (jnp.dot, (x[0], y[:, 0])),
            (lambda x, y: jnp.tensordot(x, y, ((0, 1), (1, 0))), (x, dense(x.T))),
            (lambda x, y: jnp.einsum("ij,kj->ik", x, y), (x, dense(y.T))),
        ]:
            assert check(fun, *args, rounding=5e-6)


def test_creation() -> None:
    for fun in (
        lambda: jnp.zeros(8),
        lambda: jnp.ones((2, 3), "int32"),
        lambda: jnp.full((3,), 2.5),
        lambda: jnp.arange(5),
        lambda: jnp.arange(2.0, 5.0, 0.5),
        lambda: jnp.linspace(0, 1, 9),
        lambda: jnp.eye(4),
        lambda: jnp.zeros((0, 3)),
    ):
        assert check(fun)


def test_a_new_shape_compiles_nothing() -> None:
    def work(n: int) -> Any:
        x = jnp.ones((n, 2))
        y = jnp.where(x > 0, jnp.exp(x) @ jnp.ones((2, 2)), x // 2)
        return jnp.concatenate([y.T.reshape(-1), y[0], y.sum(axis=1), jnp.argmax(y, axis=0)])

    EVAL.programs.clear()
    for n in range(10, 14):
        assert check(work, n)
    # Twice by the meanings of its primitives, then by a plan: nothing is compiled for any.
    assert {program.engine.name for _, program in EVAL.programs.items()} == {"reference"}


def test_no_python_runs_for_a_call_like_one_before() -> None:
    calls = []

    @eager
    def doubled(x: Any) -> Any:
        calls.append(x)
        return x + x

    x = jnp.arange(5.0)
    for _ in range(6):
        assert doubled(x).tolist() == [0, 2, 4, 6, 8]
    # Twice for the result, once recorded.
    assert len(calls) == 3
    assert doubled(jnp.arange(6.0)).shape == (6,) and len(calls) == 4
    clear()
    doubled(x)
    assert len(calls) == 5


def test_types_options_and_numbers_tell_calls_apart() -> None:
    x = jnp.arange(4.0)
    weak = jnp.asarray(2.0)
    for _ in range(4):
        assert jnp.add(x, 1).tolist() == [1, 2, 3, 4]
        assert jnp.add(x, 2).tolist() == [2, 3, 4, 5]
        assert jnp.add(x, True).tolist() == [1, 2, 3, 4]
        assert jnp.add(x, 1.0).dtype == jnp.float32
        assert jnp.add(weak, 1).weak_type and not jnp.add(jnp.float32(2), 1).weak_type
        assert np.signbit(np.asarray(jnp.multiply(x, -0.0))).all()
        assert not np.signbit(np.asarray(jnp.multiply(x, 0.0))).any()
        assert jnp.zeros(3).dtype == jnp.float32
        with kiln.enable_x64(True):
            assert jnp.zeros(3).dtype == jnp.float64
            assert jnp.arange(3).dtype == jnp.int64
        assert jnp.arange(3).dtype == jnp.int32
        assert x.astype("int32").dtype == jnp.int32 and x.astype("float32") is x
        assert jnp.sum(x, axis=0).shape == () and jnp.sum(x, axis=0, keepdims=True).shape == (1,)
        assert jnp.stack([x, x]).shape == (2, 4) and jnp.stack([x, x], 1).shape == (4, 2)
        assert x[1:3].tolist() == [1, 2] and x[1:2].tolist() == [1] and x[-1].item() == 3


def test_calls_with_values_in_them_are_calls_of_the_function() -> None:
    for values in ([True, False, True], [True, True, False]):
        x, mask = jnp.arange(3.0), jnp.asarray(values)
        for _ in range(4):
            assert x[mask].tolist() == np.arange(3.0)[values].tolist()
    for start in (0, 1, 5):
        for _ in range(4):
            assert jnp.arange(jnp.int32(start), 6).tolist() == list(range(start, 6))
    for at in ([0, 2], [1, 1]):
        for _ in range(4):
            assert jnp.arange(3.0)[jnp.asarray(at)].tolist() == at


def test_transformations_see_the_function() -> None:
    x = jnp.arange(3.0) + 1
    for _ in range(4):
        assert jnp.sin(x).shape == (3,)
        assert "sin" in str(kiln.make_jaxpr(jnp.sin)(x))
        assert kiln.vmap(jnp.sum)(jnp.ones((2, 3))).tolist() == [3, 3]
        np.testing.assert_allclose(np.asarray(kiln.grad(lambda x: jnp.sin(x).sum())(x)), np.cos(x))
        assert kiln.jit(jnp.sin)(x).shape == (3,)
        assert kiln.jit(jnp.sum, static_argnames="axis")(x, axis=0).shape == ()


def test_options_that_ask_for_more_are_respected() -> None:
    x = jnp.zeros(3)
    for _ in range(4):
        assert np.isnan(np.asarray(jnp.divide(x, x))).all()
    with override(debug_nans=True), pytest.raises(FloatingPointError):
        jnp.divide(x, x)
    before = runs()
    with override(engine="xla"):
        jnp.divide(x, x)
    assert runs() == before


def test_a_warning_is_given_each_time() -> None:
    x, y = jnp.ones((2, 3)), jnp.ones(3)
    with override(numpy_rank_promotion="warn"):
        for _ in range(4):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                jnp.maximum(x, y)
            assert len(caught) == 1


def test_errors_are_those_of_the_function() -> None:
    x = jnp.ones(3)
    for _ in range(4):
        with pytest.raises(TypeError, match="incompatible shapes"):
            jnp.maximum(x, jnp.ones(4))
        with pytest.raises(TypeError, match="cannot reshape"):
            x.reshape(2)
        with pytest.raises(TypeError, match="requires ndarray or scalar"):
            jnp.sin("a")
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jnp.sin(x)


def test_results_do_not_depend_on_the_memory_of_operands() -> None:
    x = jnp.arange(12.0).reshape(3, 4)
    long = jnp.arange(4000.0)
    for _ in range(4):
        views = [x.T, x.reshape(-1), x[0], x[None], long.reshape(40, 100), long[None]]
    same_array = [x.astype("float32"), jnp.asarray(x), x.reshape(3, 4)]
    assert all(y is x for y in same_array)
    assert not any(y is x for y in views)
    copied = jnp.array(x)
    x.delete()
    long.delete()
    assert copied[0, 1].item() == 1 and views[0].shape == (4, 3) and views[1][5].item() == 5
    assert views[4][1, 0].item() == 100 and views[5][0, 7].item() == 7
    for view in views:
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(view)[...] = 0


def test_a_copy_of_an_operand_is_made_each_time() -> None:
    x = jnp.arange(3.0)
    # A plan would return the operand, as the function does when it is recorded.
    assert plan_of(lambda x: x, (x,), {}, jnp.array(x)) is None
    assert plan_of(lambda x: [x, x + 1], (x,), {}, [jnp.array(x), x + 1]) is None
    assert plan_of(lambda x: [x, x + 1], (x,), {}, [x, x + 1]) is not None


def test_donation_leaves_results_alone() -> None:
    f = kiln.jit(lambda v: v + 1, donate_argnums=0)
    for size in (8, 4096):
        for _ in range(4):
            x = kiln.jit(lambda v: v * 2)(jnp.arange(float(size)))
            rows = x.reshape(2, -1)
            y = f(x)
            assert rows[0, 1].item() == 2 and rows[1, -1].item() == 2 * (size - 1)
            z = f(rows)
            assert y[1].item() == 3 and z.shape == (2, size // 2)


def test_places_are_kept() -> None:
    device = kiln.devices()[0]
    x = jnp.ones(3)
    placed = kiln.device_put(x, device)
    for _ in range(4):
        assert jnp.sin(x).committed is False
        assert jnp.sin(placed).committed is placed.committed


def test_plans_are_bounded() -> None:
    clear()
    for n in range(9000):
        jnp.maximum(1.0, float(n))
    assert _runtime.plan_statistics()["known"] < 100
    with override(eager_cache_mb=0):
        for n in range(3):
            check(jnp.sin, jnp.ones(n + 1))
        assert _runtime.plan_statistics()["known"] <= 1
    check(jnp.sin, jnp.ones(3))
    assert _runtime.plan_statistics()["known"] >= 1
    kiln.clear_caches()
    assert _runtime.plan_statistics()["known"] == 0
