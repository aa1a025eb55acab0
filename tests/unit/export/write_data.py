"""Write `data/`: programs that jax exports, for tests without jax. Run it with jax installed:

`python -m tests.unit.export.write_data`
"""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np

DATA = Path(__file__).parent / "data"


def write() -> None:
    """Ask jax for each program, and store it."""
    jax, export = importlib.import_module("jax"), importlib.import_module("jax.export")
    jnp = jax.numpy

    def network(params, x, *, scale):
        h = jax.scipy.special.erf(x @ params["w"]) * scale
        return {"h": h, "n": (h > 0).sum()}

    params, x = {"w": np.ones((3, 2), np.float32)}, np.ones((4, 3), np.float32)
    static = export.export(jax.jit(network), platforms=("tpu", "cpu"))(params, x, scale=2.0)
    types = export.symbolic_args_specs((x, np.ones((3, 6), np.float32)), ("b, _", "_, 2*b"))
    sized = export.export(jax.jit(lambda x, y: (jnp.sin(x) @ y + x.shape[0], x.mean(0))))(*types)
    pair = np.ones(6, np.float32), np.ones(2, np.float32)
    rows = export.export(jax.jit(lambda x, y: x[: x.shape[0] // y.shape[0]] * (x.size % y.size)))
    drawn = export.export(jax.jit(lambda key: (jax.random.bits(key), jax.random.split(key))))
    devices = jax.sharding.AbstractMesh((2,), ("x",))
    spec = jax.sharding.NamedSharding(devices, jax.sharding.PartitionSpec("x"))
    sharded = export.export(jax.jit(lambda x: 2 * x, in_shardings=spec, out_shardings=spec))
    for name, exported, order in (
        ("static", static, 2),
        ("sized", sized, 1),
        ("quotients", rows(*export.symbolic_args_specs(pair, ("n", "b"))), 0),
        ("keys", drawn(jax.random.key(0)), 0),
        ("sharded", sharded(np.ones(4, np.float32)), 0),
        ("cuda", export.export(jax.jit(jnp.sin), platforms=("cuda",))(x), 0),
    ):
        (DATA / f"{name}.bin").write_bytes(bytes(exported.serialize(vjp_order=order)))


if __name__ == "__main__":
    write()
