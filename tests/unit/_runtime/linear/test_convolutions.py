"""Convolutions, against what the primitive means."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kiln.engines.native.executables import openblas
from kiln.ir.types import ShapedArray
from kiln.ops.linear.convolution import conv_general_dilated_p
from kiln.ops.linear.convolution_numbers import ConvDimensionNumbers
from tests.unit._runtime.linear.kernel_calls import run_kernel

TYPES: dict[str, Any] = {
    "f32": np.float32,
    "f64": np.float64,
    "c64": np.complex64,
    "c128": np.complex128,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "i8": np.int8,
    "u16": np.uint16,
    "i32": np.int32,
    "u64": np.uint64,
    "bool": np.bool_,
}


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    openblas.load()


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    dtype = np.dtype(dtype)
    x = rng.integers(0 if dtype.kind in "ub" else -3, 4, shape)
    if dtype.kind == "b":
        return rng.random(shape) < 0.3
    return (x + (1j * rng.integers(-3, 4, shape) if dtype.kind == "c" else 0)).astype(dtype)


def check(kind: str, x: np.ndarray, w: np.ndarray, params: dict[str, Any]) -> None:
    """Small integers are exact in every type, and in every order of summation."""
    avals = [ShapedArray(a.shape, a.dtype) for a in (x, w)]
    params = {"precision": None, "preferred_element_type": None, **params}
    meant = np.asarray(conv_general_dilated_p.numpy(x, w, **params))
    assert meant.shape == conv_general_dilated_p.infer(*avals, **params).shape
    out = np.full(meant.shape, 77, x.dtype)
    lhs, rhs, spec = params["dimension_numbers"]
    space = zip(
        params["window_strides"],
        (low for low, _ in params["padding"]),
        params["lhs_dilation"],
        params["rhs_dilation"],
        strict=True,
    )
    run_kernel(
        f"kiln_conv_{kind}",
        [x, w, out],
        [
            x.ndim - 2,
            params["feature_group_count"],
            params["batch_group_count"],
            *(*x.shape, *w.shape, *out.shape),
            *(*lhs, *rhs, *spec),
            *(number for axis in space for number in axis),
        ],
    )
    np.testing.assert_array_equal(out.astype(meant.dtype), meant)


def laid_out(x: np.ndarray, spec: tuple[int, ...]) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(np.argsort(spec)))


def numbers(*specs: tuple[int, ...]) -> ConvDimensionNumbers:
    return ConvDimensionNumbers(*specs)


def random_case(rng: np.random.Generator, dtype: Any) -> tuple[Any, Any, dict[str, Any]]:
    rank = int(rng.integers(1, 4))
    groups, batches = [(1, 1), (3, 1), (1, 2)][rng.integers(0, 3)]
    batch = int(rng.integers(1, 4)) * batches
    inputs = int(rng.integers(1, 6))
    features = int(rng.integers(1, 6)) * groups * batches
    if groups > 1 and rng.random() < 0.5:  # each feature by itself
        inputs, features = 1, groups
    space = rng.integers(1, 9, rank)
    kernel = rng.integers(1, 4, rank)
    specs = [tuple(int(a) for a in rng.permutation(rank + 2)) for _ in range(3)]
    if rng.random() < 0.5:  # the layouts that are common, features first and last
        first = tuple(range(rank + 2))
        last = (0, rank + 1, *range(1, rank + 1))
        kernel_last = (rank + 1, rank, *range(rank))
        specs = [first] * 3 if rng.random() < 0.5 else [last, kernel_last, last]
    x = laid_out(values(rng, (batch, inputs * groups, *space), dtype), specs[0])
    w = laid_out(values(rng, (features, inputs, *kernel), dtype), specs[1])
    params = {
        "window_strides": tuple(int(s) for s in rng.integers(1, 4, rank)),
        "padding": tuple((int(a), int(b)) for a, b in rng.integers(-2, 4, (rank, 2))),
        "lhs_dilation": tuple(int(s) for s in rng.choice([1, 1, 2, 3], rank)),
        "rhs_dilation": tuple(int(s) for s in rng.choice([1, 1, 2], rank)),
        "dimension_numbers": numbers(*specs),
        "feature_group_count": groups,
        "batch_group_count": batches,
    }
    return x, w, params


FIRST = ((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3))
LAST = ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
EXCHANGED = tuple((s[1], s[0], *s[2:]) for s in FIRST)  # as in the derivative by the kernel
PLAIN = {
    "window_strides": (1, 1),
    "padding": ((1, 1), (1, 1)),
    "lhs_dilation": (1, 1),
    "rhs_dilation": (1, 1),
    "feature_group_count": 1,
    "batch_group_count": 1,
}


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("features_last", [False, True])
def test_convolutions_without_patches(kind: str, features_last: bool) -> None:
    rng = np.random.default_rng(1)
    for _ in range(120):
        rank = int(rng.integers(1, 4))
        most = (300, 40, 12)[rank - 1]
        groups = int(rng.choice([1, 1, 3]))
        inputs, features = int(rng.integers(1, 24)), int(rng.integers(1, 45)) * groups
        dilation = rng.choice([1, 1, 2], rank)
        kernel = rng.integers(1, 5, rank)
        space = rng.integers(1, most, rank) + dilation * (kernel - 1)
        first = tuple(range(rank + 2))
        last = (0, rank + 1, *range(1, rank + 1))
        of_kernel = tuple(int(a) for a in rng.permutation(rank + 2))
        spec = last if features_last else first
        shape = (int(rng.integers(1, 4)), inputs * groups, *space)
        x = laid_out(values(rng, shape, TYPES[kind]), spec)
        w = laid_out(values(rng, (features, inputs, *kernel), TYPES[kind]), of_kernel)
        params = {
            "window_strides": tuple(int(s) for s in rng.choice([1, 1, 2, 3], rank)),
            "padding": tuple(
                (int(a), int(b)) for a, b in rng.integers(0, 4, (rank, 2)) - (space > 6)[:, None]
            ),
            "lhs_dilation": (1,) * rank,
            "rhs_dilation": tuple(int(d) for d in dilation),
            "dimension_numbers": numbers(spec, of_kernel, spec),
            "feature_group_count": groups,
            "batch_group_count": 1,
        }
        check(kind, x, w, params)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_padding_and_numbers_that_are_not_finite(kind: str) -> None:
    """A product with padding is nan if the kernel is not finite there, and 0 otherwise."""
    rng = np.random.default_rng(8)
    last = {1: ((0, 2, 1), (2, 1, 0), (0, 2, 1)), 2: LAST}
    for case in range(200):
        rank = int(rng.integers(1, 3))
        groups, inputs = int(rng.choice([1, 1, 3])), int(rng.choice([1, 5, 40]))
        dilation, kernel = rng.choice([1, 1, 2], rank), rng.integers(1, 6, rank)
        space = rng.integers(1, 30, rank) + dilation * (kernel - 1)
        specs = last[rank]
        features = groups * int(rng.choice([1, 9, 20, 40]))
        x = laid_out(values(rng, (2, inputs * groups, *space), TYPES[kind]), specs[0])
        w = laid_out(values(rng, (features, inputs, *kernel), TYPES[kind]), specs[1])
        for numbers_of in [(), (x,), (w,), (x, w)][case % 4]:
            places = rng.integers(0, numbers_of.size, 2)
            numbers_of.reshape(-1)[places] = rng.choice([np.inf, -np.inf, np.nan], 2)
        params = {
            "window_strides": tuple(int(s) for s in rng.choice([1, 1, 2, 3], rank)),
            "padding": tuple((int(a), int(b)) for a, b in rng.integers(-1, 4, (rank, 2))),
            "lhs_dilation": (1,) * rank,
            "rhs_dilation": tuple(int(d) for d in dilation),
            "dimension_numbers": numbers(*specs),
            "feature_group_count": groups,
            "batch_group_count": 1,
        }
        with np.errstate(invalid="ignore"):
            check(kind, x, w, params)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_kernels_that_are_larger_than_the_result(kind: str) -> None:
    """As in the derivative by the kernel: features and batch, and points, in any order."""
    rng = np.random.default_rng(2)
    for _ in range(70):
        rank = int(rng.integers(1, 4))
        kernel = rng.integers(1, (400, 24, 8)[rank - 1], rank)
        positions, stride = rng.integers(1, 5, rank), rng.integers(1, 3, rank)
        dilation, padding = rng.integers(1, 3, rank), rng.integers(-2, 4, (rank, 2))
        reach = (positions - 1) * stride + (kernel - 1) * dilation + 1
        space = np.maximum(1, reach - padding.sum(1) + rng.integers(0, 2, rank) * (stride - 1))
        first = (1, 0, *range(2, rank + 2))
        last = (rank + 1, 0, *range(1, rank + 1))
        kernel_last = (rank, rank + 1, *range(rank))
        specs: list[tuple[int, ...]] = [
            [first] * 3,
            [last, last, kernel_last],
            [tuple(int(a) for a in rng.permutation(rank + 2)) for _ in range(3)],
        ][int(rng.choice([0, 0, 1, 1, 2]))]
        items = int(rng.integers(1, 4))
        batch, features = int(rng.integers(1, 70)), int(rng.integers(1, 70))
        x = laid_out(values(rng, (batch, items, *space), TYPES[kind]), specs[0])
        w = laid_out(values(rng, (features, items, *kernel), TYPES[kind]), specs[1])
        params = {
            "window_strides": tuple(int(s) for s in stride),
            "padding": tuple((int(a), int(b)) for a, b in padding),
            "lhs_dilation": (1,) * rank,
            "rhs_dilation": tuple(int(d) for d in dilation),
            "dimension_numbers": numbers(*specs),
            "feature_group_count": 1,
            "batch_group_count": 1,
        }
        check(kind, x, w, params)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_many_features_of_lines_of_any_length(kind: str) -> None:
    """Lines of whole tiles are written in place; positions of short ones are packed."""
    rng = np.random.default_rng(3)
    for width in (1, 2, 3, 5, 7, 8, 9, 14, 16, 17, 24, 31, 32, 33, 64, 96):
        for _ in range(3):
            groups, stride = int(rng.choice([1, 1, 2])), int(rng.choice([1, 1, 2]))
            height, batch = int(rng.integers(1, 9)), int(rng.integers(1, 5))
            inputs, features = int(rng.integers(1, 40)), int(rng.integers(30, 80))
            shape = (batch, inputs * groups, height * stride, width * stride)
            x = values(rng, shape, TYPES[kind])
            w = values(rng, (features * groups, inputs, 3, 3), TYPES[kind])
            changes = {
                "window_strides": (stride, stride),
                "padding": ((1, stride), (stride, 1)) if rng.random() < 0.5 else ((1, 1), (1, 1)),
                "feature_group_count": groups,
                "dimension_numbers": numbers(*FIRST),
            }
            check(kind, x, w, {**PLAIN, **changes})


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("features_last", [False, True])
def test_operands_with_holes(kind: str, features_last: bool) -> None:
    """As in the derivative by the operand of convolutions with strides."""
    rng = np.random.default_rng(4)
    for _ in range(40):
        side, batch = rng.integers(1, 20, 2), int(rng.integers(1, 4))
        groups = int(rng.choice([1, 1, 3]))
        inputs, features = int(rng.integers(1, 24)), int(rng.integers(1, 45)) * groups
        kernel, holes = rng.integers(1, 5, 2), rng.integers(1, 5, 2)
        specs = LAST if features_last else FIRST
        x = laid_out(values(rng, (batch, inputs * groups, *side), TYPES[kind]), specs[0])
        w = laid_out(values(rng, (features, inputs, *kernel), TYPES[kind]), specs[1])
        changes = {
            "window_strides": tuple(int(s) for s in rng.choice([1, 1, 2, 3], 2)),
            "padding": tuple((int(a), int(b)) for a, b in rng.integers(-1, 5, (2, 2))),
            "lhs_dilation": tuple(int(h) for h in holes),
            "rhs_dilation": tuple(int(d) for d in rng.choice([1, 1, 2], 2)),
            "feature_group_count": groups,
            "dimension_numbers": numbers(*specs),
        }
        check(kind, x, w, {**PLAIN, **changes})


@pytest.mark.parametrize("kind", TYPES)
def test_random_convolutions(kind: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(150):
        x, w, params = random_case(rng, TYPES[kind])
        check(kind, x, w, params)


@pytest.mark.parametrize("specs", [FIRST, LAST, EXCHANGED])
@pytest.mark.parametrize(
    ("shape", "kernel", "changes"),
    [
        ((2, 16, 40, 40), (24, 16, 3, 3), {}),
        ((2, 130, 9, 9), (140, 130, 3, 3), {}),
        ((2, 16, 40, 40), (48, 16, 3, 3), {"padding": ((0, 0), (0, 0))}),
        # Long rows of the kernel are divided; a large kernel is read by several items together.
        ((1, 300, 6, 9), (40, 300, 3, 3), {}),
        ((2, 520, 5, 5), (33, 520, 2, 2), {"window_strides": (2, 1)}),
        ((5, 200, 7, 7), (200, 200, 3, 3), {"padding": ((0, 0), (0, 0))}),
        ((2, 16, 40, 40), (24, 16, 1, 1), {"padding": ((0, 0), (0, 0))}),
        # Few features that are last.
        ((3, 16, 20, 21), (3, 16, 3, 3), {}),
        ((2, 9, 20, 21), (1, 9, 3, 5), {"padding": ((0, 3), (2, 0)), "window_strides": (2, 1)}),
        ((1, 3, 61, 61), (8, 3, 7, 7), {"window_strides": (2, 2)}),
        ((2, 12, 30, 30), (12, 1, 3, 3), {"feature_group_count": 12}),
        ((4, 3, 20, 21), (6, 3, 18, 19), {"padding": ((0, 0), (0, 0))}),
        ((2, 4, 20, 20), (6, 4, 3, 3), {"lhs_dilation": (2, 2), "padding": ((2, 2), (2, 2))}),
        ((4, 4, 20, 20), (6, 4, 3, 3), {"batch_group_count": 2}),
    ],
)
def test_blocks(
    specs: Any, shape: tuple[int, ...], kernel: tuple[int, ...], changes: dict[str, Any]
) -> None:
    rng = np.random.default_rng(1)
    x = laid_out(values(rng, shape, np.float32), specs[0])
    w = laid_out(values(rng, kernel, np.float32), specs[1])
    check("f32", x, w, {**PLAIN, **changes, "dimension_numbers": numbers(*specs)})


def test_empty_arrays() -> None:
    for shape, kernel in [
        ((0, 2, 5, 5), (3, 2, 3, 3)),
        ((2, 0, 5, 5), (3, 0, 3, 3)),
        ((2, 2, 5, 5), (0, 2, 3, 3)),
        ((2, 2, 0, 5), (3, 2, 1, 3)),
        ((2, 2, 1, 1), (3, 2, 5, 5)),
    ]:
        x, w = np.ones(shape, np.float32), np.ones(kernel, np.float32)
        check("f32", x, w, {**PLAIN, "dimension_numbers": numbers(*FIRST)})
