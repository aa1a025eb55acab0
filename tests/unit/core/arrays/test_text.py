"""How arrays are written."""

from __future__ import annotations

import numpy as np

from kiln.base.dtypes import KeyDtype
from kiln.core.arrays.text import printable, representation
from kiln.ir.types import ShapedArray


def test_numbers() -> None:
    value = np.arange(3, dtype=np.int32)
    aval = ShapedArray((3,), value.dtype)
    assert printable(value, aval) is value
    assert representation(value, aval) == "Array([0, 1, 2], dtype=int32)"
    weak = ShapedArray((), np.dtype("f4"), weak_type=True)
    assert representation(np.float32(2), weak) == "Array(2., dtype=float32, weak_type=True)"
    empty = np.zeros((0, 2), np.float32)
    text = representation(empty, ShapedArray((0, 2), empty.dtype))
    assert text == "Array([], shape=(0, 2), dtype=float32)"


def test_keys_show_their_words() -> None:
    value = np.asarray([(5 << 32) + 7], np.uint64)
    aval = ShapedArray((1,), KeyDtype("fry"))
    assert printable(value, aval).tolist() == [[7, 5]]
    text = representation(value, aval)
    assert text.startswith("Array((1,), dtype=key<fry>)") and text.endswith("[[7 5]]")
