"""The hash: published answers, and its two ways of computing in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from kiln.ops.random.threefry import hash_words, threefry2x32

# The known-answer test of the authors' library, for threefry2x32 with 20 rounds.
KNOWN = [
    ((0, 0, 0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF,) * 4, (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize(("words", "expected"), KNOWN)
def test_known_answers(words: tuple[int, ...], expected: tuple[int, int], engine: str) -> None:
    found = threefry2x32(*np.array(words, np.uint32))
    assert tuple(map(int, found)) == expected


def test_few_words_are_hashed_like_many() -> None:
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**32, (4, 50), np.uint32)
    many = hash_words(*words)
    for i in range(50):
        few = hash_words(*words[:, i])
        assert [int(x) for x in few] == [int(x[i]) for x in many]


def test_operands_broadcast_in_numpy() -> None:
    key = np.arange(3, dtype=np.uint32)[:, None]
    first, second = hash_words(key, key, np.uint32(0), np.arange(20, dtype=np.uint32))
    assert first.shape == second.shape == (3, 20)


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(TypeError, match="all four words must be uint32"):
        threefry2x32(*[np.int32(0)] * 4)
