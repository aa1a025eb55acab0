"""Values of dtype float0, whose elements have no bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln.base.options.config import override
from kiln.dtypes import float0

NOTHING = np.zeros((2, 3), float0)
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "itself": (lambda x: x, (2, 3)),
    "transposed": (lambda x: x.T, (3, 2)),
    "a row": (lambda x: x[0], (3,)),
    "broadcast": (lambda x: lax.broadcast(x, (2,)), (2, 2, 3)),
    "selected": (lambda x: lax.select(True, x, x), (2, 3)),
    "carried": (lambda x: lax.fori_loop(0, 3, lambda i, c: c, x), (2, 3)),
    "stacked": (lambda x: lax.scan(lambda c, _: (c, c), x, None, length=3)[1], (3, 2, 3)),
    "chosen": (lambda x: lax.cond(x.shape[0] > 1, lambda x: x, lambda x: x, x), (2, 3)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_move_nothing(name: str) -> None:
    function, shape = FUNCTIONS[name]
    with override(engine="native"):
        found = kiln.jit(function)(NOTHING)
        again = kiln.jit(lambda x: x)(found)
    for x in (found, again):
        assert (x.shape, x.dtype, np.asarray(x).dtype) == (shape, float0, float0)


@pytest.mark.parametrize("engine", ["xla", "native"])
def test_gradients_of_integers(engine: str) -> None:
    def f(x: Any, n: Any) -> Any:
        return (x * n).sum()

    with override(engine=engine):
        g = kiln.jit(kiln.grad(f, argnums=(0, 1), allow_int=True))
        dx, dn = g(np.ones(3, np.float32), np.arange(3))
    np.testing.assert_array_equal(dx, [0, 1, 2])
    assert (dn.shape, dn.dtype) == ((3,), float0)
    # Results of one engine are operands of the others.
    for other in ("native", "xla", None):
        with override(engine=other):
            kept, moved = kiln.jit(lambda n, x: (n, x + 1))(dn, 1.0)
        assert (kept.shape, kept.dtype, float(moved)) == ((3,), float0, 2)
