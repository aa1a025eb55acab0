"""Where elements lie."""

from __future__ import annotations

import numpy as np

from kiln.engines.native.loop_ir.addresses import element_offset, in_elements
from kiln.engines.native.loop_ir.layout import Layout, dense
from kiln.engines.native.loop_ir.statements import Axis, Index

I, J = Axis("i", 4), Axis("j", 8)


def test_an_element_of_a_dense_value() -> None:
    x = dense(None, (4, 8), np.dtype("f4"))
    assert element_offset(x, (I, J)) == Index(0, [(I, 32), (J, 4)])
    assert in_elements(element_offset(x, (I, J)), 4) == Index(0, [(I, 8), (J, 1)])


def test_axes_of_one_element_and_repeated_elements_are_no_terms() -> None:
    one = Axis("o", 1)
    x = Layout(None, 12, (1, 4, 8), (32, 0, 4), np.dtype("f4"))
    assert element_offset(x, (one, I, J)) == Index(12, [(J, 4)])
    # A longer axis over a size of 1.
    assert element_offset(x, (I, I, J)) == Index(12, [(J, 4)])


def test_indices_and_offsets_add_up() -> None:
    x = Layout(None, Index(8, [(I, 16)]), (4, 8), (64, 4), np.dtype("f4"))
    at = Index(2, [(I, -1), (J, 3)])
    assert element_offset(x, (I, at)) == Index(16, [(I, 16 + 64 - 4), (J, 12)])
    # A diagonal read against itself: the terms cancel.
    back = Index(3, [(I, -20)])
    assert element_offset(x, (I, back)) == Index(20)
    assert in_elements(element_offset(x, (I, back)), 4) == Index(5)


def test_bytes_are_elements_of_one_byte() -> None:
    index = Index(3, [(I, 2)])
    assert in_elements(index, 1) is index
    assert in_elements(index, 0) is index
