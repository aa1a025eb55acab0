"""Copies: large ones are divided among threads, and skipped where the result is in place."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override


@pytest.mark.parametrize(
    ("rows", "dtype", "is_divided"),
    [(511, "f4", False), (512, "f4", True), (1030, "i2", True), (257, "f8", True)],
)
def test_a_large_copy_is_divided(rows: int, dtype: str, is_divided: bool) -> None:
    with kiln.enable_x64(), override(engine="native"):
        x = jnp.asarray(np.arange(rows * 512).reshape(rows, 512).astype(dtype))
        f = kiln.jit(lambda x: x.at[3].set(7))
        assert ("@kiln_transpose(" in f.lower(x).as_text("llvm")) == is_divided
        expected = np.asarray(x).copy()
        expected[3] = 7
        for threads in (1, 2, 3):
            with kiln.num_threads(threads):
                np.testing.assert_array_equal(f(x), expected)


def test_in_place_of_the_operand() -> None:
    with override(engine="native"):
        x = jnp.arange(1 << 19, dtype="f4").reshape(512, 1024) + 1
        expected = np.asarray(x).copy()
        expected[3] = 7
        place = x.unsafe_buffer_pointer()
        found = kiln.jit(lambda x: x.at[3].set(7), donate_argnums=0)(x)
        assert found.unsafe_buffer_pointer() == place
        np.testing.assert_array_equal(found, expected)
