"""Stencils are computed several rows at a time, with the bits that they have row by row."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.engines.native.passes.unrolling.jam import FEWEST_LOADS
from tests.unit.engines.native.passes.agreement import agree, numbers


def windows(x: np.ndarray, rows: int = 3, columns: int = 3, step: int = 1) -> object:
    """Sum the elements of each window, with other weights."""
    height, width = x.shape[0] - (rows - 1) * step, x.shape[1] - columns + 1
    parts = [
        (i * columns + j + 1) * x[i * step : i * step + height, j : j + width]
        for i in range(rows)
        for j in range(columns)
    ]
    return sum(parts[1:], parts[0])


def loads_of(program: object, *args: np.ndarray) -> tuple[int, int]:
    """Return how many loads and how many stores the loops of a program have."""
    text = kiln.jit(program).lower(*args).as_text("loops")
    return len(re.findall(r" = %i", text)), len(re.findall(r"%o\d+\[.*\] = v", text))


@pytest.mark.parametrize(("rows", "stores"), [(34, 4), (35, 3), (36, 2), (37, 1), (33, 1)])
def test_rows_that_divide_the_axis_are_computed_together(rows: int, stores: int) -> None:
    x = numbers(rows, 34)
    agree(windows, (x,))
    assert loads_of(windows, x) == (3 * (stores + 2), stores)


def test_axes_between_rows_and_columns() -> None:
    def depthwise(x: np.ndarray, w: np.ndarray) -> object:
        parts = [x[:, i : i + 16, j : j + 16] * w[i, j] for i in range(3) for j in range(3)]
        return jnp.maximum(sum(parts[1:], parts[0]), 0)

    x, w = numbers(2, 18, 18, 40), numbers(3, 3, 40, seed=1)
    agree(depthwise, (x, w))
    # Columns of a window are neighbors too: of 4, 18 elements and the 9 weights.
    assert loads_of(depthwise, x, w) == (18 + 9, 4)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: windows(x, 1, FEWEST_LOADS - 1),
        lambda x: windows(x, 1, FEWEST_LOADS),
        lambda x: windows(x, 3, 3, step=5),
    ],
)
def test_windows_without_common_elements_stay(program: object) -> None:
    x = numbers(48, 40)
    agree(program, (x,))
    assert loads_of(program, x)[1] == 1


def test_a_donated_operand() -> None:
    def smoothed(x: np.ndarray) -> object:
        return x.at[1:-1, 1:-1].set(windows(x))

    x = numbers(34, 34)
    with override(engine="reference"):
        expected = kiln.jit(smoothed)(x)
    found = kiln.jit(smoothed, donate_argnums=0)(jnp.array(x))
    np.testing.assert_array_equal(found, expected)


def test_windows_of_a_loop() -> None:
    def steps(x: np.ndarray) -> object:
        return kiln.lax.fori_loop(0, 3, lambda _, y: jnp.pad(windows(y) % 7, 1), x)

    agree(steps, (numbers(66, 66),))
