from __future__ import annotations

import msgpack
import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.serialization import from_bytes, messages, msgpack_restore, msgpack_serialize, to_bytes


def test_an_array_is_an_extension() -> None:
    packed = msgpack.unpackb(to_bytes({"a": jnp.asarray([1, 2], jnp.bfloat16)}))
    shape, dtype, content = msgpack.unpackb(packed["a"].data)
    assert (packed["a"].code, shape, dtype, content) == (1, [2], "bfloat16", b"\x80?\x00@")


def test_numbers_come_back_as_they_were() -> None:
    tree = {"f": np.float32(1), "c": 1 + 2j, "i": 3, "b": True, "n": None, "s": "x"}
    found = msgpack_restore(to_bytes(tree))
    assert found == tree
    assert {k: type(v) for k, v in found.items()} == {k: type(v) for k, v in tree.items()}


def test_keys_keep_their_order_or_are_sorted() -> None:
    tree = {"b": 1, "a": 2}
    assert list(msgpack_restore(to_bytes(tree))) == ["b", "a"]
    assert list(msgpack_restore(msgpack_serialize(tree))) == ["a", "b"]


def test_large_arrays_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MAX_CHUNK_SIZE", 64)
    tree = {"a": {"b": np.arange(40.0).reshape(4, 10)}, "c": np.ones(8)}
    data = msgpack_serialize(tree)
    assert len(msgpack.unpackb(data)["a"]["b"]["chunks"]) == 5
    found = msgpack_restore(data)
    np.testing.assert_array_equal(found["a"]["b"], tree["a"]["b"])


def test_what_is_given_does_not_change() -> None:
    tree = {"a": {"b": jnp.ones(2)}}
    msgpack_serialize(tree, in_place=True)
    assert isinstance(tree["a"]["b"], kiln.Array)


def test_the_other_byte_order() -> None:
    found = msgpack_restore(to_bytes(np.asarray([1, 2], ">i4")))
    assert found.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("leaf", "error", "message"),
    [
        (object(), TypeError, r"at path \./a/0 at .*\ncan not serialize 'object'"),
        (2**64, OverflowError, r"at path \./a/0 at .*\nInteger value out of range"),
        (np.array(["x"]), ValueError, r"at path \./a/0 at .*\nObject and structured dtypes"),
        (np.ones(1, [("x", "f4")]), ValueError, r"at path \./a/0 at .*\nObject and structured"),
        (kiln.random.key(0), TypeError, r"at path \./a/0 at .*\n(.|\n)*kiln.random.key_data"),
    ],
)
def test_what_cannot_be_written_is_named(leaf, error, message) -> None:
    with pytest.raises(error, match=message):
        to_bytes({"a": [leaf]})


def test_odd_keys() -> None:
    with pytest.raises(TypeError, match="can not serialize 'tuple'"):
        msgpack_serialize({("a",): 1})


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x81\xa1a", b"\x01\x01"])
def test_what_is_no_message(data) -> None:
    with pytest.raises(ValueError, match="not a complete message"):
        msgpack_restore(data)


def test_foreign_extensions_stay() -> None:
    assert msgpack_restore(b"\xd4\x09a") == msgpack.ExtType(9, b"a")


def test_a_sharded_array_is_written_whole() -> None:
    x = jnp.arange(6.0)
    np.testing.assert_array_equal(from_bytes({"x": x}, to_bytes({"x": x}))["x"], np.arange(6.0))
