"""What functions with forward rules and with pairs of rules have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.ir.rewrite import canonical


@kiln.custom_jvp
def pushed(x: Any) -> Any:
    return jnp.sin(x)


pushed.defjvp(lambda p, t: (pushed(*p), 3.0 * t[0]))


@kiln.custom_vjp
def pulled(x: Any) -> Any:
    return jnp.sin(x)


pulled.defvjp(lambda x: (pulled(x), None), lambda _, ct: (3.0 * ct,))

BOTH = pytest.mark.parametrize("fun", [pushed, pulled], ids=["jvp", "vjp"])


@BOTH
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_recorded_again_the_program_is_equal(fun: Callable[..., Any], depth: int) -> None:
    def program(x: Any) -> Any:
        mapped = fun
        for _ in range(depth):
            mapped = kiln.vmap(mapped)
        return mapped(x)

    x = np.ones((2, 3, 4), np.float32)
    first, second = (kiln.make_jaxpr(lambda x: program(x))(x) for _ in range(2))
    assert canonical(first.jaxpr) == canonical(second.jaxpr)


@BOTH
def test_mapped_functions_keep_their_rules_when_recorded(fun: Callable[..., Any]) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    mapped = kiln.jit(kiln.vmap(kiln.vmap(fun)))
    np.testing.assert_allclose(mapped(x), np.sin(x), rtol=1e-6)
    gradient = kiln.grad(lambda x: mapped(x).sum())
    np.testing.assert_array_equal(gradient(x), np.full((2, 3), 3.0))
    np.testing.assert_array_equal(kiln.vmap(gradient)(x[None]), np.full((1, 2, 3), 3.0))
