"""Loops that count compute what they say, whatever they count by, up to, and with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import kiln.numpy as jnp
from kiln import lax
from tests.properties.exploring import explored
from tests.unit.engines.native.passes.agreement import agree, numbers

MOST = 40
"""No loop runs more iterations."""
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "!=": lambda x, y: x != y,
}
PLACES: tuple[Callable[[Any], Any], ...] = (
    lambda i: i,
    lambda i: i + 1,
    lambda i: i - 2,
    lambda i: 2 * i,
    lambda i: 7 - i,
    lambda i: -i,
    lambda i: 3,
)
COMBINED: tuple[Callable[[Any, Any], Any], ...] = (
    jnp.add,
    jnp.multiply,
    jnp.maximum,
    jnp.minimum,
    jnp.bitwise_xor,
    jnp.subtract,
)
OF_FLOATS = COMBINED[:4]


class Counted(NamedTuple):
    """A loop: its counter, and what each iteration does with arrays at places that depend on it."""

    dtype: str
    first: int
    step: int
    last: int
    comparison: str
    by_fori: bool
    updates: tuple[tuple[str, int, int, int, int], ...]

    def times(self) -> int | None:
        """Return how often it runs, None if that is too often."""
        i, times = np.array(self.first, self.dtype), 0
        while COMPARISONS[self.comparison](i, np.array(self.last, self.dtype)):
            i, times = (i + np.array(self.step).astype(self.dtype)).astype(self.dtype), times + 1
            if times > MOST:
                return None
        return times

    def __call__(self, xs: Any, ys: Any, zs: Any) -> Any:
        step = np.array(self.step).astype(self.dtype)

        def iteration(i: Any, state: Any) -> Any:
            ys, zs, total = state
            for kind, a, b, c, operation in self.updates:
                x, y, z = xs[PLACES[a](i)], ys[PLACES[b](i)], zs[PLACES[a](i)]
                made = COMBINED[operation](x, y)
                if kind == "total":
                    total = COMBINED[operation](total, x)
                elif kind == "floats":
                    of_floats = OF_FLOATS[operation % len(OF_FLOATS)]
                    zs = zs.at[PLACES[c](i)].set(of_floats(z, zs[PLACES[b](i)] + y))
                elif kind == "mixed":
                    ys = ys.at[PLACES[c](i)].set(COMBINED[operation](y, z.astype(ys.dtype)))
                elif kind == "row":
                    ys = ys.at[PLACES[c](i)].set(made)
                else:
                    ys = ys.at[PLACES[c](i)].add(x)
            return ys, zs, total

        start = ys, zs, jnp.int32(1)
        if self.by_fori:
            return lax.fori_loop(self.first, self.last, iteration, start)
        return lax.while_loop(
            lambda s: COMPARISONS[self.comparison](s[0], np.array(self.last, self.dtype)),
            lambda s: (s[0] + step, iteration(s[0], s[1])),
            (jnp.array(self.first, self.dtype), start),
        )


@st.composite
def loops(draw: Any) -> Counted:
    """Draw a loop that ends."""
    dtype = draw(st.sampled_from(["int32", "int32", "int8", "uint8", "int16"]))
    low = 0 if dtype == "uint8" else -4
    places = st.integers(0, len(PLACES) - 1)
    update = st.tuples(
        st.sampled_from(["total", "row", "row", "added", "floats", "floats", "mixed"]),
        *[places] * 3,
        st.integers(0, len(COMBINED) - 1),
    )
    found = Counted(
        dtype,
        draw(st.integers(low, 6)),
        draw(st.sampled_from([1, 1, 1, 2, 3, -1, -2])),
        draw(st.sampled_from([*range(low, 12), 126, 127])),
        draw(st.sampled_from(["<", "<", *COMPARISONS])),
        draw(st.booleans()),
        tuple(draw(st.lists(update, min_size=1, max_size=3))),
    )
    assume(found.by_fori or found.times() is not None)
    assume(not found.by_fori or found.last - found.first <= MOST)
    return found


@explored(loops(), few=25, many=3000)
def test_counted_loops(loop: Counted) -> None:
    floats = numbers(8, seed=2).astype(np.float32)
    agree(lambda *arrays: loop(*arrays), (numbers(9), numbers(7, seed=1), floats))
