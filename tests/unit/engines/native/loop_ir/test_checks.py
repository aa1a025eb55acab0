"""Programs compiled with checks: what they find, where they say it is, and what they let pass."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override

Program = Callable[..., Any]


def nan_of(f: Program, *args: Any, **options: Any) -> str:
    """Return the first line of the error of the first nan."""
    with pytest.raises(FloatingPointError) as found:
        kiln.jit(f, check="nan", **options)(*args)
    lines = str(found.value).splitlines()
    assert len(lines) == 3
    return lines[0]


def index_of(f: Program, *args: Any) -> tuple[str, str]:
    """Return what was asked and what is wrong of the first index out of bounds."""
    with pytest.raises(IndexError) as found:
        kiln.jit(f, check="index")(*args)
    lines = str(found.value).splitlines()
    assert len(lines) == 3
    return lines[0], lines[1]


def passes(f: Program, *args: Any) -> None:
    """Check that checks find nothing, and change nothing but the order of sums."""
    expected = kiln.tree.leaves(kiln.jit(f)(*args))
    found = kiln.tree.leaves(kiln.jit(f, check="nan,index")(*args))
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def line_of(text: str) -> int:
    """Return the line of this file that contains a text, once."""
    lines = inspect.getsource(inspect.getmodule(line_of)).splitlines()  # type: ignore[arg-type]
    (found,) = [i for i, line in enumerate(lines, 1) if line.strip().endswith(f"# {text}")]
    return found


# Loops.


def test_the_iteration_of_a_scan() -> None:
    def falling(start: Any) -> Any:
        def step(height: Any, drop: Any) -> Any:
            return height - drop, jnp.sqrt(height)  # the root

        return lax.scan(step, start, jnp.ones(12))

    asked = nan_of(falling, 6.5)
    assert re.fullmatch(
        rf"`sqrt` of float32\[\] at .*test_checks.py:{line_of('the root')} in step, "
        r"iteration 7 of scan at .*test_checks.py:\d+",
        asked,
    )


def test_the_iteration_of_a_while_loop_and_of_the_inner_one() -> None:
    def outer(x: Any) -> Any:
        def inner(i: Any, x: Any) -> Any:
            return lax.fori_loop(0, 5, lambda j, y: y + jnp.log(8.5 - i - j), x)

        return lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, inner(*c)), (0, x))

    # Of the turn 5, the turn 4 is the first to see less than 0.
    asked = nan_of(outer, 1.0)
    assert asked.startswith("`log` of float32[]")
    assert ", iteration 4 of " in asked
    assert asked.count(" of ") == 2


def test_a_while_loop_whose_condition_computes_a_nan() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda x: ~(jnp.sqrt(x) < 0.5), lambda x: x - 1, x)

    assert "iteration 4 of while" in nan_of(f, 3.5)


def test_a_loop_over_vectors_and_one_that_does_not_run() -> None:
    def f(n: Any, x: Any) -> Any:
        return lax.fori_loop(0, n, lambda i, y: y + jnp.log(x - 3), x)

    x = jnp.linspace(0.0, 1.0, 1000)
    assert "iteration 0 of while" in nan_of(f, 4, x)
    passes(f, 0, x)


def test_what_is_the_same_in_each_turn() -> None:
    def f(x: Any) -> Any:
        return lax.scan(lambda y, _: (y + jnp.log(x).sum(), None), 0.0, None, length=50)[0]

    assert nan_of(f, jnp.array([1.0, -1.0] * 300)).startswith("`log` of float32[600]")


# Branches.


def test_only_the_branch_that_runs_is_checked() -> None:
    def cheap(flag: Any, x: Any) -> Any:
        return lax.cond(flag, jnp.sqrt, lambda x: x * 2, x)

    def dear(flag: Any, x: Any) -> Any:
        return lax.cond(flag, lambda x: jnp.log(x).cumsum(), lambda x: jnp.exp(x), x)

    assert "`sqrt`" in nan_of(cheap, True, -1.0)
    passes(cheap, False, -1.0)
    x = jnp.array([1.0, 2.0, -3.0])
    assert "`log`" in nan_of(dear, True, x)
    passes(dear, False, x)


def test_a_branch_in_a_loop() -> None:
    def f(x: Any) -> Any:
        def step(y: Any, i: Any) -> Any:
            return lax.cond(i == 7, lambda y: jnp.log(-y), lambda y: y + 1, y), None

        return lax.scan(step, x, jnp.arange(9))

    assert ", iteration 7 of scan" in nan_of(f, 1.0)


def test_what_where_discards_is_checked_and_what_nothing_needs_is_not() -> None:
    assert "`sqrt`" in nan_of(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0), jnp.array([1.0, -1.0]))

    def f(x: Any) -> Any:
        jnp.log(x)
        return x + 1

    passes(f, jnp.array([1.0, -1.0]))


def test_what_lies_beside_a_window_is_left_out() -> None:
    def f(x: Any) -> Any:
        add = lambda a, b: a + jnp.sqrt(b)
        return lax.reduce_window(x, np.float32(0), add, (2,), (1,), ((2, 0),))

    # Infinity times the zero that lies beside its window.
    def g(x: Any) -> Any:
        multiply = lambda a, b: a * b + 0
        return lax.reduce_window(
            x, np.float32(1), multiply, (2,), (1,), ((0, 2),), window_dilation=(2,)
        )

    assert nan_of(f, jnp.array([1.0, -1.0, 2.0])).startswith("`reduce_window` of float32[3]")
    passes(f, jnp.array([1.0, 1.0, 2.0]))
    passes(g, jnp.array([1.0, np.inf, 0.0]))


# One program.


def test_the_first_equation_is_reported_wherever_its_nan_is() -> None:
    def f(x: Any, y: Any) -> Any:
        a = jnp.sqrt(x)
        b = jnp.log(y)
        return a * 2 + b

    size = 100_000
    x, y = np.ones((2, size), np.float32)
    y[3], x[size - 1] = -1, -1
    assert "`sqrt`" in nan_of(f, x, y)
    assert "`log`" in nan_of(f, np.ones(size, np.float32), y)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("where", [0, 1, 4095, 4096, 77_777, 299_999])
def test_one_nan_among_many_on_threads(where: int, threads: int) -> None:
    x = np.ones(300_000, np.float32)
    x[where] = -1
    f = kiln.jit(lambda x: jnp.log(x) * 2 + 1, check="nan")
    with kiln.num_threads(threads):
        f(abs(x))
        with pytest.raises(FloatingPointError, match="`log`"):
            f(x)
        f(abs(x))


@pytest.mark.parametrize("size", [1, 2, 7, 8, 15, 17, 31, 33, 63, 65, 100, 1001])
def test_lanes_that_do_not_count_are_not_checked(size: int) -> None:
    x = jnp.arange(1.0, size + 1)
    passes(lambda x: 1 / x + x / x, x)
    passes(lambda x: (jnp.log(x) / x).sum(), x)
    passes(lambda x: (0 / x[:, None] + x).sum(0), x)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64", "complex64"])
def test_dtypes(dtype: str) -> None:
    with override(enable_x64=True):
        x = jnp.array([1, 0, 2], dtype)
        assert "`mul`" in nan_of(lambda x: x * np.inf * x, x)
        passes(lambda x: x * x, x)


def test_sums_products_kernels_and_what_follows_them() -> None:
    inf = jnp.array([1.0, np.inf, -np.inf, 2.0])
    assert "`reduce_sum`" in nan_of(jnp.sum, inf)
    assert "`cumsum`" in nan_of(lambda x: jnp.cumsum(x) * 2, inf)
    assert "`dot_general`" in nan_of(lambda x: jnp.dot(x, jnp.ones(4)), inf)
    assert "`fft`" in nan_of(lambda x: jnp.fft.fft(x).real, inf)
    passes(lambda x: jnp.sort(x), inf)
    passes(lambda x: jnp.exp(x).max(), inf)
    a = jnp.array(np.random.RandomState(0).rand(40, 40).astype("f4"))
    passes(lambda a: jnp.linalg.solve(a @ a.T + jnp.eye(40), a).sum(0), a)


def test_transformations() -> None:
    def f(x: Any) -> Any:
        return jnp.sqrt(x).sum()

    assert "`sqrt`" in nan_of(kiln.grad(f), jnp.array([1.0, -1.0]))
    assert "`sqrt`" in nan_of(kiln.vmap(f), jnp.array([[1.0, 2.0], [3.0, -4.0]]))
    assert "`sqrt`" in nan_of(kiln.jit(f), jnp.array([1.0, -1.0]))


def test_nan_that_is_an_argument_is_found_where_it_is_used() -> None:
    x = jnp.array([1.0, np.nan])
    assert "`add`" in nan_of(lambda x: x + 1, x)
    passes(lambda x: jnp.isnan(x), x)


def test_a_nan_that_pow_hides() -> None:
    assert "`log`" in nan_of(lambda x: jnp.log(x) ** 0.0, jnp.array([1.0, -1.0]))


def test_whole_programs_are_as_they_were() -> None:
    def train(x: Any, w: Any) -> Any:
        def loss(w: Any) -> Any:
            return (jnp.tanh(x @ w) ** 2).mean()

        return lax.scan(lambda w, _: (w - kiln.grad(loss)(w), loss(w)), w, None, length=5)

    rng = np.random.RandomState(0)
    passes(train, rng.rand(50, 20).astype("f4"), rng.rand(20, 3).astype("f4"))
    passes(lambda key: kiln.random.normal(key, (1000,)), kiln.random.key(0))


# Indices.


def test_a_dynamic_slice_in_a_loop() -> None:
    def f(x: Any) -> Any:
        def step(total: Any, i: Any) -> Any:
            return total + lax.dynamic_slice(x, (i,), (4,)).sum(), None

        return lax.scan(step, 0.0, jnp.arange(9))

    passes(f, jnp.arange(12.0))
    asked, wrong = index_of(f, jnp.arange(10.0))
    assert re.search(r"`dynamic_slice` of .* in step, iteration 7 of scan", asked)
    assert wrong.startswith("index 7 is out of bounds for axis 0 with size 10")
    assert wrong.endswith("from 0 to 6 there")


def test_a_dynamic_update_slice() -> None:
    def f(x: Any, i: Any, j: Any) -> Any:
        return lax.dynamic_update_slice(x, jnp.ones((2, 3)), (i, j))

    x = jnp.zeros((5, 6))
    passes(f, x, 3, 3)
    assert "index 4 is out of bounds for axis 1 with size 6" in index_of(f, x, 3, 4)[1]
    assert "index -2 is out of bounds for axis 0 with size 5" in index_of(f, x, -7, 0)[1]
    assert "index 2147483647 is" in index_of(f, x, 2**31 - 1, 0)[1]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32"])
@pytest.mark.parametrize("size", [1, 5, 40, 5000])
def test_gathers_of_all_kinds_of_indices(dtype: str, size: int) -> None:
    x = jnp.arange(10.0)
    at = np.arange(size).astype(dtype) % 10
    passes(lambda x, i: x[i], x, at)
    passes(lambda x, i: x.at[i].add(1.0), x, at)
    at[size // 2] = 10
    for f in (lambda x, i: x[i], lambda x, i: x.at[i].set(1.0)):
        asked, wrong = index_of(f, x, at)
        assert "index 10 is out of bounds for axis 0 with size 10" in wrong


def test_negative_indices_are_counted_from_the_end() -> None:
    x = jnp.arange(10.0)
    passes(lambda x, i: x[i], x, np.array([-1, -10, 9]))
    assert "index -1 is out of bounds" in index_of(lambda x, i: x[i], x, np.array([-11]))[1]


def test_rows_columns_and_clipped_indices() -> None:
    x = jnp.arange(60.0).reshape(6, 10)
    assert "axis 1 with size 10" in index_of(lambda x, j: x[:, j], x, np.array([0, 10]))[1]
    assert "axis 0 with size 6" in index_of(lambda x, i, j: x[i, j], x, 6, 10)[1]
    passes(lambda x, i: x.at[i].get(mode="clip"), x, np.array([0, 100]))
    passes(lambda x, i: jnp.take(x, i, axis=0, mode="clip"), x, np.array([0, 100]))


def test_both_checks_report_what_comes_first() -> None:
    f = kiln.jit(lambda x, i: jnp.log(x)[i], check="nan,index")
    with pytest.raises(IndexError):
        f(jnp.ones(3), 3)
    with pytest.raises(FloatingPointError):
        f(-jnp.ones(3), 3)
    assert float(f(jnp.ones(3), 2)) == 0


# Options.


def test_ahead_of_time_and_by_the_option_of_the_compiler() -> None:
    lowered = kiln.jit(jnp.sqrt).lower(1.0)
    with pytest.raises(FloatingPointError):
        lowered.compile({"check": "nan"})(-1.0)
    assert np.isnan(lowered.compile()(-1.0))
    assert "checked" in kiln.jit(jnp.sqrt, check="nan").lower(1.0).compile().as_text("loops")


def test_errors_of_the_option() -> None:
    with pytest.raises(ValueError, match="no such check: 'nans'"):
        kiln.jit(jnp.sqrt, check="nans")
    with pytest.raises(ValueError, match="no such check: 7"):
        kiln.jit(jnp.sqrt, check=7)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="there is no check of 'inf'"):
        kiln.jit(jnp.sqrt).lower(1.0).compile({"check": "inf"})
    f = kiln.jit(lambda x: jnp.sin(x) + 11, check="nan")
    with override(engine="xla"), pytest.raises(Exception, match="check"):
        f(1.0)
    inner = kiln.jit(jnp.sqrt, check="nan")
    with pytest.raises(ValueError, match="check='nan'"):
        kiln.jit(lambda x: inner(x))(1.0)


def test_loops_of_all_kinds_within_loops() -> None:
    def f(x: Any) -> Any:
        def step(y: Any, i: Any) -> Any:
            y = lax.fori_loop(0, i, lambda _, y: y + jnp.log(y), y)
            y = lax.scan(lambda y, k: (jnp.sqrt(y + k), None), y, jnp.arange(3.0))[0]
            return lax.while_loop(lambda y: y < 1, lambda y: y * 2 + 1, y), y

        return lax.scan(step, x, jnp.arange(6))

    passes(f, 2.0)
    assert "iteration 0 of scan" in nan_of(f, -2.0)
