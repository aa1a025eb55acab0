"""Slices, padding, joining and splitting: errors and edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.core.staging import stage
from kiln.core.trace import aval_of
from kiln.ops.indexing import slicing as ops

X = np.arange(5, dtype=np.float32)
M = np.arange(12, dtype=np.float32).reshape(3, 4)

ERRORS = [
    ("slice(x, (1,), (7,))", TypeError, "limit_indices must be less than or equal to operand"),
    ("slice(x, (3,), (1,))", TypeError, "slice limit_indices must be greater than or equal to"),
    ("slice(x, (-1,), (1,))", TypeError, "start_indices must be greater than or equal to zero"),
    ("slice(x, (0,), (1,), (0,))", TypeError, "strides must be positive"),
    ("slice(x, (0, 0), (1, 1))", TypeError, "each axis needs a start"),
    ("slice_in_dim(m, -3, 99, 2, 1)", TypeError, r"limit_indices \(3, 99\)"),
    ("slice_in_dim(m, 0, 1, 1, 5)", ValueError, "axis 5 is out of bounds"),
    ("index_in_dim(m, 4, 1)", IndexError, "index 4 is out of bounds for axis 1 with size 4"),
    ("pad(x, 0.0, [(1, -2, -1)])", ValueError, "interior padding .* must be nonnegative"),
    ("pad(x, 0.0, [(-4, -4, 0)])", ValueError, "Dimension size after padding is not at least 0"),
    ("pad(x, 0.0, [(1, 1, 0), (0, 0, 0)])", ValueError, "length of padding_config"),
    ("pad(x, x, [(1, 1, 0)])", ValueError, "padding_value must be a scalar"),
    ("pad(x, np.int32(0), [(1, 1, 0)])", TypeError, "must be same dtype: got float32 and int32"),
    ("concatenate([x, m], 0)", TypeError, r"different numbers of dimensions: got \(5,\), \(3, 4\)"),
    ("concatenate([m, t], 0)", TypeError, r"shapes \(3, 4\), \(4, 3\)"),
    ("concatenate([x, i], 0)", TypeError, "same dtypes, got float32, int32"),
    ("concatenate([x, x], 1)", TypeError, "concatenate dimension out of bounds: dimension 1"),
    ("concatenate([], 0)", ValueError, "non-empty sequence"),
    ("split(x, [2, 2])", ValueError, "Sum of sizes 4 must be equal to dimension 0"),
    ("split(x, [-2, 7])", ValueError, "nonnegative"),
    ("dynamic_slice(x, [0], [7])", TypeError, "less than or equal to operand shape"),
    ("dynamic_slice(x, [0], [-1])", TypeError, "greater than or equal to zero"),
    ("dynamic_slice(x, [0, 0], [1, 1])", ValueError, "Length of slice indices must match"),
    ("dynamic_slice(x, [1.0], [1])", TypeError, "must be integers"),
    ("dynamic_slice(x, [i], [1])", TypeError, "must be scalars"),
    ("dynamic_slice(x, x[0:1][0], [1])", TypeError, "start_indices must be a sequence"),
    ("dynamic_update_slice(x, big, [4])", TypeError, "must be smaller than operand shape"),
    ("dynamic_update_slice(x, i, [4])", TypeError, "same dtypes, got float32, int32"),
    ("dynamic_update_slice(x, m, [4])", TypeError, "must have the same rank as operand"),
]


def environment(library: Any) -> dict[str, Any]:
    arrays = {"x": X, "m": M, "t": M.T, "i": np.array([1, 2], np.int32), "big": np.ones(7, "f4")}
    return {**{name: library.array(v) for name, v in arrays.items()}, "np": np}


@pytest.mark.parametrize(("expression", "kind", "phrase"), ERRORS, ids=[e[0] for e in ERRORS])
def test_errors_name_what_is_wrong(expression: str, kind: type[Exception], phrase: str) -> None:
    with pytest.raises(kind, match=phrase) as caught:
        eval(expression, {**vars(ops), **environment(jnp)})
    if "\n" in str(caught.value):
        assert len(str(caught.value).split("\n")) == 3


def test_a_whole_slice_records_nothing() -> None:
    jaxpr, _ = stage(lambda x: [ops.slice(x, (0, 0), (3, 4), (1, 1))], [aval_of(jnp.array(M))])
    assert jaxpr.eqns == []


def test_starts_of_any_integer_dtype_mean_the_same() -> None:
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32"):
        start = jnp.array(2, dtype)
        found = ops.dynamic_slice_p.bind(jnp.array(X), start, slice_sizes=(2,))
        with override(engine="xla"):
            compiled = ops.dynamic_slice_p.bind(jnp.array(X), start, slice_sizes=(2,))
        np.testing.assert_array_equal(found, X[2:4])
        np.testing.assert_array_equal(compiled, X[2:4])


def test_a_large_unsigned_start_lies_past_the_end() -> None:
    start = jnp.array(2**32 - 1, "uint32")
    for engine in ("reference", "xla"):
        with override(engine=engine):
            found = ops.dynamic_slice_p.bind(jnp.array(X), start, slice_sizes=(2,))
            np.testing.assert_array_equal(found, X[3:])


def test_mapped_starts_become_gather_and_scatter() -> None:
    starts = jnp.array([0, 3, 9])

    def part(i: Any) -> Any:
        return ops.dynamic_slice_in_dim(jnp.array(X), i, 2, 0)

    def changed(i: Any) -> Any:
        return ops.dynamic_update_slice_in_dim(jnp.array(X), jnp.array([7.0, 8.0]), i, 0)

    np.testing.assert_array_equal(kiln.vmap(part)(starts), [[0, 1], [3, 4], [3, 4]])
    wanted = [[7, 8, 2, 3, 4], [0, 1, 2, 7, 8], [0, 1, 2, 7, 8]]
    np.testing.assert_array_equal(kiln.vmap(changed)(starts), wanted)
    assert "gather" in str(kiln.make_jaxpr(kiln.vmap(part))(starts))
    assert "scatter" in str(kiln.make_jaxpr(kiln.vmap(changed))(starts))


def test_the_cotangent_of_padding_ignores_what_lies_on_elements() -> None:
    # With an infinite cotangent on an element, a difference of sums would be nan.
    ct = jnp.array([np.inf, 1.0, 2.0], "float32")
    _, pull = kiln.vjp(lambda v: ops.pad(jnp.array([3.0]), v, [(0, 2, 0)]), jnp.float32(0))
    assert float(pull(ct)[0]) == 3.0


def test_keys_are_sliced_like_numbers() -> None:
    random = pytest.importorskip("kiln.random")
    keys = random.split(random.key(0), 3)
    part = ops.dynamic_slice_in_dim(keys, 1, 1, 0)
    assert part.dtype == keys.dtype
    joined = ops.concatenate([part, ops.slice_in_dim(keys, 0, 2)], 0)
    data = np.asarray(random.key_data(keys))
    np.testing.assert_array_equal(np.asarray(random.key_data(joined)), data[[1, 0, 1]])


def test_narrow_starts_count_from_the_end_of_long_axes() -> None:
    x = jnp.arange(300)
    for start in (np.int8(-1), jnp.array(-1, "int8")):
        assert int(ops.dynamic_index_in_dim(x, start, 0, False)) == 299
    assert int(kiln.jit(lambda x, i: x[i])(x, np.int8(-1))) == 299
    assert kiln.jit(lambda x, i: x[i])(x, np.array([-1, 5], np.int8)).tolist() == [299, 5]
