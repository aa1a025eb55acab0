"""The type of a reference."""

from __future__ import annotations

import pickle

import numpy as np

from kiln.base.dtypes import float0
from kiln.ir.ref_type import AbstractRef, is_ref_type
from kiln.ir.types import ShapedArray

ROW = ShapedArray((3,), np.dtype(np.float32))


def test_it_is_compared_by_the_array_it_holds() -> None:
    assert AbstractRef(ROW) == AbstractRef(ROW.with_())
    assert hash(AbstractRef(ROW)) == hash(AbstractRef(ROW.with_()))
    assert AbstractRef(ROW) != AbstractRef(ROW.with_(weak_type=True))
    assert AbstractRef(ROW) != ROW
    assert AbstractRef(ROW) != ROW


def test_it_has_the_shape_of_the_array() -> None:
    aval = AbstractRef(ROW)
    assert (aval.shape, aval.dtype, aval.ndim, aval.size) == ((3,), np.float32, 1, 3)
    assert aval.with_() is aval
    assert aval.with_(shape=(2,)).inner_aval.shape == (2,)
    assert aval.same_type(AbstractRef(ROW.with_(weak_type=True)))
    assert not aval.same_type(ROW)
    assert aval.tangent().dtype == float0
    assert aval.physical() == ROW


def test_its_text() -> None:
    assert AbstractRef(ROW).str_short() == "Ref{f32[3]}"
    assert repr(AbstractRef(ROW)) == "Ref{float32[3]}"


def test_it_can_be_pickled_and_recognized() -> None:
    assert pickle.loads(pickle.dumps(AbstractRef(ROW))) == AbstractRef(ROW)
    assert is_ref_type(AbstractRef(ROW))
    assert not is_ref_type(ROW)
