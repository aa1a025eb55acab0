"""What a window's winner selects: nests for small windows, a kernel for those of many elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln.base import dtypes
from kiln.base.options.config import override
from kiln.ops.elements.elementwise import ge_p, le_p
from kiln.ops.reductions.window import (
    geometry,
    select_and_gather_add_p,
    select_and_scatter_add_p,
)
from tests.unit._runtime.kernels.running import sample
from tests.unit._runtime.kernels.test_windows import CASES, agree
from tests.unit.engines.native.lowerings.running import results


@pytest.mark.parametrize(("shape", "params"), CASES)
@pytest.mark.parametrize("dtype", ["?", "b", "Q", "e", "f", "F"])
@pytest.mark.parametrize("select", [ge_p, le_p])
def test_winners(dtype: Any, shape: tuple[int, ...], params: Any, select: Any) -> None:
    """Ties and nans are decided as the meaning decides them."""
    x = sample(dtype, shape, 3, few=True)
    if x.dtype.kind == "c":
        x = np.where(np.isnan(x), 1, x).astype(dtype)
    given = {"select_prim": select, **params}
    dense = {name: value for name, value in given.items() if "dilation" not in name}
    for moved in ("f", "D", dtypes.bfloat16) if dtype == "f" else ("f",):
        t = np.arange(1, x.size + 1).reshape(shape).astype(moved)
        agree(*results(lambda t, x: select_and_gather_add_p.bind(t, x, **given), t, x), 0)
        if geometry(**params).is_dense:
            counts = geometry(**params).counts(shape)
            source = np.arange(1, np.prod(counts) + 1).reshape(counts).astype(moved)
            agree(*results(lambda s, x: select_and_scatter_add_p.bind(s, x, **dense), source, x), 1)


def gradient(dims: Any, strides: Any, padding: Any) -> Any:
    return kiln.grad(
        lambda x: (lax.reduce_window(x, -np.inf, lax.max, dims, strides, padding) ** 2).sum()
    )


def text_of(function: Any, x: Any) -> str:
    with override(engine="native"):
        return str(kiln.jit(function).lower(x).as_text("loops"))


def test_the_gradient_of_pooling_is_one_nest() -> None:
    """The largest, its number, its cotangent and where it is added: nothing is materialized."""
    x = np.zeros((2, 8, 8, 32), np.float32)
    text = text_of(gradient((1, 2, 2, 1), (1, 2, 2, 1), "VALID"), x)
    assert text.count("nest") == 1
    assert "%t" not in text


@pytest.mark.parametrize(
    ("dims", "calls"), [((1, 3, 3, 1), 0), ((1, 5, 5, 1), 0), ((1, 9, 9, 1), 1)]
)
def test_windows_of_many_elements_are_a_kernel(dims: Any, calls: int) -> None:
    x = np.random.default_rng(0).integers(0, 4, (2, 12, 12, 3)).astype(np.float32)
    function = gradient(dims, (1, 1, 1, 1), "SAME")
    assert text_of(function, x).count("select_and_scatter_add(") == calls
    agree(*results(function, x), 4)


def test_the_same_bits_on_any_number_of_threads() -> None:
    x = np.random.default_rng(0).normal(size=(4, 64, 64, 16)).astype(np.float32)
    found = []
    for n in (1, 2, 3):
        with override(engine="native"), kiln.num_threads(n):
            function = kiln.jit(gradient((1, 3, 3, 1), (1, 2, 2, 1), "SAME"))
            found.append(np.asarray(function(x)).tobytes())
    assert len(set(found)) == 1
