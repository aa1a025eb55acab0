"""Arrays of Python data: buffers are copied, traced sizes refused, 64 bits narrowed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp


def test_a_buffer_is_copied() -> None:
    data = np.arange(3, dtype=np.float32)
    found = [jnp.array(data), jnp.asarray(data), jnp.asarray(data, "float32"), jnp.sin(data)]
    before = [np.array(x) for x in found]
    data[:] = 9
    for x, old in zip(found, before, strict=True):
        np.testing.assert_array_equal(x, old)


def test_a_program_keeps_its_own_copy() -> None:
    data = np.arange(3, dtype=np.float32)
    fun = kiln.jit(lambda x: x + data)
    assert fun(jnp.zeros(3)).tolist() == [0, 1, 2]
    data[:] = 9
    assert fun(jnp.zeros(3)).tolist() == [0, 1, 2]


def test_array_copies_and_asarray_does_not() -> None:
    x = jnp.arange(3)
    assert jnp.asarray(x) is x
    y = jnp.array(x)
    assert y is not x
    x.delete()
    assert y.tolist() == [0, 1, 2]


def test_an_explicit_wide_dtype_warns() -> None:
    with pytest.warns(UserWarning, match="float64 requested in zeros is not available"):
        assert jnp.zeros(2, "float64").dtype == np.float32
    with pytest.warns(UserWarning, match="int64"):
        jnp.ones(2).astype("int64")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jnp.asarray(np.ones(2)).dtype == np.float32
        assert jnp.zeros(2, float).dtype == np.float32


def test_a_traced_shape_is_refused() -> None:
    for fun in (
        jnp.zeros,
        lambda n: jnp.ones((2, n)),
        lambda n: jnp.full(n, 1.0),
        lambda n: jnp.broadcast_to(1.0, (n,)),
        lambda n: jnp.ones(3).reshape(n, 1),
        jnp.eye,
    ):
        with pytest.raises(TypeError, match=r"(?s)[Ss]hapes?.*concrete"):
            kiln.jit(fun)(3)


@pytest.mark.parametrize(
    "fun", [jnp.arange, lambda n: jnp.arange(0, n), lambda n: jnp.linspace(0, 1, n)]
)
def test_a_traced_size_names_the_function(fun: Any) -> None:
    with pytest.raises(kiln.errors.ConcretizationTypeError, match=r"arange|linspace"):
        kiln.jit(fun)(3)


def test_linspace_takes_traced_ends() -> None:
    found = kiln.jit(lambda a, b: jnp.linspace(a, b, 3))(1.0, 2.0)
    assert found.tolist() == [1.0, 1.5, 2.0]


def test_arrays_of_tracers() -> None:
    found = kiln.jit(lambda a, b: jnp.array([[a, b], [b, 1]]))(2.0, 3.0)
    assert found.tolist() == [[2, 3], [3, 1]]
    assert found.dtype == np.float32
    assert not found.weak_type
    grads = kiln.grad(lambda a: jnp.array([a, 2 * a]).sum())(1.0)
    assert grads == 3.0


def test_int_outside_int32() -> None:
    for value in (2**40, -(2**40), [2**40]):
        with pytest.raises(OverflowError, match="int32"):
            jnp.array(value)


def test_ranges_are_counted_in_the_program() -> None:
    text = str(kiln.make_jaxpr(lambda: jnp.arange(2, 8, 2))())
    assert "iota" in text
    assert text.startswith("{ lambda ; . let")


def test_like_accepts_descriptions() -> None:
    described = kiln.ShapeDtypeStruct((2, 3), np.int32)
    assert jnp.zeros_like(described).shape == (2, 3)
    assert jnp.ones_like(described).dtype == np.int32


def test_scalar_types_are_dtypes() -> None:
    assert jnp.float32 == np.dtype("float32")
    assert jnp.zeros(2, jnp.bfloat16).dtype == jnp.bfloat16
    assert isinstance(jnp.float32(1), jnp.ndarray)
    assert jnp.issubdtype(jnp.bfloat16, jnp.floating)


def test_keys_are_arrays_too() -> None:
    keys = kiln.random.split(kiln.random.key(0), 3)
    stacked = jnp.stack([keys[0], keys[1]])
    assert stacked.shape == (2,)
    assert jnp.issubdtype(stacked.dtype, kiln.dtypes.prng_key)
    words = kiln.random.key_data
    assert words(jnp.full((3, 1), keys[1])).tolist() == [[words(keys[1]).tolist()]] * 3
    assert words(jnp.zeros(2, keys.dtype)).tolist() == [[0, 0]] * 2
    assert words(jnp.zeros_like(keys)).tolist() == [[0, 0]] * 3
    assert words(jnp.full_like(keys, 7, shape=(1,))).tolist() == [[7, 7]]
    assert words(jnp.full_like(keys, keys[1])).tolist() == [words(keys[1]).tolist()] * 3


class Shape:
    """Neither a tuple nor a list: as libraries have them."""

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[int]:
        return iter(self.sizes)

    def __getitem__(self, i: int) -> int:
        return self.sizes[i]


@pytest.mark.parametrize("shape", [Shape(2, 3), range(2, 4), np.array([2, 3]), jnp.array([2, 3])])
def test_shapes_are_any_sequences(shape: Any) -> None:
    made = [
        jnp.zeros(shape),
        jnp.full(shape, 1.0),
        jnp.broadcast_to(1.0, shape),
        jnp.ones(6).reshape(shape),
        kiln.lax.full(shape, 1.0),
        kiln.random.normal(kiln.random.key(0), shape),
        kiln.nn.initializers.normal()(kiln.random.key(0), shape),
    ]
    assert [x.shape for x in made] == [(2, 3)] * len(made)
    assert all(type(size) is int for x in made for size in x.shape)


@pytest.mark.parametrize("shape", [{3}, {2: 1}, "23", b"23", iter((2, 3))])
def test_what_is_no_shape(shape: Any) -> None:
    with pytest.raises(TypeError, match="Shapes must be 1D sequences"):
        jnp.zeros(shape)


def test_zeros_that_are_tangents_of_integers_are_numpys() -> None:
    zeros = jnp.zeros((2, 3), kiln.dtypes.float0)
    assert type(zeros) is np.ndarray
    assert zeros.dtype == kiln.dtypes.float0
    assert zeros.shape == (2, 3)
    tangents = (1.0, jnp.zeros((), kiln.dtypes.float0))
    assert kiln.jvp(lambda x, n: x * n, (2.0, 3), tangents)[1] == 3


def test_a_shape_may_be_one_number_in_an_array() -> None:
    assert jnp.zeros(np.array(4, np.int32)).shape == (4,)
    assert jnp.full(jnp.array(3), 1).shape == (3,)


def test_grids_of_numbers_of_several_kinds_promote_in_strict_mode() -> None:
    with kiln.numpy_dtype_promotion("strict"):
        assert jnp.mgrid[0:4:1.5, 0:3].shape == (2, 3, 3)
        assert jnp.mgrid[-1:1:5j, 1:3].dtype == np.float32


@pytest.mark.parametrize("copy", [True, False])
def test_a_conversion_to_the_same_dtype_copies_if_asked(copy: bool) -> None:
    x = jnp.arange(5)
    for _ in range(3):
        y = x.astype("int32", copy=copy)
    y.delete()
    assert x.is_deleted() is not copy
    x = jnp.arange(5)
    y = jnp.astype(x, "int32", copy=copy)
    assert (y is x) is not copy
