"""Derivatives along curves by `jet` are jax's."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import pytest

import kiln
from tests.differential.expressions import lines, names
from tests.differential.oracle import Case, Topic

VALUES: dict[str, str] = {
    "functions": """
        along(jnp.sin), along(jnp.cos), along(jnp.exp), along(jnp.tanh), along(jax.nn.sigmoid)
        along(lambda x: jnp.log(x + 9)), along(lambda x: x / (1 + x * x)), along(lambda x: 1 / (x + 9))
        along(lambda x: jnp.sqrt(x + 9)), along(lambda x: (x + 9) ** 1.5), along(lambda x: x ** 3)
        along(lambda x: (x + 9) ** (0.1 * x)), along(jnp.sinh), along(jnp.cosh)
        along(lambda x: jnp.log1p(x * x)), along(jnp.expm1), along(jax.scipy.special.erf), along(abs)
        along(lambda x: jnp.arctan2(x, x * x + 1)), along(jnp.floor), along(jnp.sign), along(jnp.square)
        along(lambda x: jnp.where(x > 0, x, x * x)), along(lambda x: jnp.maximum(x, x * x))
    """,
    "arrays": """
        along(jnp.sum), along(jnp.cumsum), along(lambda x: x[::-1] * x), along(lambda x: x[1] * x)
        along(lambda x: jnp.outer(x, x) @ x), along(lambda x: jnp.concatenate([x, x * x]))
        along(lambda x: x.reshape(3, 1) * x), along(lambda x: jnp.pad(x * x, 1)), along(lambda x: x[arr([2, 0])] ** 2)
        along(lambda x: jnp.max(x * x)), along(lambda x: jnp.min(x) * x), along(lambda x: jnp.stack([x, x * x]))
        along(lambda x: x.astype(complex).real * x), along(lambda x: jnp.fft.rfft(x).real * x[0])
        along(lambda x: jnp.zeros(4).at[arr([1, 1, 2])].add(x * x)), along(lambda x: lax.dynamic_slice(x, (1,), (2,)) ** 2)
        along(lambda x: jnp.convolve(x, x)), along(jax.jit(lambda x: jnp.sin(x) * x)), along(lambda x: 2.0)
        along(lambda x: {'a': x * x, 'b': [x]}), jax.jit(lambda x: along(jnp.sin, x))(f(3))
        jet.jet(lambda x, y: x * jnp.sin(y), (f(3), f(3, seed='y')), ((f(3), f(3)), (f(3, seed='2'), f(3))))
        jet.jet(jnp.sin, (0.5,), ((1.0, 0.0, 0.0),)), jet.jet2(jnp.exp, (f(3),), ((f(3), f(3)),))
        jet.jet(jnp.sin, (f(3),), ((f(3), f(3)),), factorial_scaled=False), jet.fact(4)
        jax.grad(lambda x: jet.jet(jnp.sin, (x,), ((x, 1.0),))[1][1])(0.5)
        jet.jet(lambda x, y: x * y, (1.0, 2.0), ((1.0,), (1.0, 2.0)))
        jet.jet(lambda x: x[0], ([1.0],), ((1.0,),))
        jet.jet(lambda x: x, (1.0,), (([1.0],),))
    """,
}


def _run(lib: Any, text: str) -> Any:
    is_module = isinstance(lib, ModuleType)
    name = "experimental.jet"
    jet = importlib.import_module(f"{lib.__name__}.{name}") if is_module else lib.experimental.jet
    known = names(lib)

    def along(fun: Any, x: Any = None) -> Any:
        x = known["f"](3) if x is None else x
        curve = (known["f"](3, seed="1") / 4, known["f"](3, seed="2") / 4, known["f"](3, seed="3"))
        return lib.tree_util.tree_leaves(jet.jet(fun, (x,), (curve,)))

    out = eval(text, known | {"jet": jet, "along": along})
    return lib.tree_util.tree_leaves(out)


def _cases() -> Iterable[Case]:
    for group, text in VALUES.items():
        for line in lines(text):
            yield Case(group, line, functools.partial(_run, text=line), tolerance=2e-4)


TOPIC = Topic("jet", _cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
