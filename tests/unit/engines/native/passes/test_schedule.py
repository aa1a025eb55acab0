"""The order of the axes of ordered nests: what they write apart is outside, and is shared."""

from __future__ import annotations

import numpy as np
import pytest

from kiln import lax
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.statements import Nest
from kiln.engines.native.passes.schedule import schedule
from tests.unit.engines.native.passes.agreement import agree, numbers

SCATTERED = """function f(%i0: i32[3000], %i1: f32[360000], %i2: f32[9]) -> (%o3: f32[12000]) {
  nest i < 12000 {
    %o3[i] = 0.0:f32
  }
  ordered n < 3000, b < 40, c < 3 {
    v0: i32 = %i0[n]
    v1: i32 = max v0 0:i32
    v2: i32 = min v1 99:i32
    v3: f32 = %o3[READ]
    v4: f32 = %i1[b*9000 + n*3 + c]
    v5: f32 = add v3 v4
    %o3[PLACE] = v5
  }
}
"""


def order(place: str, read: str = "") -> tuple[str, bool]:
    """Return the axes of the nest from the outermost, and whether threads share the first."""
    text = SCATTERED.replace("READ", read or place).replace("PLACE", place)
    nest = parse(text).body[1]
    assert isinstance(nest, Nest)
    found = schedule(nest, 32)
    return "".join(axis.name for axis in found.order), bool(found.grain)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("b*300 + c*100 + v2", ("bcn", True)),
        ("b*300 + v2*3 + c", ("bnc", True)),
        ("c*4000 + b*100 + v2", ("cbn", True)),
        # One element is written at several of their indices: all stay in order.
        ("b*99 + v2", ("nbc", False)),
        ("b*100 + v2", ("bnc", True)),
        ("v2*40 + b", ("ncb", False)),
        ("b*-100 + v2 + 3900", ("nbc", False)),
        ("v2", ("nbc", False)),
    ],
)
def test_what_is_written_apart_is_outside(place: str, expected: tuple[str, bool]) -> None:
    assert order(place) == expected


def test_what_reads_other_elements_stays_in_order() -> None:
    assert order("b*300 + c*100 + v2", "v2") == ("nbc", False)


@pytest.mark.parametrize("kind", [lax.scatter, lax.scatter_add, lax.scatter_mul])
def test_elements_are_combined_in_their_order(kind) -> None:
    """Floats, so that another order has other bits; places repeat, and some are outside."""
    places = numbers(700, 1, seed=3) + 4
    floats = np.random.default_rng(1).standard_normal((5, 2, 700, 3)).astype(np.float32)
    dimensions = lax.ScatterDimensionNumbers(
        update_window_dims=(0, 1, 3), inserted_window_dims=(2,), scatter_dims_to_operand_dims=(2,)
    )

    def scattered(x, places, updates):
        return kind(x, places, updates, dimensions)

    agree(scattered, (np.ones((5, 2, 9, 3), np.float32), places, floats))
