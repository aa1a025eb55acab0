"""The derivative of a pulled-back gradient agrees with finite differences."""

from __future__ import annotations

from typing import Any

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
    finite_difference,
    moved,
)

STEP = 1e-6


@each(differentiable(CASES), "second order")
def test_derivative_of_the_gradient(case: Case) -> None:
    with override(enable_x64=True):
        fun, primals = moved(case, drawn(case, wide=True))
        weights = directions([as_numpy(x) for x in fun(*map(from_host, primals))], 2)
        tangents = directions(primals, 3)

        def gradient(*xs: Any) -> list[Any]:
            _, linear = linearize(fun, list(xs))
            return [filled(ct) for ct in linear.pull(list(map(from_host, weights)))]

        _, pushed = jvp(gradient, list(map(from_host, primals)), list(map(from_host, tangents)))
        above = gradient(*[from_host(x + STEP * t) for x, t in zip(primals, tangents, strict=True)])
        below = gradient(*[from_host(x - STEP * t) for x, t in zip(primals, tangents, strict=True)])
        for t, hi, lo in zip(pushed, above, below, strict=True):
            slope = finite_difference(hi, lo, STEP)
            assert_close(filled(t), slope.astype(hi.dtype), case.derivative_tolerance)
