"""Section 13: waiting, moving, errors of callbacks, indices out of bounds."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from tests.contract.marks import contract


@contract("13.1")
def test_waiting_for_arrays() -> None:
    x = kiln.jit(jnp.sin)(np.ones(3))
    assert x.block_until_ready() is x
    assert x.is_ready()
    tree = {"a": x, "b": [1, "text", None]}
    out = kiln.block_until_ready(tree)
    assert out["a"] is x
    assert out["b"] == [1, "text", None]


@contract("13.1")
def test_moving_arrays() -> None:
    x = kiln.jit(jnp.sin)(np.ones(3))
    x.copy_to_host_async()
    host = kiln.device_get({"a": x, "b": 2})
    assert type(host["a"]) is np.ndarray
    assert host["b"] == 2
    np.testing.assert_array_equal(host["a"], x)
    placed = kiln.device_put({"a": np.arange(3), "b": 1.0})
    assert all(isinstance(leaf, kiln.Array) for leaf in kiln.tree.leaves(placed))
    assert kiln.device_put(x, kiln.devices()[0]).tolist() == x.tolist()


@contract("13.1")
def test_live_arrays() -> None:
    x = kiln.jit(lambda x: x * 2)(np.ones(12345, np.float32))
    assert any(y is x for y in kiln.live_arrays())
    del x
    assert all(y.shape != (12345,) for y in kiln.live_arrays())


@contract("13.2")
def test_results_are_deterministic() -> None:
    x = np.linspace(0, 1, 1000, dtype=np.float32)

    def f(x):
        return jnp.sum(jnp.sin(x) * jnp.exp(x)), jnp.cumsum(x)

    first = kiln.jit(f)(x)
    for _ in range(3):
        again = kiln.jit(f)(x)
        kiln.clear_caches()
        for a, b in zip(first, again, strict=True):
            np.testing.assert_array_equal(a, b)


@contract("13.3")
def test_errors_of_callbacks_keep_their_text() -> None:
    def fails(x):
        raise ValueError("the original text")

    for program in (
        lambda x: kiln.pure_callback(fails, kiln.ShapeDtypeStruct((), "float32"), x),
        lambda x: (kiln.debug.callback(fails, x), x)[1],
    ):
        with pytest.raises(Exception, match="the original text"):
            kiln.block_until_ready(kiln.jit(program)(1.0))
            kiln.effects_barrier()


@contract("13.4")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_indices_out_of_bounds(engine, compiled) -> None:
    run = kiln.jit if compiled else lambda fun: fun
    x = jnp.arange(4.0)
    assert run(lambda x, i: x[i])(x, 7) == 3
    assert run(lambda x, i: x[i])(x, -9) == 0
    assert run(lambda x, i: x[i])(x, np.array([1, 99])).tolist() == [1, 3]
    for update in (
        lambda x, i: x.at[i].set(9.0),
        lambda x, i: x.at[i].add(9.0),
        lambda x, i: x.at[i].multiply(9.0),
        lambda x, i: x.at[i].max(9.0),
    ):
        assert run(update)(x, np.array([7, -9])).tolist() == [0, 1, 2, 3]
    clipped = run(lambda x, i: x.at[i].get(mode="clip"))(x, np.array([-9, 1, 7]))
    assert clipped.tolist() == [0, 1, 3]
    filled = run(lambda x, i: x.at[i].get(mode="fill", fill_value=-1.0))(x, np.array([1, 7]))
    assert filled.tolist() == [1, -1]
    assert np.isnan(run(lambda x, i: x.at[i].get(mode="fill"))(x, np.array([7]))[0])
