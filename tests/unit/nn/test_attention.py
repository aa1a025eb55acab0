"""Attention takes bias and mask without their leading axes."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln import nn

DRAWN = np.random.RandomState(0)
QUERY, KEY, VALUE = (DRAWN.normal(size=(length, 2, 3)).astype("float32") for length in (4, 5, 5))


@pytest.mark.parametrize("shape", [(5,), (4, 5), (2, 4, 5), (1, 1, 4, 5)])
@pytest.mark.parametrize("name", ["bias", "mask"])
def test_leading_axes_may_be_missing(name: str, shape: tuple[int, ...]) -> None:
    given = DRAWN.normal(size=shape).astype("float32")
    if name == "mask":
        given = given > 0
    whole = given.reshape((1,) * (4 - len(shape)) + shape)
    expected = nn.dot_product_attention(QUERY[None], KEY[None], VALUE[None], **{name: whole})
    found = nn.dot_product_attention(QUERY, KEY, VALUE, **{name: given})
    np.testing.assert_array_equal(found, expected[0])


def test_lengths_promote_no_ranks() -> None:
    lengths = np.array([2, 3], np.int32)
    query, key, value = (np.stack([x, x + 1]) for x in (QUERY, KEY, VALUE))
    given = {"query_seq_lengths": lengths, "key_value_seq_lengths": lengths + 1}
    expected = nn.dot_product_attention(query, key, value, **given)
    with kiln.numpy_rank_promotion("raise"):
        found = nn.dot_product_attention(query, key, value, **given)
    np.testing.assert_array_equal(found, expected)
