"""Bytes stored where a truth holds: no byte beyond them changes, however many masks are alive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.engines.native.llvm.assembly import host_target
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.passes.schedule import schedule

ROWS = 6
MASKS = 12
GENERATORS = ("kiln", "llvm")


def operands(columns: int, dtype: Any) -> list[np.ndarray]:
    rng = np.random.default_rng(columns)
    return [
        np.ones((ROWS, columns), dtype),
        rng.random(columns),
        rng.random((MASKS, columns)),
        rng.random(columns),
    ]


def with_a_row(x: Any, i: Any, a: Any, b: Any, c: Any) -> Any:
    """Set a row; whether it exists is a mask, too, and all masks live across a rare branch."""
    j = jnp.where(i < 0, i + ROWS, i)
    t = jnp.where((j >= 0) & (j <= ROWS - 1), a, c)
    masks = [a > b[k] for k in range(MASKS)]
    for k, mask in enumerate(masks):
        t = jnp.where(mask, t * 1.1, t - b[k])
    t = jnp.exp(t)
    for k, mask in enumerate(masks):
        t = jnp.where(mask, t * 1.1, t - b[k])
    return x.at[i].set((t > c).astype(x.dtype))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8])
@pytest.mark.parametrize("columns", [5, 8, 13, 16, 61, 64, 72, 1000])
def test_rows_beside_keep_their_bytes(columns: int, dtype: Any) -> None:
    x, *others = operands(columns, dtype)

    def program(*args: Any) -> Any:
        return with_a_row(*args)

    for row in (0, 2, -1, ROWS):
        found = []
        for generator in GENERATORS:
            with override(engine="native", code_generator=generator, enable_x64=True):
                found.append(np.asarray(kiln.jit(program)(x, np.int64(row), *others)))
        rest = [k for k in range(ROWS) if k != row % ROWS or row == ROWS]
        for y in found:
            np.testing.assert_array_equal(y[rest], x[rest])
        np.testing.assert_array_equal(*found)


NEST = """function f(%i0: f64[{n}], %i1: f64[{n}], %i2: i8[{n}]) -> (%o3: {kind}[{n}]) {{
  nest i0 < {n} {{
    v0: f64 = %i0[i0]
    v1: f64 = %i1[i0]
    v2: f64 = exp v0
    v3: i1 = lt v2 v1
    v4: i8 = %i2[i0]
    v5: i1 = le v4 0:i8
    v6: {kind} = convert v3
    %o3[i0] = v6{mask}
  }}
}}
"""


def width(n: int, kind: str, mask: str, vector_bytes: int) -> int:
    (nest,) = parse(NEST.format(n=n, kind=kind, mask=mask)).body
    return schedule(nest, vector_bytes).width


@pytest.mark.parametrize("n", [5, 8, 64, 1001])
@pytest.mark.parametrize("kind", ["i8", "u8"])
def test_bytes_under_a_mask_are_no_8_lanes(n: int, kind: str) -> None:
    assert width(n, kind, " if v5", 64) == 16
    assert width(n, kind, "", 64) == 8
    assert width(n, "i32", " if v5", 64) == 8
    assert width(n, kind, " if v5", 32) == 4 or n < 8


@pytest.mark.skipif(host_target().name != "x86-64-v4", reason="narrower vectors")
def test_text_of_a_program() -> None:
    args = operands(64, np.bool_)
    with override(engine="native", enable_x64=True):
        text = kiln.jit(with_a_row).lower(args[0], np.int64(1), *args[1:]).as_text("llvm")
    assert "masked.store.v16i8" in text
    assert "masked.store.v8i8" not in text
