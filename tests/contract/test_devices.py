"""Section 5.3: devices and backends."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.sharding import Mesh, NamedSharding, P, SingleDeviceSharding
from tests.contract.marks import contract

DEVICES = kiln.devices()


def doubled(x):
    return x * 2


@contract("5.3")
def test_there_are_virtual_devices() -> None:
    assert kiln.device_count() == kiln.local_device_count() == len(DEVICES) == 8
    assert [d.id for d in kiln.local_devices()] == list(range(8))
    assert {d.platform for d in DEVICES} == {"cpu"} and kiln.default_backend() == "cpu"
    assert kiln.devices("cpu") == DEVICES


@contract("5.3")
def test_the_number_of_devices_is_an_option() -> None:
    code = (
        "import kiln\n"
        "kiln.config.update('jax_num_cpu_devices', 3)\n"
        "assert kiln.device_count() == 3\n"
        "try: kiln.config.update('num_cpu_devices', 5)\n"
        "except RuntimeError as e: assert 'created already' in str(e), e\n"
        "else: raise SystemExit('no error')\n"
    )
    environment = {**os.environ, "KILN_NUM_CPU_DEVICES": "2"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    code = "import kiln; assert kiln.device_count() == 2"
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@contract("5.3")
def test_where_arrays_are_by_default() -> None:
    x = jnp.ones(3)
    for y in (x, x + 1, kiln.jit(doubled)(x), kiln.device_put(np.ones(3))):
        assert y.devices() == {DEVICES[0]} and y.device == DEVICES[0] and not y.committed
        assert y.sharding == SingleDeviceSharding(DEVICES[0])


@contract("5.3")
def test_device_put_commits() -> None:
    x = kiln.device_put({"a": jnp.ones(3), "b": [2.0]}, DEVICES[3])
    for leaf in kiln.tree.leaves(x):
        assert leaf.committed and leaf.devices() == {DEVICES[3]}
    assert kiln.device_put(jnp.ones(3), DEVICES[0]).committed
    assert not kiln.device_put(jnp.ones(3)).committed
    moved = kiln.device_put(x["a"], DEVICES[5])
    assert moved.devices() == {DEVICES[5]}
    np.testing.assert_array_equal(moved, np.ones(3))
    assert isinstance(kiln.device_get(x)["b"][0], np.ndarray)


@contract("5.3")
def test_device_put_refuses_what_is_no_place() -> None:
    with pytest.raises(TypeError, match="is not a device of this process"):
        kiln.device_put(jnp.ones(3), "cpu0")


@contract("5.3")
@pytest.mark.parametrize("device", [DEVICES[0], DEVICES[2]])
def test_committed_inputs_decide(device) -> None:
    x = kiln.device_put(jnp.arange(3.0), device)
    for y in (
        kiln.jit(doubled)(x),
        doubled(x),
        x[1:],
        jnp.sin(x),
        x.sum(),
        x @ x,
        kiln.jit(lambda x, y: x + y)(x, jnp.ones(3)),
        kiln.grad(lambda x: (x**2).sum())(x),
        kiln.vmap(doubled)(x),
    ):
        assert y.devices() == {device}
        assert y.committed
    np.testing.assert_array_equal(kiln.jit(doubled)(x), 2 * np.arange(3.0))


@contract("5.3")
def test_different_devices_are_refused_by_name() -> None:
    x, y = kiln.device_put(jnp.ones(4), DEVICES[1]), kiln.device_put(jnp.ones(4), DEVICES[2])
    with pytest.raises(ValueError, match="incompatible devices") as caught:
        kiln.jit(lambda left, right: left + right)(x, y)
    text = str(caught.value)
    assert "argument left of <lambda> with shape float32[4] and device ids [1]" in text
    assert "argument right of <lambda> with shape float32[4] and device ids [2]" in text
    assert "test_devices.py" in text
    with pytest.raises(ValueError, match="incompatible devices"):
        x + y
    kiln.jit(lambda left, right: left)(x, y)


@contract("5.3")
def test_uncommitted_arrays_move_freely() -> None:
    x = kiln.device_put(jnp.ones(4), DEVICES[1])
    free = jnp.arange(4.0)
    for y in (x + free, free + x, kiln.jit(lambda a, b: a * b)(free, x), x + np.ones(4), x + 1):
        assert y.devices() == {DEVICES[1]}
    with kiln.default_device(DEVICES[4]):
        elsewhere = jnp.arange(4.0)
    assert elsewhere.devices() == {DEVICES[4]}
    assert (x + elsewhere).devices() == {DEVICES[1]}
    assert (elsewhere + free).devices() == {DEVICES[0]}
    assert kiln.jit(doubled)(elsewhere).devices() == {DEVICES[0]}


@contract("5.3")
def test_default_device() -> None:
    f = kiln.jit(doubled)
    f(jnp.ones(3))
    with kiln.default_device(DEVICES[6]):
        for y in (
            jnp.ones(3),
            jnp.zeros((2, 2)),
            jnp.array([1, 2]),
            jnp.arange(3.0) + 1,
            f(jnp.ones(3)),
            f(np.ones(3, np.float32)),
            kiln.random.normal(kiln.random.key(0), (3,)),
        ):
            assert y.devices() == {DEVICES[6]} and not y.committed
        committed = kiln.device_put(jnp.ones(3), DEVICES[1])
        assert f(committed).devices() == {DEVICES[1]}
    assert f(jnp.ones(3)).devices() == {DEVICES[0]}
    with kiln.default_device("cpu"):
        assert jnp.ones(3).devices() == {DEVICES[0]}


@contract("5.3")
def test_the_option_device() -> None:
    f = kiln.jit(doubled, device=DEVICES[3])
    other = kiln.device_put(jnp.ones(3), DEVICES[1])
    for x in (jnp.ones(3), np.ones(3), other):
        y = f(x)
        assert y.devices() == {DEVICES[3]} and y.committed
        np.testing.assert_array_equal(y, 2 * np.ones(3))
    with pytest.raises(TypeError, match="device"):
        kiln.jit(doubled, device="cpu:3")


@contract("5.3")
def test_the_option_backend() -> None:
    assert kiln.jit(doubled, backend="cpu")(jnp.ones(3)).devices() == {DEVICES[0]}
    with pytest.raises(RuntimeError, match="Unknown backend toaster"):
        kiln.jit(doubled, backend="toaster")(1.0)


@contract("5.3")
@pytest.mark.parametrize(("platform", "package"), [("gpu", "jax-cuda13-pjrt"), ("tpu", "libtpu")])
def test_absent_hardware_says_what_to_install(platform, package) -> None:
    for ask in (lambda: kiln.devices(platform), lambda: kiln.jit(doubled, backend=platform)(1.0)):
        with pytest.raises(RuntimeError, match=f"pip install {package}") as caught:
            ask()
        assert platform in str(caught.value)


@contract("5.3")
def test_device_and_backend_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="both a device and a backend"):
        kiln.jit(doubled, device=DEVICES[0], backend="cpu")


@contract("5.3", "10.1")
def test_one_trace_serves_all_devices() -> None:
    traced = []

    def f(x):
        traced.append(1)
        return x + 1

    g = kiln.jit(f)
    for x in (jnp.ones(3), *[kiln.device_put(jnp.ones(3), d) for d in DEVICES[:3]]):
        np.testing.assert_array_equal(g(x), 2 * np.ones(3))
    with kiln.default_device(DEVICES[5]):
        g(jnp.ones(3))
    kiln.jit(f, device=DEVICES[2])(jnp.ones(3))
    assert len(traced) == 1


@contract("5.3")
@pytest.mark.parametrize(
    "make",
    [
        lambda **on: jnp.zeros(8, **on),
        lambda **on: jnp.full((8,), 2.0, **on),
        lambda **on: jnp.array([1.0] * 8, **on),
        lambda **on: jnp.asarray(np.ones(8), **on),
        lambda **on: jnp.arange(8.0, **on),
        lambda **on: jnp.linspace(0, 1, 8, **on),
        lambda **on: jnp.eye(8, **on),
        lambda **on: jnp.ones_like(np.ones(8), **on),
        lambda **on: jnp.ones(8).astype(jnp.int32, **on),
    ],
)
def test_arrays_can_be_made_on_a_device(make) -> None:
    x = make(device=DEVICES[3])
    assert x.committed and x.devices() == {DEVICES[3]}
    np.testing.assert_array_equal(x, make())
    rows = NamedSharding(Mesh(DEVICES, "x"), P("x"))
    assert make(device=rows).sharding == rows
    y = kiln.jit(lambda: make(device=rows) + 0)()
    assert y.sharding.is_equivalent_to(rows, y.ndim)


@contract("5.3")
def test_copies_stay_where_they_are() -> None:
    x = kiln.device_put(jnp.arange(4.0), DEVICES[3])
    for y in (x.copy(), jnp.array(x), jnp.array([x, x])):
        assert y.devices() == {DEVICES[3]}
    y = x.copy()
    kiln.jit(lambda x: x + 1, donate_argnums=0)(x)
    np.testing.assert_array_equal(y, np.arange(4.0))


@contract("5.3")
def test_placed_numbers_and_indices() -> None:
    i = kiln.device_put(jnp.array(2), DEVICES[3])
    assert jnp.arange(5)[i] == 2 and [10, 11, 12][i] == 12 and float(i) == 2.0
    mask = kiln.device_put(jnp.array([True, False, True]), DEVICES[3])
    np.testing.assert_array_equal(jnp.arange(3)[mask], [0, 2])
    np.testing.assert_array_equal(jnp.full((2,), i), [2, 2])
    np.testing.assert_array_equal(jnp.arange(i), [0, 1])


@contract("5.3")
def test_closed_over_arrays_decide_too() -> None:
    w = kiln.device_put(jnp.ones(3), DEVICES[2])
    assert kiln.jit(lambda x: x + w)(jnp.ones(3)).devices() == {DEVICES[2]}


@contract("5.3")
def test_loops_and_branches_follow() -> None:
    x = kiln.device_put(jnp.arange(4.0), DEVICES[2])
    total, _ = kiln.lax.scan(lambda c, v: (c + v, c), jnp.zeros(()), x)
    chosen = kiln.lax.cond(True, lambda v: v + 1, lambda v: v - 1, x)
    assert total.devices() == chosen.devices() == {DEVICES[2]}
    assert float(total) == 6.0
