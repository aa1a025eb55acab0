"""Nothing keeps a user's data after an error: arrays die with the call that failed."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln import linen as nn
from kiln.base.options.config import override
from kiln.sharding import PartitionSpec as P
from tests.contract.marks import contract

FAILURES: dict[str, Callable[[Any], Any]] = {}


def failure(fun: Callable[[Any], Any]) -> Callable[[Any], Any]:
    FAILURES[fun.__name__] = fun
    return fun


def fails(*_: Any) -> Any:
    raise LookupError("on purpose")


@failure
def while_traced(x: Any) -> None:
    kiln.jit(lambda y: fails(x + y))(x)


@failure
def with_a_value_asked_for(x: Any) -> None:
    kiln.jit(lambda y: 1 if (x + y).sum() > 0 else 2)(x)


@failure
def with_a_wrong_result(x: Any) -> None:
    kiln.jit(lambda y: {"a": y + x, "b": object()})(x)


@failure
def with_a_static_array(x: Any) -> None:
    kiln.jit(lambda n, y: y, static_argnums=0)(x, 1.0)


@failure
def while_compiled(x: Any) -> None:
    kiln.jit(lambda y: y + x, compiler_options={"no_such_option": 1})(x)


@failure
def while_run(x: Any) -> None:
    kiln.jit(lambda y: jnp.zeros((2**40,)) + y[0])(x)


@failure
def traced_too_often(x: Any) -> None:
    new = object()
    f = kiln.jit(lambda y: y if new else x, max_traces=1)
    f(1.0)
    f(x)


@failure
def explained(x: Any) -> None:
    with kiln.explain_recompiles():
        kiln.jit(lambda y: y @ jnp.ones(3))(x)


@failure
def with_a_nan(x: Any) -> None:
    with kiln.debug_nans(True):
        kiln.jit(lambda y: lax.scan(lambda c, z: (c, jnp.log(-z)), 0.0, y))(x)


@failure
def with_a_leak(x: Any) -> None:
    kept: list[Any] = []
    with kiln.checking_leaks():
        kiln.jit(lambda y: kept.append(y + x) or y)(x)


@failure
def donated_twice(x: Any) -> None:
    kiln.jit(lambda a, b: a + b, donate_argnums=0)(x, x)


@failure
def used_after_donation(x: Any) -> None:
    kiln.jit(lambda y: y * 2, donate_argnums=0)(x)
    x + 1


@failure
def of_another_type_than_compiled_for(x: Any) -> None:
    kiln.jit(lambda a: a).lower(1.0).compile()(x)


@failure
def in_eager_operations(x: Any) -> None:
    jnp.dot(x, jnp.ones(7))


@failure
def in_grad(x: Any) -> None:
    kiln.grad(lambda y: fails(y * x))(x)


@failure
def in_vmap(x: Any) -> None:
    kiln.vmap(lambda y: fails(y * x))(x)


@failure
def in_a_body(x: Any) -> None:
    lax.scan(lambda c, y: fails(c + y * x), x, x)


@failure
def with_branches_that_differ(x: Any) -> None:
    lax.cond(True, lambda: x, lambda: 1.0)


@failure
def in_a_rule(x: Any) -> None:
    f = kiln.custom_vjp(lambda y: y)
    f.defvjp(lambda y: (y, x), lambda res, ct: (fails(res), ct))
    kiln.grad(lambda y: f(y).sum())(x)


@failure
def in_a_checkpoint(x: Any) -> None:
    kiln.grad(kiln.checkpoint(lambda y: fails(y * x)))(x)


@failure
def on_a_mesh(x: Any) -> None:
    mesh = kiln.make_mesh((1,), ("i",))
    kiln.shard_map(lambda y: fails(y * x), mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)


@failure
def on_the_reference_engine(x: Any) -> None:
    with override(engine="reference"):
        kiln.jit(lambda y: fails(y * x))(x)


@failure
def in_a_module(x: Any) -> None:
    nn.Dense(3).apply({"params": {"kernel": x, "bias": x}}, x)


@failure
def in_a_jitted_method(x: Any) -> None:
    class Model(nn.Module):
        @nn.jit
        @nn.compact
        def __call__(self, y: Any) -> Any:
            return fails(self.param("w", lambda _: y * 2))

    Model().init(kiln.random.key(0), x)


@failure
def in_another_thread(x: Any) -> None:
    caught: list[BaseException] = []

    def run() -> None:
        try:
            while_traced(x)
        except LookupError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    raise caught.pop()


@contract("10.4")
@pytest.mark.parametrize("name", FAILURES)
def test_arrays_die_after_a_call_that_failed(name: str) -> None:
    watches = []
    for _ in range(2):
        x = jnp.ones(1000) * 1
        watches.append(weakref.ref(x))
        with pytest.raises(Exception) as caught:
            FAILURES[name](x)
        del caught, x
    gc.collect()
    assert [watch() is None for watch in watches] == [True, True]
