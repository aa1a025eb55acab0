"""Every element of every window is in one box, at its position."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kiln.engines.native.loop_ir.layout import dense
from kiln.engines.native.lowerings.reductions.window_boxes import (
    MOST_ELEMENTS,
    boxes,
    elements_in,
    few_boxes,
    segments,
    windows_in,
)
from kiln.ops.reductions.window_geometry import Windows


@settings(max_examples=300, deadline=None)
@given(
    size=st.integers(0, 9),
    window=st.integers(1, 5),
    stride=st.integers(1, 4),
    padding=st.tuples(st.integers(-3, 6), st.integers(-3, 6)),
    base=st.integers(1, 4),
    dilation=st.integers(1, 3),
)
def test_segments(
    size: int, window: int, stride: int, padding: tuple[int, int], base: int, dilation: int
) -> None:
    windows = Windows((window,), (stride,), (padding,), (base,), (dilation,))
    (count,) = windows.counts((size,))
    found = {}
    for segment in segments(size, count, window, stride, padding, base, dilation) or ():
        assert segment.count > 0
        for i in range(segment.count):
            at = segment.first + i * segment.step
            assert at not in found
            found[at] = [(k, place + i * segment.stride) for k, place in segment.elements]
    expected = {}
    for at in range(count):
        spread = [(k, at * stride + k * dilation - padding[0]) for k in range(window)]
        whole = [(k, place // base) for k, place in spread if place % base == 0]
        expected[at] = [(k, place) for k, place in whole if 0 <= place < size]
    assert found == expected


def test_boxes_of_layouts() -> None:
    """Layouts of boxes address the windows and their elements in memory."""
    windows = Windows((2, 3), (1, 2), ((1, 0), (0, 2)), (1, 1), (1, 1))
    data = np.arange(4 * 7).reshape(4, 7)
    x = dense(0, data.shape, np.dtype(np.int8))
    made = dense(1, windows.counts(data.shape), np.dtype(np.int8))
    sums = np.zeros(made.shape, int)
    for box in boxes(data.shape, windows) or ():
        part = windows_in(made, box)
        for _, seen in elements_in(x, box):
            assert seen.shape == part.shape
            for at in itertools.product(*map(range, part.shape)):
                to = part.offset + sum(i * s for i, s in zip(at, part.strides, strict=True))
                of = seen.offset + sum(i * s for i, s in zip(at, seen.strides, strict=True))
                sums.flat[to] += data.flat[of]
    padded = np.pad(data, ((1, 0), (0, 2)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (2, 3))[:, ::2]
    np.testing.assert_array_equal(sums, views.sum((2, 3)))


def test_many_elements_are_not_unrolled() -> None:
    windows = Windows((8, 8), (1, 1), ((4, 3), (4, 3)), (1, 1), (1, 1))
    assert few_boxes((64, 64), windows, 63) is None
    found = boxes((64, 64), windows) or []
    x = dense(0, (64, 64), np.dtype(np.int8))
    assert sum(len(list(elements_in(x, box))) for box in found) > MOST_ELEMENTS
    assert few_boxes((64, 64), windows, 64) is None
    inner = Windows((8, 8), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1))
    assert len(few_boxes((64, 64), inner, 64) or ()) == 1
