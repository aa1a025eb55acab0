"""`infer` says what the meaning gives, for numbers and for a named dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.sizes.size import symbol
from kiln.ir.sizes.values import substitute
from kiln.ir.types import ShapedArray
from tests.cases.case import Case
from tests.cases.collection import CASES, applied, drawn, each


def staged(case: Case, types: list[ShapedArray]) -> Jaxpr:
    return stage_pure(lambda *xs: applied(case, xs), types)


@each(CASES, "infer")
def test_infer_is_what_the_meaning_gives(case: Case) -> None:
    operands = drawn(case)
    jaxpr = staged(case, [aval_of(x) for x in operands])
    assert case.primitive in [eqn.primitive for eqn in jaxpr.eqns]
    env: dict[Any, Any] = dict(zip(jaxpr.invars, operands, strict=True))
    with np.errstate(all="ignore"):
        for eqn in jaxpr.eqns:
            args = [np.asarray(v.val, v.aval.dtype) if v.is_literal else env[v] for v in eqn.invars]
            result = eqn.primitive.numpy(*args, **eqn.params)
            results = result if eqn.primitive.multiple else [result]
            for var, value in zip(eqn.outvars, results, strict=True):
                value = env[var] = np.asarray(value)
                expected = var.aval.physical()
                assert (value.shape, value.dtype) == (expected.shape, expected.dtype), eqn.primitive


def with_names(case: Case) -> tuple[list[ShapedArray], int]:
    """Return the types of the operands with the named axes called n, and the value of n."""
    assert not isinstance(case.named, str)
    types = [aval_of(x) for x in drawn(case)]
    shapes = [list(t.shape) for t in types]
    sizes = {shapes[i][axis] for i, axis in case.named}
    assert len(sizes) == 1, f"axes of sizes {sizes} cannot all be n"
    for i, axis in case.named:
        shapes[i][axis] = symbol("n")
    return [t.with_(shape=s) for t, s in zip(types, shapes, strict=True)], sizes.pop()


NAMED = [case for case in CASES if case.named and not isinstance(case.named, str)]


@each(NAMED, "named")
def test_infer_with_a_named_dimension(case: Case) -> None:
    types, n = with_names(case)
    symbolic = staged(case, types).out_avals
    concrete = staged(case, [aval_of(x) for x in drawn(case)]).out_avals
    for a, b in zip(symbolic, concrete, strict=True):
        assert tuple(substitute(d, {"n": n}) for d in a.shape) == b.shape
        assert (a.dtype, a.weak_type) == (b.dtype, b.weak_type)
