"""Results of kernels as matrices."""

from __future__ import annotations

import pytest

from kiln.engines.native.loop_ir.products import Matrix, matrix_of
from kiln.engines.native.loop_ir.statements import Buffer, Kernel, Place, Role
from kiln.ir.sizes.size import as_dim

FIRST, LAST = [0, 1, 2, 3], [0, 3, 1, 2]
SPACE = [1, 0, 1, 1, 1, 0, 1, 1]


def kernel(symbol: str, *numbers: int) -> Kernel:
    """Return a kernel with these numbers."""
    places = [Place(Buffer(name, "f32", 64, Role.TEMP)) for name in "abc"]
    return Kernel(symbol, places[:2], places[2:], tuple(map(as_dim, numbers)))


def convolution(out: list[int], spec: list[int], *, batch_groups: int = 1) -> Kernel:
    """Return a convolution of 5 channels by a kernel of 3 x 2."""
    numbers = [2, 1, batch_groups, *[4] * 4, *(7, 5, 3, 2), *out, *FIRST, *FIRST, *spec, *SPACE]
    return kernel("kiln_conv_f32", *numbers)


def test_products() -> None:
    assert matrix_of(kernel("kiln_gemm_f64", 3, 4, 5, 6, 0, 0, 24, 30, 20, 0)) == Matrix(12, 5, 6)
    assert matrix_of(kernel("kiln_gemm_f64", 3, 4, 5, 6, 0, 0, 24, 0, 20, 4)) == Matrix(12, 5, 6)
    assert matrix_of(kernel("kiln_gemm_f32", 3, 4, 5, 6, 0, 0, 24, 30, 20, 1)) is None
    assert matrix_of(kernel("kiln_gemm_f32", 3, 4, 5, 6, 0, 0, 24, 30, 50, 0)) is None
    assert matrix_of(kernel("kiln_gemm_bf16", 3, 4, 5, 6, 0, 0, 24, 30, 20, 0)) is None


@pytest.mark.parametrize(
    ("out", "spec", "rows", "columns"),
    [([2, 7, 8, 9], FIRST, 14, 72), ([2, 8, 9, 7], LAST, 144, 7)],
)
def test_convolutions(out: list[int], spec: list[int], rows: int, columns: int) -> None:
    assert matrix_of(convolution(out, spec)) == Matrix(rows, columns, 30)
    assert matrix_of(convolution(out, spec, batch_groups=2)) is None


def test_other_layouts_have_none() -> None:
    assert matrix_of(convolution([7, 2, 8, 9], [1, 0, 2, 3])) is None
    assert matrix_of(convolution([2, 9, 8, 7], [0, 3, 2, 1])) is None
    assert matrix_of(convolution([2, 0, 8, 9], FIRST)) is None
