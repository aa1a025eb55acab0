"""Artifacts as jaxprs: which constants are inputs, and which artifacts are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export, lax
from kiln.base.options.config import override
from kiln.control.exported_call import expanded, large_constants
from kiln.core.trace import aval_of
from kiln.engines.xla.raised import large_constants as constants_of
from kiln.engines.xla.raised import raised
from kiln.export.exported import portable
from kiln.ir.jaxpr import Jaxpr, Literal
from kiln.ir.types import ShapedArray

pytest.importorskip("flatbuffers")

DRAW = np.random.RandomState(0)
W, V = (DRAW.randn(40, 40).astype(np.float32) / 6 for _ in range(2))
X = DRAW.randn(3, 40).astype(np.float32)


def network(x: Any) -> Any:
    """Read constants in the program, in a function called twice, and in loops."""
    inner = kiln.jit(lambda x: jnp.tanh(x @ W))

    def step(h: Any, _: Any) -> Any:
        return inner(h) @ V + x, h.sum()

    h, sums = lax.scan(step, inner(inner(x)), None, length=3)
    return h, sums, x + np.arange(40, dtype=np.float32)


def stored(fun: Any = network, *args: Any) -> export.Exported:
    args = args or (X,)
    blob = export.export(kiln.jit(fun))(*args).serialize(vjp_order=1)
    return export.deserialize(blob)


def literals(jaxpr: Jaxpr) -> list[int]:
    """Return the bytes of the constants in a program and those within."""
    found = []
    for eqn in jaxpr.eqns:
        found += [np.asarray(v.val).nbytes for v in eqn.invars if isinstance(v, Literal)]
        for value in eqn.params.values():
            if isinstance(value, Jaxpr):
                found += literals(value)
    return found


def test_large_constants_are_inputs_once():
    program = portable(stored())
    arrays = large_constants(program)
    assert sorted(x.shape for x in arrays) == [(40, 40), (40, 40)]
    assert large_constants(program) is arrays
    types = [aval_of(x) for x in (jnp.asarray(X), *arrays)]
    jaxpr = expanded(program, types)
    assert jaxpr.in_avals == types
    assert max(literals(jaxpr)) < 4096
    # Without them they are in the program.
    assert max(literals(expanded(program, types[:1]))) == W.nbytes


@pytest.mark.parametrize("engine", ["native", "xla", "reference"])
def test_results(engine):
    # Seconds: derivatives of loops and loops over stacks, compiled for each engine.
    loaded = stored()
    with override(engine="xla"):
        expected = network(X)
    with override(engine=engine):
        for x, y in zip(loaded.call(X), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
        (stacked, *_) = kiln.vmap(loaded.call)(np.stack([X, X]))
        np.testing.assert_allclose(stacked[1], expected[0], rtol=1e-5, atol=1e-5)
        slope = kiln.grad(lambda x: loaded.call(x)[0].sum())(jnp.asarray(X))
    with override(engine="xla"):
        wanted = kiln.grad(lambda x: network(x)[0].sum())(jnp.asarray(X))
    np.testing.assert_allclose(slope, wanted, rtol=1e-4, atol=1e-4)


def test_a_function_has_the_bits_that_it_had_before_it_was_stored():
    found, expected = stored().call(X), kiln.jit(network)(X)
    for x, y in zip(found, expected, strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def test_constants_of_programs_for_all_sizes():
    shape = export.symbolic_shape("n, 40")
    loaded = stored(network, kiln.ShapeDtypeStruct(shape, "float32"))
    assert len(large_constants(portable(loaded))) == 2
    with kiln.explain_fallbacks() as records:
        found = loaded.call(X)[0]
    assert not list(records)
    np.testing.assert_allclose(found, network(X)[0], rtol=1e-5, atol=1e-5)


def test_repeated_numbers_are_not_large():
    loaded = stored(lambda x: x + jnp.ones((50, 50)), np.float32(1))
    assert large_constants(portable(loaded)) == []


def test_equal_bits_of_other_types():
    bits = DRAW.randint(0, 99, 2000).astype(np.int32)
    floats, rows = bits.view(np.float32), bits.reshape(2, 1000)

    def fun(x: Any) -> Any:
        return x * bits, x * floats, x * rows

    loaded = stored(fun, np.int32(3))
    assert len(large_constants(portable(loaded))) == 3
    for found, expected in zip(loaded.call(np.int32(3)), fun(np.int32(3)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_damaged_artifacts_are_refused():
    with pytest.raises(ValueError, match="its StableHLO cannot be used"):
        constants_of(b"no artifact" * 500)
    aval = ShapedArray((3,), np.dtype(np.float32))
    with pytest.raises(ValueError, match="its StableHLO cannot be used"):
        raised("f", b"no artifact", [aval], [aval], None, False)


def test_artifacts_for_other_types_are_refused():
    program = portable(stored())
    aval = ShapedArray((3,), np.dtype(np.float32))
    with pytest.raises(ValueError, match=r"it takes float32\[3,40\], not float32\[3\]"):
        raised("f", program.stored, [aval], program.out_avals, None, False)
    with pytest.raises(ValueError, match="it returns"):
        raised("f", program.stored, program.in_avals, [aval], None, False)
