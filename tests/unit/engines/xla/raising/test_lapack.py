"""Calls of LAPACK: their options, their statuses, results that kiln does not have."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.engines.xla.raising.modules import check, jaxpr_of, names_of, results, stored

DRAW = np.random.RandomState(0)
M = DRAW.randn(3, 3).astype(np.float32)
SPD = (M @ M.T + 3 * np.eye(3)).astype(np.float32)
MATRIX, INT = "tensor<3x3xf32>", "tensor<i32>"
COLUMNS = {2: "dense<[0, 1]>", 1: "dense<0>", 0: "dense<>"}


def layouts(ranks: list[int]) -> str:
    """Return the layouts of column-major matrices."""
    return ", ".join(f"{COLUMNS[rank]} : tensor<{rank}xindex>" for rank in ranks)


def routine(
    name: str, config: str, results: list[str], returned: list[int], operands: int = 1, before=""
):
    """Return a call of a routine on matrices that returns some of its results."""
    ranks = [kind.count("x") for kind in results]
    names = ", ".join(f"%x{i}" for i in range(operands))
    ref = "%r#{}" if len(results) > 1 else "%r"
    bound = f"%r:{len(results)}" if len(results) > 1 else "%r"
    kinds = ", ".join(results[i] for i in returned)
    outs = ", ".join(ref.format(i) for i in returned)
    return stored(
        ", ".join(f"%x{i}: {MATRIX}" for i in range(operands)),
        kinds,
        f"{before} {bound} = stablehlo.custom_call @lapack_s{name}_ffi({names}) "
        f"{{mhlo.backend_config = {{{config}}}, operand_layouts = [{layouts([2] * operands)}], "
        f"result_layouts = [{layouts(ranks)}]}} : ({', '.join([MATRIX] * operands)}) -> "
        f"({', '.join(results)}) return {outs} : {kinds}",
    )


def letter(text: str) -> str:
    return f"{ord(text)} : ui8"


def test_cholesky_reports_which_matrices_fail():
    program = routine("potrf", f"uplo = {letter('L')}", [MATRIX, INT], [1])
    assert check(program, SPD) == [0]
    assert "cholesky" in names_of(jaxpr_of(program))
    # LAPACK returns where it fails, kiln that it fails: programs compare the status with 0.
    for matrix, expected in ((SPD, 0), (-SPD, 1)):
        assert results(program, "native", matrix) == [expected]


def test_lu_reports_the_first_zero_pivot():
    program = routine("getrf", "", [MATRIX, "tensor<3xi32>", INT], [0, 1, 2])
    *_, status = check(program, M, rtol=1e-5)
    assert status == 0
    second = np.float32([[1, 2, 3], [0, 0, 4], [0, 0, 5]])
    for matrix, expected in ((np.zeros((3, 3), np.float32), 1), (second, 2)):
        *_, status = check(program, matrix)
        assert status == expected


@pytest.mark.parametrize("side", "LR")
@pytest.mark.parametrize("mode", "NTC")
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("diag", "NU")
def test_triangular_systems(side, mode, uplo, diag):
    config = ", ".join(
        f"{name} = {letter(value)}"
        for name, value in (("diag", diag), ("side", side), ("trans_x", mode), ("uplo", uplo))
    )
    program = routine("trsm", config, [MATRIX], [0], operands=2)
    check(program, SPD, M, rtol=1e-4)


def test_eigenvalues():
    config = f"mode = {letter('V')}, uplo = {letter('L')}"
    program = routine("syevd", config, [MATRIX, "tensor<3xf32>", INT], [1, 2])
    check(program, SPD, rtol=1e-5)


SVD = [MATRIX, "tensor<3xf32>", MATRIX, MATRIX, INT]


def test_singular_values():
    program = routine("gesdd", f"mode = {letter('N')}", SVD, [1, 4])
    check(program, M, rtol=1e-5)


@pytest.mark.parametrize(("mode", "returned"), [("N", [2]), ("A", [0]), ("N", [3])])
def test_results_that_kiln_does_not_have(mode, returned):
    program = routine("gesdd", f"mode = {letter(mode)}", SVD, returned)
    with pytest.raises(NotImplementedError, match="custom_call of LAPACK whose"):
        jaxpr_of(program)


def test_reflections():
    program = routine("geqrf", "", [MATRIX, "tensor<3xf32>"], [0, 1])
    check(program, M, rtol=1e-4)


def pivoted(start: str):
    kinds = f"{MATRIX}, tensor<3xi32>, tensor<3xf32>"
    return stored(
        f"%x: {MATRIX}",
        kinds,
        f"%z = stablehlo.constant dense<{start}> : tensor<i32> "
        "%p = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<i32>) -> tensor<3xi32> "
        "%r:3 = stablehlo.custom_call @lapack_sgeqp3_ffi(%x, %p) {mhlo.backend_config = {}, "
        f"operand_layouts = [{layouts([2, 1])}], result_layouts = [{layouts([2, 1, 1])}]}} : "
        f"({MATRIX}, tensor<3xi32>) -> ({kinds}) return %r#0, %r#1, %r#2 : {kinds}",
    )


def test_pivots_are_free():
    check(pivoted("0"), M, rtol=1e-4)
    with pytest.raises(NotImplementedError, match="geqp3 with fixed columns"):
        jaxpr_of(pivoted("1"))


def test_other_routines_and_factors_are_refused():
    with pytest.raises(NotImplementedError, match=r"custom_call @lapack_sgees_ffi has no"):
        jaxpr_of(routine("gees", "", [MATRIX, INT], [0]))
    with pytest.raises(NotImplementedError, match="potrf for upper factors"):
        jaxpr_of(routine("potrf", f"uplo = {letter('U')}", [MATRIX, INT], [0]))
