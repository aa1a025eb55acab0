"""Concrete arrays: attributes, conversions, deletion, text; operators come from outside."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base import dtypes
from kiln.base.options.config import override
from kiln.core.arrays.array import (
    Array,
    ConcreteArray,
    buffer_for,
    from_host,
    host_value,
    with_type,
)
from kiln.core.engines.engine import engine
from kiln.ir.types import ShapedArray

F32 = np.dtype(np.float32)


def array(value: Any, dtype: Any = "float32", weak: bool = False) -> ConcreteArray:
    data = np.asarray(value, dtype)
    return from_host(data, ShapedArray(data.shape, data.dtype, weak))


def test_attributes() -> None:
    x = array([[1, 2, 3], [4, 5, 6]])
    assert (x.shape, x.dtype, x.ndim, x.size, x.itemsize, x.nbytes) == ((2, 3), F32, 2, 6, 4, 24)
    assert (len(x), x.weak_type) == (2, False)
    assert isinstance(x, Array)
    assert isinstance(x, kiln.Array)
    with pytest.raises(TypeError, match="unsized"):
        len(array(1.0))
    with pytest.raises(TypeError, match="abstract"):
        Array()


def test_the_values_cannot_be_changed() -> None:
    x = array([1, 2])
    assert not np.asarray(x).flags.writeable
    assert np.array(x, copy=True).flags.writeable
    with pytest.raises(TypeError, match=r"immutable[\s\S]*x\.at\[idx\]"):
        x[0] = 1.0
    assert x.__hash__ is None


def test_conversions() -> None:
    assert (int(array(2.7)), float(array(2.5)), complex(array(1j, "complex64"))) == (2, 2.5, 1j)
    assert bool(array([[1]]))
    assert [10, 20, 30][array(1, "int32")] == 20
    assert array([[1, 2]]).tolist() == [[1, 2]]
    assert array([1, 2]).item(1) == 2
    assert np.asarray(array([1.5]), "float64").dtype == np.float64
    assert array([1, 2]).tobytes() == np.asarray([1, 2], F32).tobytes()
    assert f"{array(1.5):.2f}" == "1.50"


@pytest.mark.parametrize(
    ("use", "error", "phrase"),
    [
        (lambda: bool(array([1, 2])), ValueError, "more than one element is ambiguous"),
        (lambda: bool(array([])), ValueError, "no element is ambiguous"),
        (lambda: float(array([1.0])), TypeError, "Only scalar arrays can be converted"),
        (lambda: [1][array(0.0)], TypeError, "Only integer scalar arrays"),
    ],
)
def test_refused_conversions(use: Any, error: type[Exception], phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        use()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (array([0, 1, 256, 6561], "int32"), "Array([   0,    1,  256, 6561], dtype=int32)"),
        (array(30, "int32", weak=True), "Array(30, dtype=int32, weak_type=True)"),
        (array([], "int32"), "Array([], shape=(0,), dtype=int32)"),
        (array(2.5), "Array(2.5, dtype=float32)"),
        (array([1, 2], dtypes.bfloat16), "Array([1, 2], dtype=bfloat16)"),
    ],
)
def test_text(value: ConcreteArray, text: str) -> None:
    assert repr(value) == text
    assert str(value) == str(np.asarray(value))


def test_copies_and_pickles() -> None:
    x = array([1, 2], weak=True)
    for same in (copy.copy(x), copy.deepcopy([x])[0]):
        assert (same.aval, same.tolist()) == (x.aval, [1, 2])
    again = pickle.loads(pickle.dumps(x))
    assert (again.aval, again.tolist()) == (x.aval, [1, 2])


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 1,
        repr,
        np.asarray,
        lambda x: x[0],
        lambda x: x.block_until_ready(),
        lambda x: x.is_ready(),
        copy.deepcopy,
        lambda x: with_type(x, x.aval),
        lambda x: buffer_for(x, engine("xla").memory),
    ],
)
def test_a_deleted_array_is_refused(use: Any) -> None:
    x = array([1, 2])
    x.delete()
    assert x.is_deleted()
    assert (x.shape, x.dtype, x.ndim) == ((2,), F32, 1)
    with pytest.raises(RuntimeError, match="deleted"):
        use(x)


def test_data_moves_to_an_engine_once() -> None:
    home = engine("xla").memory
    x = array([1, 2])
    buffer = buffer_for(x, home)
    assert buffer_for(x, home) is buffer
    y = ConcreteArray(x.aval, None, buffer, home)
    assert np.asarray(y).tolist() == [1, 2]
    assert host_value(y) is host_value(y)
    assert y.block_until_ready() is y
    assert y.is_ready()


def test_the_reference_engine_uses_the_memory_itself() -> None:
    x = array([1, 2])
    assert buffer_for(x, engine("reference").memory) is host_value(x)


def test_another_type_of_the_same_memory() -> None:
    x = array([1, 2])
    weak = with_type(x, x.aval.with_(weak_type=True))
    assert weak.weak_type
    assert host_value(weak) is host_value(x)


def test_keys_have_a_physical_type() -> None:
    key = ShapedArray((3,), dtypes.KeyDtype("fry"))
    assert key.physical() == ShapedArray((3,), np.dtype(np.uint64))
    plain = ShapedArray((3,), F32)
    assert plain.physical() is plain


def test_moves_from_device_to_device() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    for x in (values, values > 2, values.astype(np.complex64), np.zeros((0, 2), np.int8)):
        one = kiln.device_put(x, kiln.devices()[1])
        two = kiln.device_put(one, kiln.devices()[2])
        assert two.devices() == {kiln.devices()[2]} and two.committed
        np.testing.assert_array_equal(kiln.jit(lambda a: a[::-1])(two), x[::-1])
        one.delete()
        np.testing.assert_array_equal(two, x)
    keys = kiln.device_put(kiln.random.split(kiln.random.key(1), 3), kiln.devices()[1])
    moved = kiln.device_put(keys, kiln.devices()[2])
    np.testing.assert_array_equal(kiln.random.key_data(moved), kiln.random.key_data(keys))
    half = kiln.device_put(kiln.numpy.ones(3, "bfloat16"), kiln.devices()[3])
    assert (kiln.device_put(half, kiln.devices()[4]) == 1).all()
    with pytest.raises(RuntimeError, match="deleted"):
        kiln.device_put(one, kiln.devices()[2])


@pytest.mark.parametrize(
    ("value", "aval"),
    [
        (np.ones(2, np.float32), ShapedArray((1000,), np.dtype(np.float32))),
        (np.ones(2, np.float32), ShapedArray((2,), np.dtype(np.float64))),
        (np.ones(2, object), ShapedArray((2,), np.dtype(np.float32))),
        (np.ma.ones(2), ShapedArray((2,), np.dtype(np.float64))),
        ([1.0], ShapedArray((1,), np.dtype(np.float64))),
        (np.ones(2, np.float32), None),
    ],
)
def test_corrupted_pickles_of_arrays(value, aval) -> None:
    make, (kind, *_) = from_host(np.ones(2, np.float32)).__reduce__()
    with pytest.raises(ValueError, match="corrupted"):
        make(kind, value, aval)


def test_copies_have_memory_of_their_own() -> None:
    give_away = kiln.jit(lambda x: x + 1, donate_argnums=0)
    for make in (array, lambda v: kiln.device_put(array(v), kiln.devices()[1])):
        for copied in (copy.copy, copy.deepcopy):
            x = make([1.0, 2.0])
            y = copied(x)
            assert y.devices() == x.devices() and y.committed == x.committed
            give_away(x)
            assert x.is_deleted() and y.tolist() == [1, 2]
            with pytest.raises(RuntimeError, match="deleted"):
                copied(x)


def _cut() -> tuple[ConcreteArray, ConcreteArray]:
    """Return an array on four devices and its first part."""
    mesh = kiln.sharding.Mesh(np.array(kiln.devices()[:4]), ("d",))
    place = kiln.sharding.NamedSharding(mesh, kiln.sharding.PartitionSpec("d"))
    whole = kiln.device_put(array(np.arange(8.0)), place)
    return whole, whole.addressable_shards[0].data


@pytest.mark.parametrize("how", ["delete", "donate"])
def test_a_part_goes_and_the_whole_stays(how: str) -> None:
    whole, part = _cut()
    if how == "delete":
        part.delete()
    else:
        assert kiln.jit(lambda x: x + 1, donate_argnums=0)(part).tolist() == [1, 2]
    assert part.is_deleted() and not whole.is_deleted() and whole.is_ready()
    assert kiln.jit(lambda x: x * 2)(whole).tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    assert whole.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert len(whole.addressable_shards) == 4
    with pytest.raises(RuntimeError, match="deleted"):
        part.tolist()


def test_the_whole_goes_and_its_parts_raise_or_stay() -> None:
    whole, part = _cut()
    whole.delete()
    assert part.tolist() == [0, 1] and kiln.jit(lambda x: x + 1)(part).tolist() == [1, 2]
    whole, part = _cut()
    kiln.jit(lambda x: x + 1, donate_argnums=0)(whole)
    uses = [repr, np.asarray, lambda x: x + 1, lambda x: x.block_until_ready()]
    uses += [lambda x: x.is_ready(), kiln.jit(lambda x: x + 1), lambda x: x.unsafe_buffer_pointer()]
    for use in uses:
        with pytest.raises(RuntimeError, match=r"deleted|donated"):
            use(part)


def test_an_array_that_is_deleted_while_it_is_read_stays_deleted() -> None:
    with override(engine="xla"):
        x = kiln.jit(lambda x: x + 1)(array([1.0, 2.0]))
    memory = x._memory
    assert memory is not None

    class Slow:
        def get(self, buffer: Any) -> np.ndarray:
            x.delete()
            return memory.get(buffer)

        def is_deleted(self, buffer: Any) -> bool:
            return False

    assert x._settle(x._buffer, x._buffer, Slow(), False)  # type: ignore[arg-type]
    assert np.asarray(x).tolist() == [2, 3]
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        x.tolist()
