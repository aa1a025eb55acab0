"""The kernels on matrices that primitives are computed by, run on operands of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.core.primitive import Primitive
from kiln.engines.native.building.matrix_calls import matrix_call
from kiln.engines.native.executables import openblas
from kiln.ir.types import ShapedArray
from kiln.ops.linear import linalg, orthogonal, pivots, spectral
from kiln.ops.linear.convolution import conv_general_dilated_p
from kiln.ops.linear.convolution_numbers import ConvDimensionNumbers
from kiln.ops.shape import transpose_p
from tests.unit._runtime.linear.kernel_calls import run_kernel


def f32(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def call_of(primitive: Primitive, operands: list[np.ndarray], params: dict[str, Any]) -> Any:
    avals = [ShapedArray(x.shape, x.dtype) for x in operands]
    found: Any = primitive.infer(*avals, **params)
    outs = found if primitive.multiple else [found]
    return matrix_call(primitive.name, avals, outs, params), outs


SPD = (f32(2, 3, 3) * 0.1 + 2 * np.eye(3, dtype=np.float32)).astype(np.float32)
FLAGS = {"left_side": False, "lower": True, "transpose_a": True, "conjugate_a": False}
PLAIN = {"subset_by_index": None, "algorithm": None}
CASES: dict[str, tuple[Primitive, list[np.ndarray], dict[str, Any]]] = {
    "conv": (
        conv_general_dilated_p,
        [f32(2, 9, 8, 3), f32(3, 2, 3, 4)],
        {
            "window_strides": (2, 1),
            "padding": ((1, 2), (-1, 3)),
            "lhs_dilation": (1, 2),
            "rhs_dilation": (2, 1),
            "dimension_numbers": ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2)),
            "feature_group_count": 1,
            "batch_group_count": 1,
            "precision": None,
            "preferred_element_type": None,
        },
    ),
    "transpose": (transpose_p, [f32(3, 4, 5)], {"permutation": (2, 0, 1)}),
    "cholesky": (linalg.cholesky_p, [SPD], {}),
    "solve": (linalg.triangular_solve_p, [SPD, f32(2, 4, 3)], {**FLAGS, "unit_diagonal": False}),
    "lu": (linalg.lu_p, [f32(2, 4, 3)], {}),
    "pivots": (
        pivots.lu_pivots_to_permutation_p,
        [np.array([[1, 1], [2, 3]], np.int32)],
        {"permutation_size": 4},
    ),
    "geqrf": (orthogonal.geqrf_p, [f32(2, 4, 3)], {}),
    "geqp3": (orthogonal.geqp3_p, [f32(2, 4, 3)], {}),
    "householder": (orthogonal.householder_product_p, [f32(2, 4, 3), f32(2, 2)], {}),
    "eigh": (spectral.eigh_p, [SPD], {**PLAIN, "lower": True, "sort_eigenvalues": True}),
    "svd": (spectral.svd_p, [f32(2, 4, 3)], {**PLAIN, "full_matrices": True, "compute_uv": True}),
    "eig": (
        spectral.eig_p,
        [f32(2, 3, 3)],
        {
            "compute_left_eigenvectors": False,
            "compute_right_eigenvectors": True,
            "enable_eigvec_derivs": False,
            "implementation": None,
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_kernels_compute_the_primitive(case: str) -> None:
    primitive, operands, params = CASES[case]
    call, outs = call_of(primitive, operands, params)
    assert call is not None
    if call.needs_openblas:
        openblas.load()
    results = [np.full(out.shape, 77, out.dtype) for out in outs]
    run_kernel(call.symbol, [*operands, *results], call.numbers)
    expected = primitive.numpy(*operands, **params)
    for found, meant in zip(results, expected if primitive.multiple else [expected], strict=True):
        np.testing.assert_allclose(found, meant, rtol=1e-4, atol=1e-4)


def test_operands_of_two_dtypes_have_none() -> None:
    primitive, (x, kernel), params = CASES["conv"]
    params = {**params, "preferred_element_type": np.dtype(np.float64)}
    assert call_of(primitive, [x, kernel], params)[0] is None
