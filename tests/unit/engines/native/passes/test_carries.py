"""Updates in part: where they may be computed apart, and where each reads what one before wrote."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from tests.unit.engines.native.passes.agreement import agree, numbers

N = 64
PLACES = (
    # Of what is changed and of what is read: apart, each twice, each what another one changes.
    (np.array([3, 5, 9, 12, 40]), np.array([4, 6, 8, 0, 63])),
    (np.array([3, 3, 5, 3, 9]), np.array([4, 6, 8, 4, 63])),
    (np.array([3, 3, 5, 3, 9]), np.array([9, 3, 3, 5, 9])),
)


@pytest.mark.parametrize("method", ["set", "add", "multiply", "max"])
@pytest.mark.parametrize("times", [1, 5])
def test_updates_that_read_what_they_change(method: str, times: int) -> None:
    """A large part of the array is changed if all is done five times."""

    def updated(x: Any, to: Any, of: Any) -> Any:
        to, of = jnp.tile(to, times), jnp.tile(of, times)
        once = getattr((y := jnp.sort(x)).at[to], method)(y[of])
        turn = lambda _, y: getattr(y.at[to], method)(y[of])
        return once, lax.fori_loop(0, 3, turn, x)

    agree(updated, *[(numbers(N), to, of) for to, of in PLACES])


def test_arrays_that_are_filled_from_each_other_are_not_copied() -> None:
    def filled(xs: Any) -> Any:
        def iteration(i: Any, arrays: Any) -> Any:
            a, b = arrays
            return a.at[i].set(b[i - 1] + xs[i]), b.at[i].set(a[i - 1] - b[i - 1])

        return lax.fori_loop(1, 200, iteration, (xs, xs * 2))

    loops = str(kiln.jit(filled).lower(numbers(200)).as_text("loops")).split("loop t")[1]
    assert "copy(" not in loops and loops.count("nest") == 1
    agree(filled, (numbers(200),))
