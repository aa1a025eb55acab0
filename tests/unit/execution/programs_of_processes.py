"""Programs that several processes compile and run."""

from __future__ import annotations

from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from benchmarks.programs import PROGRAMS
from kiln import lax

X = np.linspace(-1.0, 1.0, 64 * 64, dtype=np.float32).reshape(64, 64)


def layers(x: Any) -> Any:
    for _ in range(4):
        x = kiln.nn.relu(x @ x.T + 0.5)
        x = x / jnp.max(x)
    return x


def loops(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        carry = jnp.tanh(carry + row)
        return carry, lax.cond(carry[0] > 0, jnp.sin, jnp.cos, row)

    carry, rows = lax.scan(step, x[0], x)
    count = lax.while_loop(lambda n: jnp.sum(n) < 100.0, lambda n: n * 1.5 + 1.0, jnp.abs(carry))
    return carry, rows, count


def draws(x: Any) -> Any:
    keys = kiln.random.split(kiln.random.key(7), 3)
    return [kiln.random.normal(k, x.shape) + kiln.random.uniform(k, x.shape) * x for k in keys]


def factors(x: Any) -> Any:
    q, r = jnp.linalg.qr(x[:8, :8] + jnp.eye(8) * 3)
    return q, r, jnp.linalg.solve(r, q[:, 0]), jnp.sort(x.ravel())[:9], jnp.cumsum(x, axis=1)


FUNCTIONS = {
    **{name: make(jnp, 100, 0.5) for name, make in PROGRAMS.items()},
    "layers": layers,
    "gradient of layers": kiln.grad(lambda x: jnp.sum(layers(x))),
    "loops": loops,
    "draws": draws,
    "factors": factors,
}
