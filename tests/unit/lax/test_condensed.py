"""Condensed forms of matrices are those of LAPACK, by SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from scipy.linalg.lapack import get_lapack_funcs

import kiln
from kiln.lax import linalg

DTYPES = ("float32", "float64", "complex64", "complex128")


def matrix(dtype: str, size: int) -> np.ndarray:
    rng = np.random.default_rng(size)
    parts = rng.normal(size=(2, size, size))
    return (parts[0] + 1j * parts[1] if dtype[0] == "c" else parts[0]).astype(dtype)


def near(found: Any, expected: Any, dtype: str) -> None:
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert np.allclose(found, expected, atol=1e-12 if dtype in ("float64", "complex128") else 1e-5)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
@pytest.mark.parametrize("dtype", DTYPES)
def test_hessenberg_is_gehrd(dtype: str, size: int) -> None:
    a = matrix(dtype, size)
    (gehrd,) = get_lapack_funcs(("gehrd",), (a,))
    packed, factors, _ = gehrd(a)
    with kiln.enable_x64(True):
        found = linalg.hessenberg(a)
    near(found[0], packed, dtype)
    # SciPy's wrapper gives a factor for matrices without any.
    near(found[1], factors[: size - 1], dtype)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("size", [2, 3, 6])
@pytest.mark.parametrize("dtype", DTYPES)
def test_tridiagonal_is_sytrd(dtype: str, size: int, lower: bool) -> None:
    a = matrix(dtype, size)
    (trd,) = get_lapack_funcs(("hetrd" if dtype[0] == "c" else "sytrd",), (a,))
    *expected, _ = trd(a, lower=lower)
    with kiln.enable_x64(True):
        found = linalg.tridiagonal(a, lower=lower)
    for ours, theirs in zip(found, expected, strict=True):
        near(ours, theirs, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_schur(dtype: str) -> None:
    a = matrix(dtype, 5)
    kind = "complex" if dtype[0] == "c" else "real"
    with kiln.enable_x64(True):
        both, one = linalg.schur(a), linalg.schur(a, compute_schur_vectors=False)
    for found, expected in zip(both, scipy.linalg.schur(a, output=kind), strict=True):
        near(found, expected, dtype)
    assert len(one) == 1
    near(one[0], both[0], dtype)


@pytest.mark.parametrize("function", [linalg.hessenberg, linalg.tridiagonal, linalg.schur])
def test_stacks_are_matrices_one_by_one(function: Any) -> None:
    stack = np.stack([matrix("float32", 4), matrix("float32", 4).T])
    each = [function(a) for a in stack]
    for found in (function(stack), kiln.vmap(function)(stack), kiln.jit(function)(stack)):
        for i, one in enumerate(each):
            for ours, theirs in zip(found, one, strict=True):
                near(ours[i], theirs, "float32")


def test_no_matrices_and_matrices_of_no_size() -> None:
    packed, factors = linalg.hessenberg(np.zeros((0, 4, 4), np.float32))
    assert packed.shape == (0, 4, 4) and factors.shape == (0, 3)
    packed, factors = linalg.hessenberg(np.zeros((2, 0, 0), np.float32))
    assert packed.shape == (2, 0, 0) and factors.shape == (2, 0)


@pytest.mark.parametrize("function", [linalg.hessenberg, linalg.tridiagonal, linalg.schur])
def test_refused(function: Any) -> None:
    with pytest.raises(ValueError, match="must be a square matrix"):
        function(np.zeros((2, 3), np.float32))
    with pytest.raises(TypeError, match="does not accept dtype int32"):
        function(np.zeros((3, 3), np.int32))


def test_ranks_and_types_may_have_to_be_equal() -> None:
    with kiln.numpy_rank_promotion("raise"), kiln.numpy_dtype_promotion("strict"):
        linalg.tridiagonal(matrix("complex64", 4))


def test_sorted_eigenvalues_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="not sorted"):
        linalg.schur(matrix("float32", 2), sort_eig_vals=True)
