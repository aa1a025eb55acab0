"""Calls with pytrees and keywords become functions of leaves."""

from __future__ import annotations

import numpy as np
import pytest

from kiln.base import dtypes
from kiln.base.tree import tree_flatten
from kiln.control.regions.arguments import (
    FlatFunction,
    argnums_of,
    fitted,
    flatten_arrays,
    instantiated,
    merge_static,
    positional,
    split_static,
)
from kiln.core.absent import Zero
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray

F32 = np.dtype(np.float32)


def fun(x, y=2.0, *, z=3.0):
    return x


def test_keywords_and_defaults_get_positions():
    def plain(x, y=2.0):
        return x

    assert positional(plain, (1,), {}) == [1, 2.0]
    assert positional(plain, (), {"y": 5, "x": 1}) == [1, 5]
    assert positional(max, (1, 2), {}) == [1, 2]


def test_keyword_only_arguments_have_no_position():
    with pytest.raises(TypeError, match=r"could not be resolved to positions: z"):
        positional(fun, (1,), {"z": 4})


def test_static_arguments_leave_and_come_back():
    static, dynamic = split_static(fun, ["a", 1, "b", 2], (0, -2), "nondiff_argnums")
    assert dynamic == [1, 2]
    assert merge_static(static, [10, 20]) == ["a", 10, "b", 20]
    with pytest.raises(ValueError, match="nondiff_argnums"):
        split_static(fun, [1], (3,), "nondiff_argnums")


def test_argnums_are_ints():
    assert argnums_of("n", 1) == (1,)
    assert argnums_of("n", [0, 2]) == (0, 2)
    with pytest.raises(TypeError, match="n must be an int"):
        argnums_of("n", "ab")


def test_leaves_must_be_arrays():
    with pytest.raises(TypeError, match=r"(?s)of fun.*at path \['a'\] is not a valid"):
        flatten_arrays("arguments", fun, {"a": "text"})
    with pytest.raises(TypeError, match="is not a valid"):
        flatten_arrays("arguments", fun, np.datetime64("2020-01-01"))
    with pytest.raises(OverflowError, match="too large to convert to int32"):
        flatten_arrays("arguments", fun, 2**40)


def test_a_flat_function_remembers_the_structure_of_its_result():
    _, tree = tree_flatten(({"a": 0},))
    flat = FlatFunction(lambda n, d: (d["a"], [n]), tree, ((0, 7),))
    assert flat(1.0) == [1.0, 7]
    assert flat.structure == tree_flatten((0, [0]))[1]
    assert flat == FlatFunction(flat.fun, tree, ((0, 7),))


def test_zero_tangents_of_integers_are_float0():
    zero = instantiated(Zero(ShapedArray((2,), dtypes.float0)))
    assert isinstance(zero, np.ndarray)
    assert zero.dtype == dtypes.float0
    assert np.asarray(instantiated(Zero(ShapedArray((2,), F32)))).tolist() == [0, 0]


def test_weak_values_fit_and_others_do_not():
    assert aval_of(fitted(2, ShapedArray((), F32))).dtype == F32
    assert fitted(np.int32(2), ShapedArray((), F32)) is None
    assert fitted(np.float32(2), ShapedArray((3,), F32)) is None
