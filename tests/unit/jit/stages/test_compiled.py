"""Calls of programs compiled ahead of time."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln import numpy as jnp


def double(x, y):
    return {"out": lax.mul(x, 2.0)}


X = np.ones(3, np.float32)


def test_compiled_checks_its_arguments() -> None:
    compiled = kiln.jit(double).lower(X, 1.0).compile()
    np.testing.assert_array_equal(compiled(X, 1.0)["out"], [2, 2, 2])
    np.testing.assert_array_equal(compiled(X.astype(np.float64), 1.0)["out"], [2, 2, 2])
    with pytest.raises(
        TypeError, match=r"x compiled with float32\[3\] and called with float32\[4\]"
    ):
        compiled(np.ones(4, np.float32), 1.0)
    with pytest.raises(TypeError, match="pytree"):
        compiled((X, 1.0))
    with pytest.raises(TypeError, match="transform"):
        kiln.vmap(compiled, in_axes=(0, None))(np.ones((2, 3), np.float32), 1.0)


def test_formats_of_arguments_and_results() -> None:
    x, y = jnp.ones((2, 3)), jnp.ones(())
    compiled = kiln.jit(lambda x, y: (x + y, {"sum": x.sum()})).lower(x, y=y).compile()
    assert compiled.input_formats == ((x.format,), {"y": y.format})
    out, rest = compiled(x, y=y)
    assert compiled.output_formats == (out.format, {"sum": rest["sum"].format})
