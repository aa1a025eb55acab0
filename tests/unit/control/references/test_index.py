"""Indices of references in two parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln.numpy as jnp
from kiln.control.references.index import (
    GIVEN,
    BadIndex,
    Part,
    Span,
    check_within,
    joined,
    part_type,
    parts_of,
    read_part,
    spans_of,
    text,
    window,
)
from kiln.core.slices import ds
from kiln.ir.types import ShapedArray

SHAPE = (4, 5, 6)
CUBE = ShapedArray(SHAPE, np.dtype(np.float32))


@pytest.mark.parametrize("index", [None, ..., (), slice(None), (slice(None), ...), (..., slice(0))])
def test_indices_of_everything_are_one(index: Any) -> None:
    whole = parts_of(SHAPE, index) == ((), [])
    assert whole is (index != (..., slice(0)))


def test_arrays_are_apart() -> None:
    i = np.array([0, 1])
    index, arrays = parts_of(SHAPE, (i, slice(1, None, 2), np.int64(3)))
    assert index == (GIVEN, Part(1, None, 2), 3)
    assert arrays == [i]
    assert joined(index, arrays) == (i, slice(1, None, 2), 3)
    assert text(index, ["k"]) == "k,1::2,3"
    assert text((), []) == "..."
    assert text((..., Part(None, 2, None)), []) == "...,:2"


@pytest.mark.parametrize("entry", [1.0, True, [0, 1], None, "a", np.array([1.0]), np.array([True])])
def test_other_entries_are_refused(entry: Any) -> None:
    with pytest.raises(TypeError, match="integers, arrays of integers, slices"):
        parts_of(SHAPE, (entry, 0))


def test_steps_go_forward() -> None:
    with pytest.raises(ValueError, match="step >= 1"):
        parts_of(SHAPE, slice(None, None, -1))
    with pytest.raises(TypeError, match="bounds of a slice must be known"):
        parts_of(SHAPE, slice(1.5))


def test_there_are_no_more_indices_than_axes() -> None:
    with pytest.raises(IndexError, match="Too many indices"):
        parts_of((3,), (0, 0))


@pytest.mark.parametrize("index", [4, -5, (..., 6), (0, ..., -7), jnp.int32(4), (slice(9), 5)])
def test_known_integers_are_within(index: Any) -> None:
    with pytest.raises(BadIndex, match="Out of bound indexer"):
        check_within(SHAPE, *parts_of(SHAPE, index))


@pytest.mark.parametrize("index", [3, -4, (..., 5), np.array([9]), slice(2, 9)])
def test_arrays_and_slices_may_go_beyond(index: Any) -> None:
    check_within(SHAPE, *parts_of(SHAPE, index))


@pytest.mark.parametrize("index", [1, (..., 2), (slice(1, 3), 0), (np.array([0, 0, 1]), 2)])
def test_the_type_of_a_part(index: Any) -> None:
    fixed, arrays = parts_of(SHAPE, index)
    found = part_type(CUBE, fixed, tuple(jnp.asarray(x).aval for x in arrays))
    assert found.shape == np.zeros(SHAPE)[index].shape
    assert found.dtype == np.float32


def test_windows() -> None:
    starts, sizes = window(SHAPE, *parts_of(SHAPE, (-1, ..., slice(2, 4)))) or ([], [])
    assert [int(x) for x in starts] == [3, 0, 2]
    assert sizes == [1, 5, 2]
    starts, _ = window(SHAPE, *parts_of(SHAPE, jnp.int32(-1))) or ([], [])
    assert [int(x) for x in starts] == [3, 0, 0]
    for index in (np.array([0]), slice(None, None, 2), slice(2, 2)):
        assert window(SHAPE, *parts_of(SHAPE, index)) is None
    assert window(("n",), (0,), []) is None


def test_slices_of_known_start_are_parts() -> None:
    assert parts_of(SHAPE, (ds(1, 2), ds(0, 3, 2)))[0] == (Part(1, 3, None), Part(0, 5, 2))
    assert parts_of(SHAPE, (..., ds(np.int64(4), 2)))[0] == (..., Part(4, 6, None))
    assert parts_of(SHAPE, ds(None)) == ((), [])


@pytest.mark.parametrize("index", [ds(3, 2), ds(-1, 1), (0, ds(0, 3, 3)), (..., ds(2, 5))])
def test_slices_are_within(index: Any) -> None:
    with pytest.raises(BadIndex, match="Out of bound slice"):
        parts_of(SHAPE, index)


def test_slices_of_traced_start_are_spans() -> None:
    i = jnp.int32(1)
    index, arrays = parts_of(SHAPE, (ds(i, 2), 0, ds(i, 3, 2)))
    assert index == (Span(2, 1), 0, Span(3, 2))
    assert arrays == [i, i]
    assert text(index, ["i", "j"]) == "i:i+2,0,j:j+5:2"
    assert part_type(CUBE, index, (i.aval, i.aval)).shape == (2, 3)
    with pytest.raises(BadIndex, match="start=3, size=2, stride=1, dim=4"):
        check_within(SHAPE, *parts_of(SHAPE, ds(jnp.int32(3), 2)))
    with pytest.raises(TypeError, match="starts at an integer"):
        parts_of(SHAPE, ds(jnp.ones(2, int), 2))


@pytest.mark.parametrize(
    "others", [(), (0,), (slice(1, 3),), (slice(None), -1), (np.array([2, 0]),)]
)
@pytest.mark.parametrize("stride", [1, 2])
def test_what_is_read_at_spans(others: Any, stride: int) -> None:
    x = np.arange(120.0, dtype=np.float32).reshape(SHAPE)
    index, arrays = parts_of(SHAPE, (ds(jnp.int32(1), 2, stride), *others))
    wanted = x[(slice(1, 2 + stride, stride), *others)]
    np.testing.assert_array_equal(read_part(jnp.asarray(x), index, arrays), wanted)


def test_the_window_of_all_spans() -> None:
    found = spans_of(SHAPE, *parts_of(SHAPE, (ds(jnp.int32(-2), 2), ..., ds(jnp.int32(1), 2, 3))))
    assert found is not None
    assert [int(start) for start in found.starts] == [2, 0, 1]
    assert found.sizes == [2, 5, 4]
    assert found.inner == (Part(None, None, None), Part(None, None, None), Part(None, None, 3))
    assert spans_of(SHAPE, (0,), []) is None
