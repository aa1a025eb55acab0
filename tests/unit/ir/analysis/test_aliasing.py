"""Which result takes the memory of which donated input."""

from __future__ import annotations

import numpy as np
import pytest

from kiln.ir.analysis.aliasing import reused
from kiln.ir.jaxpr import Jaxpr, Var
from kiln.ir.types import ShapedArray


def program(ins, outs):
    def types(texts):
        return [
            Var(ShapedArray(tuple(shape), np.dtype(dtype))) for dtype, *shape in map(tuple, texts)
        ]

    return Jaxpr([], types(ins), [], types(outs))


F32 = ("float32", 4)


@pytest.mark.parametrize(
    ("ins", "outs", "donated", "want"),
    [
        ([F32], [F32], (0,), {0: 0}),
        ([F32], [F32], (), {}),
        ([F32, F32], [F32], (0, 1), {0: 0}),
        ([F32, F32], [F32], (1,), {1: 0}),
        ([F32], [("int32", 4)], (0,), {0: 0}),
        ([F32], [("int32", 4), F32], (0,), {0: 1}),
        ([F32], [("float32", 2, 2)], (0,), {0: 0}),
        ([F32], [("float16", 4)], (0,), {}),
        ([F32], [("float16", 8)], (0,), {0: 0}),
        ([("int32", 4), F32], [F32, F32], (0, 1), {0: 1, 1: 0}),
    ],
)
def test_pairs(ins, outs, donated, want) -> None:
    assert reused(program(ins, outs), donated) == want
