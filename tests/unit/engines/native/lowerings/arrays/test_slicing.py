"""Dynamic slices and updates: starts of all kinds, clamped, fused, and changed by loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln import lax
from kiln.numpy import sin
from tests.unit.engines.native.lowerings.running import assert_meaning

X = np.arange(20, dtype=np.float32).reshape(4, 5)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32])
@pytest.mark.parametrize("starts", [(0, 0), (1, 2), (3, 4), (100, 1), (-7, 2)])
def test_starts_are_clamped(dtype: Any, starts: tuple[int, int]) -> None:
    at = np.array(starts).astype(dtype)
    update = -np.ones((2, 3), np.float32)
    assert_meaning(lambda x, i: lax.dynamic_slice(x, (i[0], i[1]), (2, 3)), X, at)
    assert_meaning(lambda x, u, i: lax.dynamic_update_slice(x, u, (i[0], i[1])), X, update, at)


def test_what_is_sliced_may_be_computed() -> None:
    assert_meaning(lambda x, i: lax.dynamic_slice(sin(x) + 1, (i, i), (2, 2)), X, np.int32(1))


def test_a_carry_is_sliced_where_another_carry_was() -> None:
    def program(x: Any) -> Any:
        def turn(_: Any, carry: Any) -> Any:
            i, row = carry
            return i + 1, lax.dynamic_slice(x, (i, 0), (1, 5))[0] + row[0]

        return lax.fori_loop(0, 3, turn, (0, x[0]))[1]

    assert_meaning(program, X)


def test_rows_are_updated_in_a_loop() -> None:
    def program(x: Any) -> Any:
        def turn(i: Any, x: Any) -> Any:
            return lax.dynamic_update_slice(x, x[i][None] * 2 + x[0], (i, 0))

        return lax.fori_loop(0, 4, turn, x)

    assert_meaning(program, X)


def test_a_row_at_a_place_that_a_turn_computes_is_a_result() -> None:
    def program(x: Any) -> Any:
        def turn(i: Any, _: Any) -> Any:
            i = (i + 3) % 4
            return i, lax.dynamic_slice(x, (i, 0), (1, 5))

        return lax.scan(turn, 1, None, length=3)[1]

    assert_meaning(program, X)
