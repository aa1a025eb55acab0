"""What kiln exports, loaded and called by jax in another process."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export, random
from kiln.sharding import NamedSharding, P, make_mesh

pytest.importorskip("flatbuffers")

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)

# Writes what it finds to standard output, one line for each.
IN_JAX = """
import json, sys
from pathlib import Path
import jax, jax.numpy as jnp, numpy as np
from jax import export

folder = Path(sys.argv[1])
def load(name):
    return export.deserialize(bytearray((folder / name).read_bytes()))
x = np.load(folder / "x.npy")
show = lambda value: print(json.dumps(np.asarray(value, np.float64).tolist()))

static = load("static")
assert static.platforms == ("tpu", "cpu") and static.fun_name == "network"
show(static.call({"w": x.T}, x, scale=2.0)["h"])
loss = lambda w: (static.call({"w": w}, x, scale=2.0)["h"] ** 2).sum()
show(jax.grad(loss)(x.T))
show(jax.jit(jax.grad(lambda w: (jax.grad(loss)(w) ** 2).sum()))(x.T))

sized = load("sized")
print(json.dumps([str(aval) for aval in (*sized.in_avals, *sized.out_avals)]))
show(sized.call(x, x.T @ np.ones((2, 4), np.float32))[0])
show(jax.grad(lambda x: sized.call(x, jnp.ones((3, 2)))[0].sum())(x[:1]))
try:
    sized.call(x, jnp.ones((3, 5)))
except ValueError as error:
    print(json.dumps(type(error).__name__))

keys = load("keys").call(jax.random.key(5), np.int32(3))
assert keys[0].dtype == jax.random.key(0).dtype
show(jax.random.key_data(keys[0]))
show(keys[1])

mesh = jax.make_mesh((2,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
sharded = load("sharded")
(sharding,) = sharded.in_shardings_jax(mesh)
found = sharded.call(jax.device_put(jnp.arange(4.0), sharding))
assert found.sharding.is_equivalent_to(sharding, 1), found.sharding
show(found)

for platform in ("cpu", "tpu"):
    traced = jax.jit(static.call).trace({"w": x.T}, x, scale=2.0)
    assert traced.lower(lowering_platforms=(platform,)).as_text()
"""


def network(params, x, *, scale):
    h = kiln.lax.erf(x @ params["w"]) * scale
    return {"h": h, "n": (h > 0).sum()}


def products(x, y):
    return jnp.sin(x) @ y + x.shape[0], x[1:].sum(), jnp.cumsum(x, 0)


def draw(key, n):
    return random.split(key), n * 2


def test_jax_runs_what_kiln_stores(tmp_path: Path) -> None:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("needs jax")
    params, scale = {"w": X.T}, np.float32(2)
    types = export.symbolic_args_specs((X, np.ones((3, 4), np.float32)), ("b, _", "_, 2*b"))
    sharding = NamedSharding(make_mesh((2,), ("x",)), P("x"))
    double = kiln.jit(lambda x: 2 * x, in_shardings=sharding, out_shardings=sharding)
    made = {
        "static": export.export(kiln.jit(network), platforms=("tpu", "cpu"))(
            params, X, scale=scale
        ),
        "sized": export.export(kiln.jit(products))(*types),
        "keys": export.export(kiln.jit(draw))(random.key(0), np.int32(1)),
        "sharded": export.export(double)(np.ones(4, np.float32)),
    }
    orders = {"static": 2, "sized": 1}
    for name, exported in made.items():
        (tmp_path / name).write_bytes(exported.serialize(vjp_order=orders.get(name, 0)))
    np.save(tmp_path / "x.npy", X)
    environment = {
        "JAX_PLATFORMS": "cpu",
        "JAX_THREEFRY_PARTITIONABLE": "0",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    found = subprocess.run(
        [sys.executable, "-c", IN_JAX, str(tmp_path)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout.splitlines()

    def loss(w):
        return (network({"w": w}, X, scale=scale)["h"] ** 2).sum()

    split, _ = draw(random.key(5), 3)
    expected = [
        network(params, X, scale=scale)["h"],
        kiln.grad(loss)(X.T),
        kiln.grad(lambda w: (kiln.grad(loss)(w) ** 2).sum())(X.T),
        ["float32[b,3]", "float32[3,2*b]", "float32[b,2*b]", "float32[]", "float32[b,3]"],
        products(X, X.T @ np.ones((2, 4), np.float32))[0],
        kiln.grad(lambda x: products(x, jnp.ones((3, 2)))[0].sum())(X[:1]),
        "ValueError",
        random.key_data(split),
        6,
        [0, 2, 4, 6],
    ]
    for line, value in zip(found, expected, strict=True):
        if "float32" in line or "Error" in line:
            assert json.loads(line) == value
        else:
            np.testing.assert_allclose(json.loads(line), value, rtol=1e-4, atol=1e-5)
