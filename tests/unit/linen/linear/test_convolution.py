"""Convolutions refuse what does not go together, and wind, mask and group as they should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln import lax, linen
from tests.unit.linen.refusals import inside, refusal

LINE = np.random.RandomState(0).randn(2, 6, 4).astype(np.float32)
KEY = kiln.random.key(0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"padding": (1, 2)}, "Invalid padding format: (1, 2)"),
        ({"padding": [(1, 2, 3)]}, "Invalid padding format"),
        ({"padding": 1.5}, "Invalid padding format: 1.5"),
        ({"strides": (1, 1)}, "strides must have one number for each of 1 axes"),
        ({"kernel_dilation": ()}, "kernel_dilation must have one number"),
        ({"mask": np.ones((3, 4, 6))}, "Mask needs to have the same shape as weights"),
    ],
)
@pytest.mark.parametrize("kind", ["Conv", "ConvLocal", "ConvTranspose"])
def test_options(kind: str, options: Any, text: str) -> None:
    said = refusal(inside(lambda: getattr(linen, kind)(5, 3, **options)), LINE)
    assert text in said
    assert f"{kind} at /{kind}_0" in said


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_padding_names(kind: str) -> None:
    module = inside(lambda: getattr(linen, kind)(5, 3, padding="SOME"))
    assert "Unrecognized padding type" in refusal(module, LINE, error=RuntimeError)


def test_causal_is_along_one_axis() -> None:
    module = inside(lambda: linen.Conv(5, (3, 3), padding="CAUSAL"))
    assert "only implemented for 1D" in refusal(module, LINE[None])


@pytest.mark.parametrize("groups", [3, 0, 8])
def test_groups_divide_both(groups: int) -> None:
    module = inside(lambda: linen.Conv(6, 3, feature_group_count=groups))
    assert "must divide the inputs and the features" in refusal(module, LINE)


def test_local_convolutions_have_no_groups() -> None:
    module = inside(lambda: linen.ConvLocal(4, 3, feature_group_count=2))
    assert "feature_group_count != 1" in refusal(module, LINE, error=NotImplementedError)


@pytest.mark.parametrize("kind", ["Conv", "ConvLocal", "ConvTranspose"])
def test_too_few_axes(kind: str) -> None:
    module = inside(lambda: getattr(linen, kind)(5, (3, 3, 3)))
    assert "the input has 3 axes, but needs 3 of space" in refusal(module, LINE)


def test_causal_looks_at_nothing_later() -> None:
    conv = linen.Conv(2, 3, padding="CAUSAL", kernel_dilation=2)
    variables = conv.init(KEY, LINE)
    later = LINE.copy()
    later[:, 3:] = 9
    found, changed = (np.asarray(conv.apply(variables, x)) for x in (LINE, later))
    np.testing.assert_array_equal(found[:, :3], changed[:, :3])
    assert (found[:, 3:] != changed[:, 3:]).any()


def test_circular_convolutions_turn_with_their_input() -> None:
    for conv in (
        linen.Conv(2, 4, padding="CIRCULAR"),
        linen.ConvTranspose(2, 5, padding="CIRCULAR"),
    ):
        variables = conv.init(KEY, LINE)
        found = conv.apply(variables, np.roll(LINE, 2, 1))
        expected = np.roll(np.asarray(conv.apply(variables, LINE)), 2, 1)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_transposed_kernel_gives_the_gradient() -> None:
    there = linen.Conv(5, 3, strides=2, padding="CIRCULAR", use_bias=False)
    back = linen.ConvTranspose(
        4, 3, (2,), padding="CIRCULAR", transpose_kernel=True, use_bias=False
    )
    variables = there.init(KEY, LINE)
    ct = np.random.RandomState(1).randn(2, 3, 5).astype(np.float32)
    _, pull = kiln.vjp(lambda x: there.apply(variables, x), LINE)
    np.testing.assert_allclose(back.apply(variables, ct), pull(ct)[0], rtol=1e-4, atol=1e-5)


def test_masked_weights_do_not_count() -> None:
    mask = np.zeros((3, 4, 5), np.float32)
    module = linen.Conv(5, 3, mask=mask)
    variables = module.init(KEY, LINE)
    assert not np.asarray(module.apply(variables, LINE)).any()


def test_a_convolution_of_ones_own() -> None:
    calls = []

    def convolve(*args: Any, **options: Any) -> Any:
        calls.append(options["feature_group_count"])
        return lax.conv_general_dilated(*args, **options)

    linen.Conv(6, 3, conv_general_dilated=convolve, feature_group_count=2).init(KEY, LINE)
    linen.Conv(6, 3, conv_general_dilated_cls=lambda: convolve).init(KEY, LINE)
    assert calls == [2, 1]
