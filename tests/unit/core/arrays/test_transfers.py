"""Transfer guards: what they say, where they are in force, and that they leave no trace."""

from __future__ import annotations

import logging
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import _runtime, random
from kiln.errors import JaxRuntimeError

N = np.ones(3, np.float32)


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(JaxRuntimeError, match="Disallowed ") as caught:
        call()
    return str(caught.value)


def test_the_message_names_the_call_the_line_and_the_type() -> None:
    x = jnp.arange(3.0)
    with kiln.transfer_guard("disallow"):
        text = refused(lambda: jnp.add(x, N))
    asked, wrong, remedy = text.splitlines()
    assert asked.startswith("add at ")
    assert "test_transfers.py:" in asked
    assert "transfer_guard_host_to_device='disallow'" in asked
    assert "INVALID_ARGUMENT: Disallowed host-to-device transfer: aval=float32[3]" in wrong
    assert "device_put" in remedy


def test_a_transfer_between_devices_names_where_it_goes() -> None:
    there = kiln.devices()[1]
    x = jnp.arange(3.0)
    with kiln.transfer_guard_device_to_device("disallow"):
        kiln.device_put(x, there)
        f = kiln.jit(lambda x: x + 1, device=there)
        assert repr(there) in refused(lambda: f(x))
    with kiln.transfer_guard_device_to_device("disallow_explicit"):
        assert "set it to 'disallow'" in refused(lambda: kiln.device_put(x, there))


def test_a_jitted_function_is_guarded_after_it_was_remembered() -> None:
    f = kiln.jit(lambda x: x * 2)
    for _ in range(3):
        f(N)
    with kiln.transfer_guard("disallow"):
        refused(lambda: f(N))
        assert f(kiln.device_put(N)).tolist() == [2.0, 2.0, 2.0]
    assert f(N).tolist() == [2.0, 2.0, 2.0]
    assert f.cache_info().traces == 1


def test_a_compiled_program_is_guarded() -> None:
    compiled = kiln.jit(lambda x: x * 2).lower(N).compile()
    with kiln.transfer_guard("disallow"):
        refused(lambda: compiled(N))
        assert compiled(kiln.device_put(N)).tolist() == [2.0, 2.0, 2.0]


def test_a_compiled_program_asks_about_arrays_that_it_moves() -> None:
    x, there = jnp.arange(3.0), kiln.devices()[1]
    compiled = kiln.jit(lambda x: x + 1, device=there).lower(x).compile()
    with kiln.transfer_guard("disallow"):
        assert "device-to-device" in refused(lambda: compiled(x))
    with kiln.transfer_guard("disallow_explicit"):
        refused(lambda: compiled(x))
    assert compiled(x).tolist() == [1.0, 2.0, 3.0]


def test_eager_calls_run_plans_again_afterwards() -> None:
    x = jnp.arange(3.0)
    for _ in range(3):
        jnp.tanh(x)
    with kiln.transfer_guard("disallow"):
        jnp.tanh(x)
    before = _runtime.plan_statistics()["runs"]
    jnp.tanh(x)
    assert _runtime.plan_statistics()["runs"] == before + 1


def test_each_transfer_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    x = jnp.arange(3.0)
    f = kiln.jit(lambda x, y: x + y)
    with caplog.at_level(logging.WARNING, "kiln"), kiln.transfer_guard("log"):
        for _ in range(3):
            x // 2
        f(N, 1.0)
        jnp.asarray(N)
        kiln.device_put(N)
    lines = [r.getMessage() for r in caplog.records]
    assert len(lines) == 6
    assert all(line.startswith("host-to-device transfer: aval=") for line in lines)
    assert all("test_transfers.py:" in line for line in lines)
    with caplog.at_level(logging.WARNING, "kiln"), kiln.transfer_guard("log_explicit"):
        kiln.device_put(N)
    assert len(caplog.records) == 7


def test_a_guard_is_of_its_thread_and_of_calls_it_decorates() -> None:
    found: list[Any] = []
    with kiln.transfer_guard("disallow"):
        thread = threading.Thread(target=lambda: found.append(jnp.arange(3) + 1))
        thread.start()
        thread.join()
    assert found[0].tolist() == [1, 2, 3]

    @kiln.transfer_guard_host_to_device("disallow")
    def guarded(x: Any) -> Any:
        return x + 1

    x = jnp.arange(3)
    refused(lambda: guarded(x))
    assert (x + 1).tolist() == [1, 2, 3]


def test_what_is_recorded_is_no_transfer() -> None:
    with kiln.transfer_guard("disallow_explicit"):
        kiln.make_jaxpr(lambda x: x + jnp.asarray(N) + 1)(N)
        f = kiln.jit(lambda x: x + jnp.asarray(N) + jnp.ones(3))
        assert f.lower(N).compile() is not None


def test_results_are_those_without_a_guard() -> None:
    key = random.key(0)
    x = random.normal(key, (4, 3))

    def compute() -> list[Any]:
        y = jnp.dot(x, x.T)
        return [x.std(), jnp.sort(y), kiln.nn.softmax(y), random.uniform(key, (3,)), y.mean(0)]

    plain = compute()
    with kiln.transfer_guard_device_to_device("disallow"):
        guarded = compute()
    for a, b in zip(plain, guarded, strict=True):
        np.testing.assert_array_equal(a, b)


def test_references_and_pickles() -> None:
    ref = kiln.new_ref(jnp.zeros(3))
    x = jnp.arange(3.0)
    data = pickle.dumps(x)

    @kiln.jit
    def add(x: Any) -> Any:
        ref[...] += x
        return ref[...]

    with kiln.transfer_guard("disallow"):
        assert add(x).tolist() == [0.0, 1.0, 2.0]
        assert pickle.loads(data).tolist() == [0.0, 1.0, 2.0]
        refused(lambda: add(N))
    with kiln.transfer_guard("disallow_explicit"):
        refused(lambda: pickle.loads(data))
