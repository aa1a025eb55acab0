"""Convolutions against the reference library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.ops.linear import convolution as ops
from kiln.ops.linear import convolution_patches as patches
from kiln.ops.linear.convolution_numbers import ConvDimensionNumbers, conv_dimension_numbers
from kiln.ops.linear.transposed_convolution import conv_transpose
from kiln.transforms.reverse import linearize


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


SETTINGS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 8, 9), (4, 3, 3, 2), {"window_strides": (2, 1), "padding": "SAME"}),
    (
        (2, 8, 9, 4),
        (3, 2, 2, 6),
        {
            "window_strides": (1, 2),
            "padding": [(1, 2), (0, 1)],
            "lhs_dilation": (1, 2),
            "rhs_dilation": (2, 1),
            "dimension_numbers": ("NHWC", "HWIO", "NCHW"),
            "feature_group_count": 2,
        },
    ),
    ((4, 3, 8), (6, 3, 3), {"window_strides": (1,), "padding": "VALID", "batch_group_count": 2}),
    ((2, 3, 8), (6, 3, 4), {"window_strides": (3,), "padding": "SAME_LOWER", "rhs_dilation": (2,)}),
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_values_and_gradients(setting: Any) -> None:
    jax = pytest.importorskip("jax")
    x_shape, w_shape, options = setting
    x, w = random(*x_shape), random(*w_shape)
    conv = jax.jit(lambda x, w: jax.lax.conv_general_dilated(x, w, **options))
    wanted, pull = jax.vjp(conv, x, w)
    ct = random(*wanted.shape)
    for engine in ("reference", "xla"):
        with override(engine=engine):
            outs, linear = linearize(
                lambda x, w: [ops.conv_general_dilated(x, w, **options)],
                [from_host(x), from_host(w)],
            )
            pulled = linear.pull([from_host(ct)])
        np.testing.assert_allclose(outs[0], wanted, 1e-4, 1e-4)
        for ours, theirs in zip(pulled, pull(ct), strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-4, 1e-4)


@pytest.mark.parametrize("padding", ["SAME", "VALID", [(1, 2), (0, 3)]])
@pytest.mark.parametrize("more", [{}, {"transpose_kernel": True}, {"use_consistent_padding": True}])
def test_conv_transpose(padding: Any, more: Any) -> None:
    lax = pytest.importorskip("jax").lax
    x = random(2, 5, 4, 3)
    w = random(3, 2, 6, 3) if "transpose_kernel" in more else random(3, 2, 3, 6)
    for strides in ((1, 1), (2, 3)):
        for dilation in (None, (2, 1)):
            ours = conv_transpose(from_host(x), from_host(w), strides, padding, dilation, **more)
            theirs = lax.conv_transpose(x, w, strides, padding, dilation, **more)
            np.testing.assert_allclose(ours, theirs, 1e-4, 1e-4)


def test_shorter_functions() -> None:
    lax = pytest.importorskip("jax").lax
    x, w = random(1, 2, 6), random(3, 2, 3)
    np.testing.assert_allclose(
        ops.conv(from_host(x), from_host(w), (2,), "SAME"), lax.conv(x, w, (2,), "SAME"), 1e-5, 1e-5
    )
    general = ((1,), [(2, 1)], (2,), (1,))
    np.testing.assert_allclose(
        ops.conv_with_general_padding(from_host(x), from_host(w), *general),
        lax.conv_with_general_padding(x, w, *general),
        1e-5,
        1e-5,
    )


def test_patches() -> None:
    lax = pytest.importorskip("jax").lax
    x = random(2, 6, 5, 3)
    setting = ((2, 3), (2, 1), "SAME", None, (1, 2), ("NHWC", "OIHW", "NHWC"))
    ours = patches.conv_general_dilated_patches(from_host(x), *setting)
    np.testing.assert_allclose(ours, lax.conv_general_dilated_patches(x, *setting), 1e-6)


def test_local_kernels() -> None:
    lax = pytest.importorskip("jax").lax
    x, w = random(2, 3, 6), random(4, 3 * 2, 5)
    ours = patches.conv_general_dilated_local(from_host(x), from_host(w), (1,), "VALID", (2,))
    theirs = lax.conv_general_dilated_local(x, w, (1,), "VALID", (2,))
    np.testing.assert_allclose(ours, theirs, 1e-5, 1e-5)


def test_dimension_numbers() -> None:
    plain = (0, 1, 2, 3)
    shapes = ((1, 2, 3, 4), (5, 6, 7, 8))
    assert conv_dimension_numbers(*shapes, None) == ConvDimensionNumbers(plain, plain, plain)
    found = conv_dimension_numbers(*shapes, ("NWHC", "HWIO", "NHWC"))
    assert found == ConvDimensionNumbers((0, 3, 2, 1), (3, 2, 0, 1), (0, 3, 1, 2))
    assert conv_dimension_numbers(*shapes, found) is found


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (("NHC", "HWIO", "NHWC"), "must have len equal"),
        (("NHWC", "HWIO", "NHWX"), "'N' and 'C' exactly once"),
        (("NHWC", "NHWC", "NHWC"), "'O' and 'I' exactly once"),
        (("NHDC", "HWIO", "NHWC"), "same axes of space"),
        (("NHWC", "HWIO"), "three strings"),
    ],
)
def test_dimension_numbers_that_do_not_fit(numbers: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        conv_dimension_numbers((1, 2, 3, 4), (1, 2, 3, 4), numbers)


@pytest.mark.parametrize(
    ("shapes", "options", "error", "words"),
    [
        (((1, 2, 5), (3, 3, 2)), {}, ValueError, "times the rhs input feature dimension size 3"),
        (((1, 2, 5), (3, 1, 2)), {"feature_group_count": 2}, ValueError, "multiple of"),
        (((3, 2, 5), (4, 2, 2)), {"batch_group_count": 2}, ValueError, "batch_group_count 2"),
        (
            ((2, 2, 5), (4, 1, 2)),
            {"batch_group_count": 2, "feature_group_count": 2},
            ValueError,
            "At most one of",
        ),
        (((1, 2, 5), (3, 2)), {}, TypeError, "ndim to be equal"),
        (((1, 2, 5), (3, 2, 2)), {"rhs_dilation": (0,)}, TypeError, "rhs_dilation must have"),
        (((1, 2, 5), (3, 2, 2)), {"lhs_dilation": (1, 1)}, TypeError, "number of lhs_dilation"),
    ],
)
def test_errors(shapes: Any, options: Any, error: type[Exception], words: str) -> None:
    x, w = (from_host(random(*shape)) for shape in shapes)
    with pytest.raises(error, match=words):
        ops.conv_general_dilated(x, w, (1,), "SAME", **options)


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("groups", [(1, 1), (2, 1), (1, 2)])
def test_stacks_of_nothing(axes: Any, groups: tuple[int, int]) -> None:
    features, batches = groups
    shapes = (batches, features, 6, 7), (features * batches, 1, 1, 2)
    x, w = (np.zeros(s if at is None else (0, *s)) for s, at in zip(shapes, axes, strict=True))

    def fun(x: Any, w: Any) -> Any:
        return ops.conv_general_dilated(
            x, w, (1, 1), "VALID", feature_group_count=features, batch_group_count=batches
        )

    one = kiln.eval_shape(fun, *map(np.zeros, shapes))
    assert kiln.vmap(fun, axes)(x, w).shape == (0, *one.shape)


@pytest.mark.parametrize(
    ("shapes", "numbers", "match"),
    [
        (((1, 1, 1), (1, 1, 1, 1)), ((0, 1, 2),) * 3, "same number of dimensions"),
        (((1, 1, 1, 1), (1, 1, 1)), ((0, 1, 2),) * 3, "same number of dimensions"),
        (((1, 1, 4), (1, 1, 1)), ((0, 1, 3), (0, 1, 2), (0, 1, 2)), "must number the 3 axes"),
        (((1, 1, 4), (1, 1, 1)), ((0, 1, 2), (0, 1, 2), (0, 1, 1)), "must number the 3 axes"),
        (((1, 1, 4), (1, 1, 1)), ((0, 1, 2, 3),) * 3, "must number the 3 axes"),
    ],
)
def test_axes_that_do_not_fit_are_refused(shapes, numbers, match) -> None:
    # XLA divides by zero for some of these, and ends the process.
    x, w = map(np.ones, shapes)
    with pytest.raises((ValueError, IndexError, TypeError), match=match):
        lax.conv_general_dilated_p.bind(
            x,
            w,
            window_strides=(1,),
            padding=((0, 0),),
            lhs_dilation=(1,),
            rhs_dilation=(1,),
            dimension_numbers=lax.ConvDimensionNumbers(*numbers),
            feature_group_count=1,
            batch_group_count=1,
            precision=None,
            preferred_element_type=None,
        )


def test_ranks_must_be_equal() -> None:
    numbers = lax.ConvDimensionNumbers((0, 1, 2), (0, 1, 2), (0, 1, 2))
    with pytest.raises(ValueError, match="same number of dimensions"):
        lax.conv_general_dilated(
            np.ones((1, 1, 1)), np.ones((1, 1, 1, 1)), (1,), [(0, 0)], dimension_numbers=numbers
        )
    for groups in ({"feature_group_count": -1}, {"batch_group_count": 0}):
        with pytest.raises(ValueError, match="must be positive"):
            lax.conv_general_dilated(
                np.ones((1, 1, 3)), np.ones((1, 1, 1)), (1,), [(0, 0)], **groups
            )
