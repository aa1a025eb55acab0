"""Which results differ from member to member."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.control.varying import varying_outputs
from kiln.core.staging import stage_region
from kiln.core.trace import aval_of, axis_bound

V = np.ones(4, np.float32)


def test_programs() -> None:
    cases = [
        (lambda w, v: w + 1, set()),
        (lambda w, v: w + v, {"x"}),
        (lambda w, v: lax.psum(w + v, "x"), set()),
        (lambda w, v: lax.pmax(v, "x") * lax.axis_index("y"), {"y"}),
        (lambda w, v: lax.all_gather(v, "x"), {"x"}),
        (lambda w, v: lax.ppermute(w, "y", [(0, 1)]), {"y"}),
        (lambda w, v: kiln.jit(lambda u: lax.psum(u, "x"))(v) + w, set()),
        (lambda w, v: lax.scan(lambda c, _: (c + lax.pmean(v, "x"), c), w, None, 2)[0], set()),
        (lambda w, v: lax.scan(lambda c, _: (c * 2, v), w, None, 2)[0], set()),
        (lambda w, v: lax.scan(lambda c, _: (c * 2, v), w, None, 2)[1], {"x"}),
        (lambda w, v: lax.scan(lambda c, u: (c + u, c), w, v[:, None], None)[0], {"x"}),
        (lambda w, v: lax.fori_loop(0, 3, lambda i, c: (c[1], v), (w, w))[0], {"x"}),
        (lambda w, v: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, w), set()),
        (lambda w, v: lax.while_loop(lambda c: (c + v).sum() < 9, lambda c: c + 1, w), {"x"}),
        (lambda w, v: lax.cond(v.sum() > 0, lambda: w, lambda: w * 2), {"x"}),
        (lambda w, v: lax.cond(w.sum() > 0, lambda: w, lambda: w * 2), set()),
        (lambda w, v: kiln.checkpoint(lambda u: lax.psum(u * w, "x"))(v), set()),
        (lambda w, v: kiln.grad(lambda u: jnp.sum(u * w))(w), set()),
    ]
    for i, (f, want) in enumerate(cases):
        with axis_bound("x", 4), axis_bound("y", 2):
            jaxpr, consts = stage_region(lambda w, v, f=f: [f(w, v)], [aval_of(V), aval_of(V)])
        inputs = [*[frozenset()] * len(consts), frozenset(), frozenset("x")]
        assert varying_outputs(jaxpr, inputs) == [frozenset(want)], i


def test_constants_vary_nowhere() -> None:
    jaxpr, _ = stage_region(lambda v: [1.0, v], [aval_of(V)])
    assert varying_outputs(jaxpr, [frozenset("x")]) == [frozenset(), frozenset("x")]
    with pytest.raises(ValueError, match="zip"):
        varying_outputs(jaxpr, [])
