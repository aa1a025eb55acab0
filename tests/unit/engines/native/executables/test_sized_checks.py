"""Checks in programs with named sizes: one code for all sizes, the errors of each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.core.engines.engine import engine
from kiln.execution.compilation import on_compile

Program = Callable[..., Any]
FAULTS = (FloatingPointError, IndexError)
ROWS = ({0: "n"}, None)


def table(n: int) -> np.ndarray:
    return np.abs(np.random.RandomState(n).randn(n, 3)).astype(np.float32) + 0.5


def outcome(f: Program, args: tuple[Any, ...]) -> Any:
    """Return the message of the fault of a call, or its results."""
    try:
        return kiln.tree.map(np.asarray, f(*args))
    except FAULTS as error:
        return f"{type(error).__name__}: {error}"


def agree(f: Program, calls: list[tuple[Any, ...]], axes: Any = ROWS) -> list[str]:
    """Check calls against programs compiled for their sizes; return the faults.

    All calls run one executable.
    """
    sized = kiln.jit(f, check="nan,index", abstracted_axes=axes)
    names: list[str] = []
    stop = on_compile(lambda name, seconds: names.append(name))
    try:
        found = [outcome(sized, args) for args in calls]
        assert names.count(f.__name__) <= 1
    finally:
        stop()
    faults = []
    for args, mine in zip(calls, found, strict=True):
        theirs = outcome(kiln.jit(lambda *xs: f(*xs), check="nan,index"), args)
        if isinstance(mine, str):
            assert isinstance(theirs, str)
            # They name the function that was compiled.
            assert mine.replace(f.__name__, "<lambda>") == theirs.replace(f.__name__, "<lambda>")
            faults.append(mine)
        else:
            kiln.tree.map(
                lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-5), mine, theirs
            )
    return faults


def test_indices_are_compared_with_the_sizes_of_the_call() -> None:
    def picked(x: Any, i: Any) -> Any:
        return x[i] * 2

    calls = [(table(n), i) for n, i in ((5, 4), (5, 5), (300, 299), (300, 300), (1, 0), (1, 1))]
    faults = agree(picked, calls)
    assert len(faults) == 3
    assert "`dynamic_slice` of float32[300,3]" in faults[1]
    assert "index 300 is out of bounds for axis 0 with size 300" in faults[1]
    assert "may begin from 0 to 299 there" in faults[1]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32"])
def test_vectors_of_indices_of_any_width(dtype: str) -> None:
    def gathered(x: Any, i: Any) -> Any:
        return x.at[i].get(mode="promise_in_bounds"), x.at[i].add(1.0)

    def places(wrong: int | None, count: int = 37) -> np.ndarray:
        found = np.arange(count) % 4
        if wrong is not None:
            found[count - 3] = wrong
        return found.astype(dtype)

    calls = [
        (table(n), places(wrong))
        for n, wrong in ((9, None), (9, 9), (100, 9), (100, 100), (127, 126), (1000, 120))
    ]
    assert [fault.count("out of bounds") for fault in agree(gathered, calls)] == [1, 1]


def test_the_number_of_indices_is_named_too() -> None:
    def gathered(x: Any, i: Any) -> Any:
        return x[i].sum(0)

    calls = [
        (table(n), np.where(np.arange(m) == m - 1, last, 0))
        for n, m, last in ((5, 7, 4), (5, 7, 5), (3, 200, 2), (3, 200, 3), (200, 3, 199))
    ]
    assert len(agree(gathered, calls, ({0: "n"}, {0: "m"}))) == 2


def test_the_iteration_of_loops_over_a_named_axis() -> None:
    def rooted(x: Any, drop: Any) -> Any:
        def step(height: Any, row: Any) -> Any:
            return height - drop, jnp.sqrt(height) + row

        return lax.scan(step, jnp.float32(6.5), x)

    faults = agree(rooted, [(table(n), 1.0) for n in (3, 7, 8, 40)])
    assert len(faults) == 2
    assert all("iteration 7 of scan" in fault for fault in faults)

    def sliced(x: Any, size: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            return c + lax.dynamic_slice(x, (i * size, 0), (1, 3))

        return lax.fori_loop(0, x.shape[0], step, jnp.zeros((1, 3)))

    faults = agree(sliced, [(table(n), size) for n in (2, 5, 81) for size in (1, 2)])
    assert len(faults) == 3
    for n, fault in zip((2, 5, 81), faults, strict=True):
        assert f"iteration {(n + 1) // 2} of" in fault
        assert f"is out of bounds for axis 0 with size {n}" in fault
        assert f"may begin from 0 to {n - 1} there" in fault


@pytest.mark.parametrize("threads", [1, 2])
def test_a_nan_of_a_kernel_a_sum_and_an_element(threads: int) -> None:
    def combined(x: Any, shift: Any) -> Any:
        y = jnp.sort(jnp.log(x - shift), axis=0)
        return y, (y / jnp.sqrt(x.sum(0) - 1)).mean(), kiln.nn.softmax(y)

    with kiln.num_threads(threads):
        faults = agree(combined, [(table(n), s) for n in (4, 90, 5000) for s in (0.0, 3.0)])
    assert len(faults) == 3
    assert all("`log` of float32[" in fault for fault in faults)


def test_ahead_of_time_and_from_bytes() -> None:
    def picked(x: Any, i: Any) -> Any:
        return jnp.log(x[i] - 1)

    f = kiln.jit(picked, check="nan,index", abstracted_axes=ROWS)
    ahead = f.lower(table(5) + 1, 2).compile()
    with pytest.raises(IndexError, match="axis 0 with size 7"):
        ahead(table(7) + 1, 9)
    with pytest.raises(FloatingPointError, match="`log` of float32"):
        ahead(table(8) * 0, 1)
    compiler = engine("native").compiler
    program = ahead._program.program
    stored = compiler.serialize(ahead._program.base.executable)
    loaded = compiler.load(program, stored).for_sizes([6])
    with pytest.raises(IndexError, match="axis 0 with size 6"):
        loaded([table(6), np.int32(6)])


def test_loops_show_sizes_in_checks() -> None:
    f = kiln.jit(lambda x, i: x[i], check="index", abstracted_axes=ROWS)
    with override(check=True):
        text = f.lower(table(5), np.arange(3)).as_text("loops")
    assert "size n-1" in text
    assert "within#0" in text


def test_loops_that_do_not_run_report_nothing_of_their_turns() -> None:
    def f(x: Any, i: Any) -> Any:
        def turn(carry: Any, row: Any) -> Any:
            # Invariant, and expensive.
            return carry + jnp.sin(jnp.exp(jnp.log(x[0, i] - 9))) * row, None

        return lax.scan(turn, jnp.ones(3), x[1:])[0]

    assert agree(f, [(table(1), 7)]) == []
    assert agree(f, [(table(1), 0)]) == []
    sized = kiln.jit(f, check="nan,index", abstracted_axes=ROWS)
    np.testing.assert_array_equal(sized(table(1), 0), np.ones(3))
    with pytest.raises(FloatingPointError, match="`log` of float32"):
        sized(table(2), 0)
    with pytest.raises(IndexError, match="index 7"):
        sized(table(2), 7)
