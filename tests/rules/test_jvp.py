"""`jvp` is the derivative: it agrees with central finite differences in 64 bits."""

from __future__ import annotations

import numpy as np

from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.ops.shape import filled
from kiln.transforms.jvp import jvp
from tests.cases.case import Case
from tests.cases.collection import (
    CASES,
    assert_close,
    differentiable,
    directions,
    drawn,
    each,
    finite_difference,
    moved,
)

STEP = 1e-6


@each(differentiable(CASES), "jvp")
def test_jvp_is_the_finite_difference(case: Case) -> None:
    with override(enable_x64=True):
        fun, primals = moved(case, drawn(case, wide=True))
        tangents = directions(primals, 1)
        outs, pushed = jvp(fun, list(map(from_host, primals)), list(map(from_host, tangents)))
        above = fun(*[from_host(x + STEP * t) for x, t in zip(primals, tangents, strict=True)])
        below = fun(*[from_host(x - STEP * t) for x, t in zip(primals, tangents, strict=True)])
        assert outs, "the case has no result with a derivative"
        for plain, out, t, hi, lo in zip(fun(*map(from_host, primals)), outs, pushed, above, below):
            assert_close(out, plain, 0.0, "result of jvp")
            slope = finite_difference(hi, lo, STEP)
            assert_close(filled(t), slope.astype(out.dtype), case.derivative_tolerance, "tangent")


@each(differentiable(CASES), "jvp")
def test_zero_tangents_may_be_absent(case: Case) -> None:
    fun, primals = moved(case, drawn(case))
    tangents = directions(primals, 1)
    for only in range(len(primals)):
        kept = [t if i == only else np.zeros_like(t) for i, t in enumerate(tangents)]
        _, full = jvp(fun, list(map(from_host, primals)), list(map(from_host, kept)))
        alone = lambda x, only=only: fun(*primals[:only], x, *primals[only + 1 :])
        _, sparse = jvp(alone, [from_host(primals[only])], [from_host(tangents[only])])
        for a, b in zip(sparse, full, strict=True):
            assert_close(filled(a), filled(b), case.tolerance)
