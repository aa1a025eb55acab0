"""Views of references: one index for what is a part of a part."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.control.references.views import place_of
from kiln.core.slices import ds

X = np.arange(120.0, dtype=np.float32).reshape(4, 5, 6)
OUTER = [1, slice(1, 3), (slice(None), slice(0, 5, 2)), (..., -2), (1, slice(1, 4)), (0, ..., -1)]
INNER = [0, slice(1, None), (..., -1), np.array([0, 1]), slice(None, None, 2), ...]


@pytest.mark.parametrize(("outer", "inner"), [*itertools.product(OUTER, INNER)])
def test_a_part_of_a_part(outer: Any, inner: Any) -> None:
    def run(x: Any) -> Any:
        ref = kiln.new_ref(x)
        view = ref.at[outer]
        before = view[inner]
        view[inner] = before * 2
        return before, ref[...]

    if outer == (..., -2) and isinstance(inner, np.ndarray):
        return  # See below.
    expected = X.copy()
    part = expected[outer]
    part[inner] *= 2
    for function in (run, kiln.jit(run)):
        before, after = function(X)
        np.testing.assert_array_equal(before, X[outer][inner])
        np.testing.assert_array_equal(after, expected)


def test_traced_starts_add_up() -> None:
    @kiln.jit
    def run(i: Any) -> Any:
        ref = kiln.new_ref(jnp.asarray(X))
        view = ref.at[ds(i, 3), :, 1]
        view.at[ds(i, 2), ds(i, 2, 2)][...] += 100.0
        kiln.ref.addupdate(view, (0, 0), 1.0)
        return ref[...], view[i], kiln.ref.swap(view, (-1, -1), 0.0)

    expected = X.copy()
    expected[2:4, 1:4:2, 1] += 100
    expected[1, 0, 1] += 1
    found = run(jnp.int32(1))
    np.testing.assert_array_equal(found[0], expected)
    np.testing.assert_array_equal(found[1], expected[2, :, 1])
    assert found[2] == expected[3, -1, 1]


def test_programs_say_one_index() -> None:
    def run(ref: Any, i: Any) -> Any:
        return ref.at[1].at[ds(i, 2)][0]

    text = str(kiln.make_jaxpr(run)(kiln.new_ref(X), 0))
    (read,) = re.findall(r"f32\[.*\] <- .*", text)
    assert re.fullmatch(r"f32\[6\] <- a\[1,[a-z],0:6\]", read)


def test_views_of_all_are_of_the_reference() -> None:
    ref = kiln.new_ref(X)
    assert place_of(ref.at[...], ...)[1:] == ((), [])
    assert place_of(ref.at[...].at[1], ...).part[0] == 1
    assert ref.at[np.array([0, 2])][...].shape == (2, 5, 6)


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (np.array([0, 1]), 0),
        (1, (slice(None), np.array([1, 0]))),
        ((..., 2), (np.array([0, 1]),)),
    ],
)
def test_indices_that_are_not_one_are_refused(outer: Any, inner: Any) -> None:
    with pytest.raises(NotImplementedError, match="not one index of the reference"):
        kiln.new_ref(X).at[outer][inner]


def test_a_known_index_is_checked() -> None:
    ref = kiln.new_ref(X)
    with pytest.raises(IndexError, match="Out of bound"):
        ref.at[1:3].at[0, 0][7]
    with pytest.raises(ValueError, match="Invalid shape"):
        ref.at[0][...] = 1.0


def test_a_view_is_no_array() -> None:
    view = kiln.new_ref(jnp.arange(6.0)).at[1:4]
    assert (len(view), view.size, view.ndim) == (3, 3, 1)
    refused = (bool, iter, np.asarray, copy.copy, copy.deepcopy, pickle.dumps)
    for use in refused:
        with pytest.raises(TypeError, match="read it first"):
            use(view)
