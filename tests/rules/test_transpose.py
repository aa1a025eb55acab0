"""`transpose` is the adjoint: <w, Jv> = <transposed J w, v>."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.ops.shape import filled
from kiln.transforms.jvp import jvp
from kiln.transforms.reverse import linearize
from tests.cases.case import Case
from tests.cases.collection import (
    CASES,
    as_numpy,
    assert_close,
    differentiable,
    directions,
    drawn,
    each,
    moved,
)


def inner(xs: list[Any], ys: list[Any]) -> float:
    """Return the real part of the sum of products; cotangents are not conjugated."""
    return float(sum(np.real(np.sum(as_numpy(filled(x)) * as_numpy(y))) for x, y in zip(xs, ys)))


@each(differentiable(CASES), "transpose")
def test_transpose_is_the_adjoint(case: Case) -> None:
    with override(enable_x64=True):
        fun, primals = moved(case, drawn(case, wide=True))
        tangents = list(map(from_host, directions(primals, 1)))
        outs, linear = linearize(fun, list(map(from_host, primals)))
        weights = list(map(from_host, directions([as_numpy(x) for x in outs], 2)))
        pushed = linear.push(tangents)
        pulled = linear.pull(weights)
        _, expected = jvp(fun, list(map(from_host, primals)), tangents)
        for a, b in zip(pushed, expected, strict=True):
            assert_close(filled(a), filled(b), 1e-8, "linearize and jvp")
        for x, ct in zip(primals, pulled, strict=True):
            assert (ct.aval.shape, ct.aval.dtype) == (x.shape, x.dtype)
        left, right = inner(pushed, weights), inner(pulled, tangents)
        assert np.isclose(left, right, rtol=1e-7, atol=1e-7), f"{left} and {right}"


@each(differentiable(CASES), "transpose")
def test_pulling_back_keeps_the_dtype(case: Case) -> None:
    fun, primals = moved(case, drawn(case))
    outs, linear = linearize(fun, list(map(from_host, primals)))
    pulled = linear.pull(list(map(from_host, directions([as_numpy(x) for x in outs], 2))))
    for x, ct in zip(primals, pulled, strict=True):
        assert (ct.aval.shape, ct.aval.dtype) == (x.shape, x.dtype)
