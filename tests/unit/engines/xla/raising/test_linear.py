"""Products, convolutions, transforms, triangular systems."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.engines.xla.raising.modules import check, jaxpr_of, results, stored

DRAW = np.random.RandomState(0)


@pytest.mark.parametrize(("kind", "out"), [("f32", "f32"), ("bf16", "f32"), ("i8", "i32")])
def test_products(kind, out):
    x, y, z = f"tensor<2x3x4x{kind}>", f"tensor<4x2x5x{kind}>", f"tensor<2x3x5x{out}>"
    program = stored(
        f"%x: {x}, %y: {y}",
        z,
        "%r = stablehlo.dot_general %x, %y, batching_dims = [0] x [1], contracting_dims = [2] x "
        f"[0], precision = [HIGHEST, DEFAULT] : ({x}, {y}) -> {z} return %r : {z}",
    )
    dtype = program.in_avals[0].dtype
    given = [DRAW.randint(-5, 5, aval.shape).astype(dtype) for aval in program.in_avals]
    check(program, *given)


@pytest.mark.parametrize("reversal", ["", ", reverse = [true, false]", ", reverse = [1, 1]"])
def test_convolutions(reversal):
    x, w, y = "tensor<2x5x6x3xf32>", "tensor<3x2x3x4xf32>", "tensor<2x3x5x4xf32>"
    program = stored(
        f"%x: {x}, %w: {w}",
        y,
        "%r = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        f"window = {{stride = [2, 1], pad = [[1, 1], [0, 0]]{reversal}}} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
        f"({x}, {w}) -> {y} return %r : {y}",
    )
    given = [DRAW.randint(-5, 5, aval.shape).astype(np.float32) for aval in program.in_avals]
    # XLA has no convolutions with reversed windows on CPUs.
    if not reversal:
        check(program, *given)
        return
    image, kernel = given
    kernel = kernel[::-1, :: -1 if "[1, 1]" in reversal else 1]
    plain = jaxpr_of(program)
    assert "conv_general_dilated" in str(plain)
    padded = np.pad(image, ((0, 0), (1, 1), (0, 0), (0, 0)))
    expected = np.zeros((2, 3, 5, 4), np.float32)
    for i in range(3):
        for j in range(5):
            window = padded[:, 2 * i : 2 * i + 3, j : j + 2]
            expected[:, i, j] = np.einsum("bhwi,hwio->bo", window, kernel)
    for engine in ("native", "reference"):
        np.testing.assert_allclose(results(program, engine, *given)[0], expected, rtol=1e-5)


@pytest.mark.parametrize("kind", ["FFT", "IFFT"])
def test_transforms(kind):
    z = "tensor<3x4xcomplex<f32>>"
    program = stored(
        f"%z: {z}",
        z,
        f"%r = stablehlo.fft %z, type = {kind}, length = [4] : ({z}) -> {z} return %r : {z}",
    )
    check(program, (DRAW.randn(3, 4) + 1j * DRAW.randn(3, 4)).astype(np.complex64), rtol=1e-5)


@pytest.mark.parametrize("lower", [True, False])
def test_factors_are_of_the_triangle_that_is_read(lower):
    m = "tensor<3x3xf32>"
    flag = str(lower).lower()
    program = stored(
        f"%a: {m}", m, f"%r = stablehlo.cholesky %a, lower = {flag} : {m} return %r : {m}"
    )
    a = DRAW.randn(3, 3)
    a = (a @ a.T + 3 * np.eye(3)).astype(np.float32)
    # The other triangle is not read.
    given = np.where(np.tri(3) > 0 if lower else np.tri(3).T > 0, a, 77).astype(np.float32)
    expected = np.linalg.cholesky(a.astype(np.float64))
    for engine in ("native", "reference"):
        found = results(program, engine, given)[0]
        np.testing.assert_allclose(found, expected if lower else expected.T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_systems(mode, left, unit):
    m = "tensor<3x3xcomplex<f32>>"
    flags = f"left_side = {str(left).lower()}, lower = true, unit_diagonal = {str(unit).lower()}"
    program = stored(
        f"%a: {m}, %b: {m}",
        m,
        f'%r = "stablehlo.triangular_solve"(%a, %b) <{{{flags}, transpose_a = '
        f"#stablehlo<transpose {mode}>}}> : ({m}, {m}) -> {m} return %r : {m}",
    )
    a = (np.tri(3) * (DRAW.randn(3, 3) + 1j * DRAW.randn(3, 3)) + 3 * np.eye(3)).astype(
        np.complex64
    )
    b = (DRAW.randn(3, 3) + 1j * DRAW.randn(3, 3)).astype(np.complex64)
    check(program, a, b, rtol=1e-4)
