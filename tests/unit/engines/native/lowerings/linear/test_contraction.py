"""dot_general by nests and by kernels, on operands that lie in memory in many ways."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.engines.native.loop_ir.layout import dense
from kiln.engines.native.lowerings.linear import contraction, matrices
from tests.unit.engines.native.lowerings.running import assert_meaning

DTYPES = (np.float32, np.int32, np.complex64, ml_dtypes.bfloat16, np.bool_)


@pytest.fixture(params=["nests", "kernels"])
def _either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "kernels":
        monkeypatch.setattr(contraction, "SMALL_WORK", 0)
        monkeypatch.setattr(contraction, "SMALL_MATRIX", 0)
        monkeypatch.setattr(contraction, "LEAST_ITEM", 0)
        monkeypatch.setattr(matrices, "FEW", 0)


def _axes(rng: np.random.Generator, kinds: str) -> list[tuple[str, int]]:
    found = [(kind, i) for i, kind in enumerate(kinds)]
    return [found[i] for i in rng.permutation(len(found))]


@pytest.mark.usefixtures("_either")
@pytest.mark.parametrize("seed", range(25))
def test_axes_in_any_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shared = {c: int(n) for c, n in zip("abkl", rng.integers(1, 5, 4), strict=True)}
    batch, summed = "ab"[: rng.integers(0, 3)], "kl"[: rng.integers(1, 3)]
    left = [c for c, _ in _axes(rng, batch + summed + "mn"[: rng.integers(0, 3)])]
    right = [c for c, _ in _axes(rng, batch + summed + "pq"[: rng.integers(0, 3)])]
    sizes = {**shared, **dict(zip("mnpq", map(int, rng.integers(1, 9, 4)), strict=True))}
    dtype = DTYPES[seed % 5]

    def drawn(axes: list[str]) -> np.ndarray:
        values = rng.normal(size=[sizes[c] for c in axes])
        if dtype is np.bool_:
            return np.asarray(values > 0)
        return np.asarray(values * (1 + 1j) if dtype is np.complex64 else values * 3).astype(dtype)

    numbers = tuple(
        (tuple(left.index(c) for c in axes), tuple(right.index(c) for c in axes))
        for axes in (summed, batch)
    )
    tolerance = 3e-2 if dtype is ml_dtypes.bfloat16 else 1e-4
    assert_meaning(
        lambda x, y: lax.dot_general(x, y, numbers),
        drawn(left),
        drawn(right),
        tolerance=tolerance,
    )


@pytest.mark.usefixtures("_either")
def test_slices_and_reversals_are_copied_first() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(6, 6)).astype(np.float32) for _ in range(2))
    assert_meaning(lambda x, y: x[1:, ::2] @ y[::-1][:3], x, y)


@pytest.mark.usefixtures("_either")
def test_results_may_be_wider() -> None:
    x = np.ones((3, 4), ml_dtypes.bfloat16)

    def wide(x: Any) -> Any:
        return lax.dot(x, x.T, preferred_element_type=np.float32)

    assert_meaning(wide, x)


def test_stacks_of_matrices_are_recognized_where_they_lie() -> None:
    x = dense(None, (2, 3, 4), np.dtype(np.float32))
    by_rows = contraction.in_place(x, [0], [1], [2])
    assert by_rows is not None
    assert (by_rows.transposed, by_rows.step) == (False, 12)
    turned = contraction.in_place(x, [0], [2], [1])
    assert turned is not None
    assert turned.transposed
    both = contraction.in_place(x, [], [0, 1], [2])
    assert both is not None
    assert contraction.in_place(x, [], [0, 2], [1]) is None
    spread = x.with_axes([(5, 0), *zip(x.shape[1:], x.strides[1:], strict=True)])
    stack = contraction.in_place(spread, [0], [1], [2])
    assert stack is not None
    assert stack.step == 0


@pytest.mark.parametrize(
    "dtype", [np.float32, np.int32, np.complex64, ml_dtypes.bfloat16, np.bool_]
)
@pytest.mark.parametrize(
    "shape", [(40, 4, 16), (40, 3, 5), (16, 8, 300), (33, 2, 31), (100, 7, 32)]
)
def test_sums_of_few_products(dtype: type, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(k)
    x, y = (rng.normal(size=size) * 3 for size in ((m, k), (n, k)))
    x, y = ((v > 0) if dtype is np.bool_ else v.astype(dtype) for v in (x, y))
    tolerance = 3e-2 if dtype is ml_dtypes.bfloat16 else 1e-5
    assert_meaning(lambda x, y: x @ y.T, x, y, tolerance=tolerance)
    assert_meaning(lambda x, y: x @ y, x, np.ascontiguousarray(y.T), tolerance=tolerance)
    assert_meaning(lambda x, y: y @ x.T, x, y, tolerance=tolerance)


def test_a_sum_of_few_products_joins_what_reads_it() -> None:
    points, centers = np.ones((1000, 4), np.float32), np.ones((16, 4), np.float32)
    text = kiln.jit(lambda x, y: jnp.argmin(x @ y.T, 1)).lower(points, centers).as_text("loops")
    assert text.count("nest") == 1
    assert "gemm" not in text


def kernels(f: Any, *args: Any) -> list[str]:
    """Return the calls of kernels in a program's loops."""
    with override(engine="native"):
        found = str(kiln.jit(f).lower(*args).as_text("loops"))
    return [line.split(" = ")[1] for line in found.splitlines() if "= kiln_" in line]


@pytest.mark.parametrize(
    ("equation", "left", "right", "numbers"),
    [
        ("ij,bjk->bik", (32, 40), (5, 40, 70), "[5, 32, 70, 40, 0, 0, 0, 2800, 2240, 0]"),
        ("ij,bjk->ibk", (32, 40), (5, 40, 70), "[5, 32, 70, 40, 0, 0, 0, 2800, 2240, 0]"),
        ("ij,bkj->bik", (32, 40), (5, 70, 40), "[1, 32, 350, 40, 0, 1, 0, 0, 11200, 0]"),
        ("bji,jk->bik", (5, 40, 32), (40, 70), "[5, 32, 70, 40, 1, 0, 1280, 0, 2240, 0]"),
        ("bij,jk->bik", (5, 32, 40), (40, 70), "[1, 160, 70, 40, 0, 0, 0, 0, 11200, 0]"),
        ("abji,jk->abik", (2, 3, 40, 32), (40, 70), "[6, 32, 70, 40, 1, 0, 1280, 0, 2240, 0]"),
    ],
)
def test_free_axes_that_do_not_merge_are_a_batch(
    equation: str, left: Any, right: Any, numbers: str
) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=left).astype(np.float32), rng.normal(size=right).astype(np.float32)
    f = lambda x, y: jnp.einsum(equation, x, y)
    products = [each for each in kernels(f, x, y) if "gemm" in each]
    assert len(products) == 1
    assert products[0].endswith(numbers)
    assert_meaning(f, x, y, tolerance=1e-4)


def test_small_items_are_one_product() -> None:
    x, y = np.ones((6, 9), np.float32), np.ones((500, 9, 12), np.float32)
    found = kernels(lambda x, y: jnp.einsum("ij,bjk->bik", x, y), x, y)
    (product,) = [each for each in found if "gemm" in each]
    assert product.endswith("[1, 6, 6000, 9, 0, 0, 0, 0, 36000, 0]")
