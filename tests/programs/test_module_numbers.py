"""Functions of many numbers in WebAssembly modules, beside libraries for x86-64-v2.

The bits are the same, except where the runtime computes in libc's functions or in numbers of more
than 64 bits: large angles, special functions and tables of transforms of float64.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export
from kiln.base.options.config import override
from kiln.scipy import special
from tests.programs.c_driver import COMPILER, Call, have_same_bits, run_calls
from tests.programs.node_driver import needs_node, run_in_node

pytestmark = [needs_node, pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")]

SAME: dict[str, Callable[[Any], Any]] = {
    "elementary": lambda x: [f(x) for f in (jnp.exp, jnp.log, jnp.tanh)],
    "inverse": lambda x: [f(x) for f in (jnp.arcsin, jnp.arctan, jnp.arccosh, jnp.log1p, jnp.cbrt)],
    "rounded": lambda x: [f(x) for f in (jnp.round, jnp.floor, jnp.ceil, jnp.trunc, jnp.sign)],
    "two": lambda x: [f(x, x[::-1]) for f in (jnp.maximum, jnp.arctan2, jnp.remainder, jnp.hypot)],
    "powers": lambda x: jnp.power(abs(x), x[::-1]),
    "converted": lambda x: [
        x.astype(kind)
        for kind in ("int8", "uint8", "int32", "uint32", "int64", "bfloat16", "float16")
    ],
    "narrow": lambda x: [jnp.exp(x.astype("float16")), jnp.tanh(x.astype("bfloat16"))],
    "complex": lambda x: [
        f(x + 1j * x[::-1].clip(-300, 300)) for f in (jnp.exp, jnp.sqrt, jnp.log, jnp.tanh)
    ],
    "reduced": lambda x: [f(x) for f in (jnp.sum, jnp.var, jnp.cumsum, jnp.sort, jnp.argsort)],
    "errors": lambda x: [special.erf(x), special.erfc(x), special.erfinv(x)],
}
CLOSE: dict[str, Callable[[Any], Any]] = {
    "angles": lambda x: [jnp.sin(x), jnp.cos(x), jnp.tan(x)],
    "gamma": lambda x: [special.gammaln(x), special.digamma(x), special.polygamma(2, abs(x) + 1)],
    "transform": lambda x: jnp.fft.fft(jnp.sin(jnp.arange(997.0, dtype=x.dtype))),
}
"""In float64; in float32 their bits are the same too."""


def numbers(kind: str) -> np.ndarray:
    """Return numbers of all magnitudes, and those that are not finite."""
    draw = np.random.RandomState(0)
    far = np.exp(draw.uniform(-80, 80, 500)) * draw.choice([-1, 1], 500)
    rare = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 1e-310]
    with np.errstate(under="ignore"):
        return np.concatenate([draw.randn(700), 30 * draw.randn(700), far, rare]).astype(kind)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_functions(kind: str, tmp_path: Path) -> None:
    x, pairs = numbers(kind), []
    with override(enable_x64=True):
        for name, function in {**SAME, **CLOSE}.items():
            module, library = [
                export.library(
                    kiln.jit(function), x, name=name, path=tmp_path / f"{name}_{target}",
                    target=target, shared=False,
                )
                for target in ("wasm32", "x86-64-v2")
            ]  # fmt: skip
            paths = Path(module.path), Path(library.path)
            pairs.append([Call(path, name, {}, [x]) for path in paths])
        of_modules = run_in_node([module for module, _ in pairs], tmp_path)
        of_libraries = run_calls([library for _, library in pairs], tmp_path)
    for (call, _), found, expected in zip(pairs, of_modules, of_libraries, strict=True):
        for i, (y, z) in enumerate(zip(found, expected, strict=True)):
            if call.symbol in CLOSE and kind == "float64":
                np.testing.assert_allclose(y, z, 1e-14, 1e-12, err_msg=call.symbol)
            else:
                assert have_same_bits(y, z), (call.symbol, i)
