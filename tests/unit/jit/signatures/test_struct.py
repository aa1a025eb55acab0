"""Types given in place of arrays."""

from __future__ import annotations

import kiln
from kiln import lax
from kiln.ir.types import ShapedArray
from kiln.jit.signatures.struct import ShapeDtypeStruct, struct_of, type_of_struct


def test_round_trip() -> None:
    aval = ShapedArray((2,), kiln.dtypes.canonicalize_dtype("float32"), True)
    assert type_of_struct(struct_of(aval)) == aval
    assert type_of_struct(1.0) is None


def test_eval_shape_allocates_nothing() -> None:
    huge = ShapeDtypeStruct((10**9, 10**9), "float32")
    assert kiln.eval_shape(lambda x: lax.mul(x, 2.0), huge) == huge
