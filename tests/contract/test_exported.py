"""Functions that travel: as StableHLO, and as machine code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export
from kiln.base.options.config import override
from kiln.experimental.serialize_executable import deserialize_and_load, serialize
from kiln.sharding import NamedSharding, P, make_mesh
from tests.contract.marks import contract
from tests.unit.export.write_data import DATA

pytest.importorskip("flatbuffers")

PARAMS = {"w": np.float32([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])}
X = np.float32([[1, 0, -1], [2, 1, 0]])


def network(params: Any, x: Any, *, scale: Any = 1.0) -> Any:
    h = jnp.tanh(x @ params["w"]) * scale
    return {"h": h, "positive": (h > 0).sum()}


def again(exported: export.Exported, vjp_order: int = 0) -> export.Exported:
    return export.deserialize(exported.serialize(vjp_order=vjp_order))


@contract("19.1")
def test_a_loaded_function_gives_the_same_numbers() -> None:
    loaded = again(export.export(kiln.jit(network))(PARAMS, X, scale=np.float32(2)))
    found, expected = loaded.call(PARAMS, X, scale=np.float32(2)), network(PARAMS, X, scale=2.0)
    np.testing.assert_allclose(found["h"], expected["h"], rtol=1e-6)
    assert int(found["positive"]) == int(expected["positive"])


@contract("19.1")
def test_arguments_that_do_not_fit_are_named() -> None:
    loaded = again(export.export(kiln.jit(network))(PARAMS, X))
    with pytest.raises(ValueError, match=r"args\[0\]\['w'\].shape\[1\]: it is 3 and should be"):
        loaded.call({"w": np.ones((3, 3), np.float32)}, X)
    for args in ((PARAMS,), ([PARAMS["w"]], X)):
        with pytest.raises(ValueError, match="same pytree structure"):
            loaded.call(*args)
    with pytest.raises(NotImplementedError, match="Python functions, which"):
        export.export(kiln.jit(lambda x: kiln.debug.print("{}", x)))(X)


@contract("19.2")
def test_a_function_that_jax_exported() -> None:
    loaded = export.deserialize((DATA / "sized.bin").read_bytes())
    y = np.ones((3, 4), np.float32)
    np.testing.assert_allclose(loaded.call(X, y)[0], np.sin(X) @ y + 2, rtol=1e-6)


@contract("19.3")
def test_derivatives_and_maps() -> None:
    loaded = again(export.export(kiln.jit(network))(PARAMS, X), vjp_order=1)

    def loss(run: Any, params: Any) -> Any:
        return (run(params, X)["h"] ** 2).sum()

    found, expected = (
        kiln.jit(kiln.grad(lambda p, run=run: loss(run, p)))(PARAMS)["w"]
        for run in (loaded.call, network)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    stack = np.stack([X, 2 * X])
    found, expected = (
        kiln.vmap(run, (None, 0))(PARAMS, stack)["h"] for run in (loaded.call, network)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    with pytest.raises(ValueError, match="No VJP is available"):
        kiln.grad(lambda p: loss(again(loaded).call, p))(PARAMS)


@contract("19.4")
def test_one_program_for_all_sizes() -> None:
    types = export.symbolic_args_specs((PARAMS, X), ({"w": "d, _"}, "2*b, d"))
    loaded = again(export.export(kiln.jit(network))(*types))
    for rows in (2, 6):
        x = np.ones((rows, 3), np.float32)
        np.testing.assert_allclose(loaded.call(PARAMS, x)["h"], network(PARAMS, x)["h"], rtol=1e-6)
    with pytest.raises(ValueError, match="'b' has no solution"):
        loaded.call(PARAMS, X[:1])


@contract("19.5")
def test_platforms() -> None:
    both = again(export.export(kiln.jit(network), platforms=("tpu", "cpu"))(PARAMS, X))
    np.testing.assert_allclose(both.call(PARAMS, X)["h"], network(PARAMS, X)["h"], rtol=1e-6)
    other = again(export.export(kiln.jit(network), platforms=("tpu",))(PARAMS, X))
    with pytest.raises(ValueError, match="used on 'cpu'"):
        other.call(PARAMS, X)


@contract("19.5")
def test_devices() -> None:
    sharding = NamedSharding(make_mesh((2,), ("x",)), P("x"))
    x = kiln.device_put(X, sharding)
    loaded = again(export.export(kiln.jit(lambda x: 2 * x))(x))
    assert loaded.nr_devices == 2 and loaded.in_shardings_jax(sharding.mesh) == (sharding,)
    assert loaded.call(x).sharding.is_equivalent_to(sharding, 2)
    with pytest.raises(ValueError, match="exported for 2 devices"):
        loaded.call(X)


@contract("19.6")
@pytest.mark.parametrize("engine", ["native", "xla"])
def test_machine_code(engine: str) -> None:
    with override(engine=engine):
        made = kiln.jit(network).lower(PARAMS, X).compile()
    loaded = deserialize_and_load(*serialize(made))
    # XLA may choose other instructions when it loads.
    np.testing.assert_allclose(loaded(PARAMS, X)["h"], made(PARAMS, X)["h"], rtol=1e-6)
