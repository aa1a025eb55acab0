"""Programs that jax exported, loaded and called."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export, random
from kiln.ir.sizes.size import symbol
from kiln.sharding import NamedSharding, P, make_mesh
from tests.unit.export.write_data import DATA

pytest.importorskip("flatbuffers")

PARAMS, X = {"w": np.ones((3, 2), np.float32)}, np.full((4, 3), 0.25, np.float32)


def load(name: str) -> export.Exported:
    """Return one of the stored programs."""
    return export.deserialize((DATA / f"{name}.bin").read_bytes())


def network(params, x, scale=1.0):
    h = kiln.lax.erf(x @ params["w"]) * scale
    return {"h": h, "n": (h > 0).sum()}


def test_attributes():
    loaded = load("static")
    assert loaded.fun_name == "network" and loaded.platforms == ("tpu", "cpu")
    assert [str(a) for a in loaded.in_avals] == ["float32[3,2]", "float32[4,3]", "float32[]"]
    assert kiln.tree.unflatten(loaded.out_tree, [1, 2]) == {"h": 1, "n": 2}
    assert loaded.calling_convention_version == 10 and loaded.nr_devices == 1
    assert loaded.module_kept_var_idx == (0, 1, 2) and loaded.uses_global_constants
    assert loaded.has_vjp() and loaded.vjp().has_vjp() and not loaded.vjp().vjp().has_vjp()
    assert "stablehlo.dot_general" in loaded.mlir_module()
    assert loaded.in_shardings_jax(make_mesh((1,), ("x",))) == (None, None, None)


def test_results():
    found = load("static").call(PARAMS, X, scale=2.0)
    expected = network(PARAMS, X, 2.0)
    np.testing.assert_allclose(found["h"], expected["h"], rtol=1e-6)
    assert int(found["n"]) == int(expected["n"]) and found["n"].dtype == np.int32


def test_derivatives():
    loaded = load("static")

    def loss(run):
        return lambda p: (run(p, X)["h"] ** 2).sum()

    def stored(params, x):
        return loaded.call(params, x, scale=1.0)

    found, expected = (kiln.grad(loss(run))(PARAMS)["w"] for run in (stored, network))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    found, expected = (
        kiln.jit(kiln.grad(lambda p, run=run: (kiln.grad(loss(run))(p)["w"] ** 2).sum()))(PARAMS)
        for run in (stored, network)
    )
    np.testing.assert_allclose(found["w"], expected["w"], rtol=1e-4)


def test_sizes():
    loaded = load("sized")
    b = symbol("b")
    assert [aval.shape for aval in loaded.in_avals] == [(b, 3), (3, 2 * b)]
    for size in (1, 4):
        x, y = np.full((size, 3), 0.5, np.float32), np.ones((3, 2 * size), np.float32)
        product, mean = loaded.call(x, y)
        np.testing.assert_allclose(product, np.sin(x) @ y + size, rtol=1e-6)
        np.testing.assert_allclose(mean, x.mean(0), rtol=1e-6)
        pulled = kiln.grad(lambda x, y=y: loaded.call(x, y)[0].sum())(x)
        np.testing.assert_allclose(pulled, np.cos(x) * 2 * size, rtol=1e-5)


def test_quotients_of_sizes():
    loaded = load("quotients")
    assert loaded.out_avals[0].shape == (symbol("n") // symbol("b"),)
    for n, b in ((7, 3), (6, 3), (2, 5)):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(loaded.call(x, np.ones(b, np.float32)), x[: n // b] * (n % b))


def test_sizes_within_sizes():
    loaded = load("sized")
    types = export.symbolic_args_specs((jnp.ones((4, 3)),), "n, _")

    def outer(x):
        return loaded.call(x + 1, jnp.ones((3, 2 * x.shape[0])))[0]

    exported = export.export(kiln.jit(outer))(*types)
    assert exported.out_avals[0].shape == (symbol("n"), 2 * symbol("n"))
    again = export.deserialize(exported.serialize())
    x = np.zeros((2, 3), np.float32)
    np.testing.assert_allclose(again.call(x), np.full((2, 4), 3 * np.sin(1) + 2), rtol=1e-6)


def test_keys():
    loaded = load("keys")
    key = random.key(7)
    bits, keys = loaded.call(key)
    assert loaded.in_avals == (key.aval,)
    assert bits == random.bits(key)
    assert (random.key_data(keys) == random.key_data(random.split(key))).all()


def test_shardings():
    loaded = load("sharded")
    mesh = make_mesh((2,), ("x",))
    (sharding,) = loaded.in_shardings_jax(mesh)
    assert sharding == NamedSharding(mesh, P("x")) and loaded.nr_devices == 2
    found = loaded.call(kiln.device_put(jnp.arange(4.0), sharding))
    assert found.sharding == sharding
    np.testing.assert_array_equal(found, [0, 2, 4, 6])
    with pytest.raises(
        ValueError, match="exported for 2 devices and is called in a context with 1"
    ):
        loaded.call(jnp.arange(4.0))
    with pytest.raises(ValueError, match="does not match the mesh used for export"):
        loaded.in_shardings_jax(make_mesh((2,), ("y",)))


def test_other_platforms_are_refused():
    loaded = load("cuda")
    with pytest.raises(ValueError, match="was exported for platforms"):
        loaded.call(X)


def test_loaded_programs_pickle():
    again = pickle.loads(pickle.dumps(load("sized")))
    assert again.in_avals == load("sized").in_avals
    assert again.call(X[:1], np.ones((3, 2), np.float32))[0].shape == (1, 2)
