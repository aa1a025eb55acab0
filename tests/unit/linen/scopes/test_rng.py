"""Keys of a path: their hash, their counts, and what is accepted as keys."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

import kiln
from kiln.linen.errors import InvalidRngError
from kiln.linen.scopes.rng import DrawCounts, FoldedKeys, is_key, path_hash, streams

KEY = kiln.random.key(0)


def test_the_hash_is_that_of_names_and_count():
    digest = hashlib.sha1(b"blockDense_0" + bytes([1, 1])).digest()
    assert path_hash(("block", "Dense_0"), 257) == int.from_bytes(digest[:4], "big")


def test_keys_are_the_root_folded_with_the_hash():
    keys = FoldedKeys({"params": KEY})
    expected = kiln.random.fold_in(KEY, np.uint32(path_hash(("a",), 2)))
    assert kiln.random.key_data(keys.draw("params", ("a",), 2)).tolist() == (
        kiln.random.key_data(expected).tolist()
    )
    assert "params" in keys
    assert "dropout" not in keys


def test_counts_are_per_path_and_stream():
    counts = DrawCounts()
    assert [counts.next("a"), counts.next("a"), counts.next("b")] == [1, 2, 1]
    assert counts.of("x").next("a") == 1
    assert counts.of("x").next("a") == 2
    assert sorted(counts.items()) == [((), "a", 2), ((), "b", 1), (("x",), "a", 2)]
    copy = DrawCounts()
    for item in counts.items():
        copy.add(*item)
    assert copy.next("a") == 3
    assert copy.of("x").next("a") == 3


def test_what_is_a_key():
    assert is_key(KEY)
    assert is_key(kiln.random.PRNGKey(0))
    assert is_key(np.zeros(2, np.uint32))
    assert not is_key(kiln.random.split(KEY))
    assert not is_key(np.zeros(2, np.int32))
    assert not is_key(3)


def test_streams_of_keys():
    assert list(streams(KEY, "init")) == ["params"]
    assert list(streams({"a": KEY, "b": KEY}, "init")) == ["a", "b"]
    assert streams(None, "init") == {}
    for wrong in (3, "params", {"a": 3}, {3: KEY}, kiln.random.split(KEY)):
        with pytest.raises(InvalidRngError) as caught:
            streams(wrong, "init")
        assert len(str(caught.value).splitlines()) == 3
