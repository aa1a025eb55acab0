"""Arrangements of arrays: repeated axes, axes in another order, starts out of bounds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.engines.xla.raising.modules import check, jaxpr_of, names_of, results, stored

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("before", "dims", "after"),
    [
        ("2x3", "0, 2", "2x4x3"),
        ("2x3", "2, 0", "3x4x2"),
        ("1x3", "0, 1", "5x3"),
        ("1x1", "1, 0", "3x4"),
        ("1x3", "0, 1", "1x3"),
        ("2x1", "1, 2", "4x2x3"),
    ],
)
def test_broadcasts(before, dims, after):
    program = stored(
        f"%x: tensor<{before}xf32>",
        f"tensor<{after}xf32>",
        f"%r = stablehlo.broadcast_in_dim %x, dims = [{dims}] : (tensor<{before}xf32>) -> "
        f"tensor<{after}xf32> return %r : tensor<{after}xf32>",
    )
    shape = program.in_avals[0].shape
    check(program, np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


@pytest.mark.parametrize("kind", ["i32", "ui32", "ui8", "i64"])
def test_starts_are_clamped(kind):
    scalar = f"tensor<{kind}>"
    program = stored(
        f"%x: tensor<2x3xf32>, %i: {scalar}, %u: tensor<1x2xf32>",
        "tensor<1x2xf32>, tensor<2x3xf32>",
        f"%r = stablehlo.dynamic_slice %x, %i, %i, sizes = [1, 2] : (tensor<2x3xf32>, {scalar}, "
        f"{scalar}) -> tensor<1x2xf32> %s = stablehlo.dynamic_update_slice %x, %u, %i, %i : "
        f"(tensor<2x3xf32>, tensor<1x2xf32>, {scalar}, {scalar}) -> tensor<2x3xf32> "
        "return %r, %s : tensor<1x2xf32>, tensor<2x3xf32>",
    )
    dtype = program.in_avals[1].dtype
    for start in (0, 1, 2, 200):
        check(program, X, np.asarray(start, dtype), np.float32([[8, 9]]))
    if dtype.kind == "i":
        check(program, X, np.asarray(-3, dtype), np.float32([[8, 9]]))


def test_pads_slices_and_joins():
    program = stored(
        "%x: tensor<2x3xf32>, %p: tensor<f32>",
        "tensor<4x6xf32>, tensor<1x2xf32>, tensor<4x3xf32>, tensor<3x2xf32>",
        "%a = stablehlo.pad %x, %p, low = [1, -1], high = [0, 2], interior = [1, 1] : "
        "(tensor<2x3xf32>, tensor<f32>) -> tensor<4x6xf32> "
        "%b = stablehlo.slice %x [1:2, 0:3:2] : (tensor<2x3xf32>) -> tensor<1x2xf32> "
        "%c = stablehlo.concatenate %x, %x, dim = 0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> "
        "tensor<4x3xf32> %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> "
        "tensor<3x2xf32> %d = stablehlo.reverse %t, dims = [0] : tensor<3x2xf32> "
        "return %a, %b, %c, %d : tensor<4x6xf32>, tensor<1x2xf32>, tensor<4x3xf32>, "
        "tensor<3x2xf32>",
    )
    check(program, X, np.float32(7))


def test_what_changes_nothing_is_left_out():
    program = stored(
        "%x: tensor<2x3xf32>",
        "tensor<2x3xf32>",
        "%a = stablehlo.reshape %x : (tensor<2x3xf32>) -> tensor<2x3xf32> "
        "%b = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<2x3xf32>) -> tensor<2x3xf32> "
        "%c = stablehlo.concatenate %b, dim = 0 : (tensor<2x3xf32>) -> tensor<2x3xf32> "
        "return %c : tensor<2x3xf32>",
    )
    assert names_of(jaxpr_of(program)) == []


def test_scalars_are_windows_without_starts():
    program = stored(
        "%x: tensor<f32>, %u: tensor<f32>",
        "tensor<f32>, tensor<f32>",
        "%r = stablehlo.dynamic_slice %x, sizes = [] : (tensor<f32>) -> tensor<f32> "
        "%s = stablehlo.dynamic_update_slice %x, %u : (tensor<f32>, tensor<f32>) -> tensor<f32> "
        "return %r, %s : tensor<f32>, tensor<f32>",
    )
    # XLA does not read these.
    for engine in ("native", "reference"):
        assert results(program, engine, np.float32(3), np.float32(4)) == [3, 4]


def test_counts():
    program = stored(
        "",
        "tensor<2x3xi32>",
        "%r = stablehlo.iota dim = 1 : tensor<2x3xi32> return %r : tensor<2x3xi32>",
    )
    check(program)
