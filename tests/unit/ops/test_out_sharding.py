"""`out_sharding`: results sharded over explicit axes of the mesh in force; one error for others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, random
from kiln.sharding import AxisType, Mesh, NamedSharding, P, SingleDeviceSharding

X = np.arange(64, dtype=np.float32).reshape(8, 8)
DIMENSIONS = (((1,), (0,)), ((), ()))


def mesh(kind: AxisType) -> Mesh:
    return kiln.make_mesh((4, 2), ("x", "y"), axis_types=(kind, kind))


EXPLICIT = mesh(AxisType.Explicit)
AUTO = mesh(AxisType.Auto)


def dot(out_sharding: Any) -> Any:
    return lax.dot_general(X, X, DIMENSIONS, out_sharding=out_sharding)


KEY = random.key(0)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "dot_general": lambda s: dot(s),
    "dot": lambda s: lax.dot(X, X, out_sharding=s),
    "reshape": lambda s: lax.reshape(X, (8, 4, 2), out_sharding=s),
    "same shape": lambda s: lax.reshape(jnp.asarray(X), (8, 8), out_sharding=s),
    "reduce_sum": lambda s: lax.reduce_sum(X, (1,), out_sharding=s),
    "reduce": lambda s: lax.reduce(X, np.float32(0), lax.add, (1,), s),
    "broadcast": lambda s: lax.broadcast(X[0], (8,), out_sharding=s),
    "iota": lambda s: lax.broadcasted_iota(np.int32, (8, 2), 0, out_sharding=s),
    "conv": lambda s: lax.conv_general_dilated(
        X[:, None], np.ones((1, 1, 3), np.float32), (1,), "SAME", out_sharding=s
    ),
    "bits": lambda s: lax.rng_bit_generator(np.ones(4, np.uint32), (8,), out_sharding=s)[1],
    "zeros": lambda s: jnp.zeros((8, 2), out_sharding=s),
    "arange": lambda s: jnp.arange(8, out_sharding=s),
    "asarray": lambda s: jnp.asarray(X, out_sharding=s),
    "einsum": lambda s: jnp.einsum("ij,jk->ik", X, X, out_sharding=s),
    "matmul": lambda s: jnp.matmul(X, X, out_sharding=s),
    "repeat": lambda s: jnp.repeat(X, 2, axis=0, out_sharding=s),
    "normal": lambda s: random.normal(KEY, (8, 2), out_sharding=s),
    "bernoulli": lambda s: random.bernoulli(KEY, 0.5, (8,), out_sharding=s),
    "permutation": lambda s: random.permutation(KEY, 8, out_sharding=s),
    "initial zeros": lambda s: kiln.nn.initializers.zeros(KEY, (8,), np.float32, s),
    "segment_sum": lambda s: kiln.ops.segment_sum(X, np.arange(8), 8, out_sharding=s),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_sharded_and_values_are_the_same(name: str) -> None:
    function = FUNCTIONS[name]
    plain = function(None)
    assert len(plain.sharding.device_set) == 1
    with kiln.set_mesh(EXPLICIT):
        for _ in range(3):
            found = function(P("x"))
            assert found.sharding.is_equivalent_to(NamedSharding(EXPLICIT, P("x")), found.ndim)
            np.testing.assert_allclose(found, plain, rtol=1e-6)


def test_inside_jit_it_is_a_constraint() -> None:
    with kiln.set_mesh(EXPLICIT):
        found = kiln.jit(lambda: dot(P(None, "y")))()
        assert found.sharding.is_equivalent_to(NamedSharding(EXPLICIT, P(None, "y")), 2)
        assert "d:f32[8@x,8] = reshard" in str(kiln.make_jaxpr(lambda: dot(P("x")))())
        slope = kiln.grad(lambda x: lax.dot(x, X, out_sharding=P("x")).sum())(X)
    np.testing.assert_allclose(slope, np.broadcast_to(X.sum(1), (8, 8)))


def test_a_sharding_of_a_type_says_nothing() -> None:
    assert len(dot(kiln.typeof(X).sharding).sharding.device_set) == 1


@pytest.mark.parametrize(
    ("given", "context", "error", "words"),
    [
        (P("x"), None, ValueError, "when you are not under a mesh context is not allowed"),
        (P(), None, ValueError, "when you are not under a mesh context is not allowed"),
        ("x", EXPLICIT, TypeError, "only supports instances of `NamedSharding` or `PartitionSpec`"),
        (
            SingleDeviceSharding(kiln.devices()[0]),
            None,
            TypeError,
            "`out_sharding` argument of dot_general only supports",
        ),
        (P("x"), AUTO, ValueError, "cannot contain axis names that are of type Auto or Manual"),
        (NamedSharding(AUTO, P(("y", "x"))), None, ValueError, "axis name: y of type"),
        (NamedSharding(AUTO, P("x")), EXPLICIT, ValueError, "should match the mesh of sharding"),
        (P("z"), EXPLICIT, ValueError, "is not found in mesh"),
        (P(None, None, "x"), EXPLICIT, ValueError, "rank"),
    ],
)
def test_what_is_refused(
    given: Any, context: Mesh | None, error: type[Exception], words: str
) -> None:
    with kiln.set_mesh(context) if context is not None else kiln.default_device(None):
        for use in (dot, kiln.jit(dot, static_argnums=0)):
            with pytest.raises(error, match=words) as caught:
                use(given)
            assert len(str(caught.value).splitlines()) == 3


def test_sizes_that_are_not_divisible_are_an_error_under_jit_too() -> None:
    def made() -> Any:
        return jnp.zeros((6, 2), out_sharding=P("x"))

    with kiln.set_mesh(EXPLICIT):
        for use in (made, kiln.jit(made)):
            with pytest.raises(ValueError, match="not divisible by 4"):
                use()


def test_a_device_and_a_sharding_are_one_too_many() -> None:
    with (
        kiln.set_mesh(EXPLICIT),
        pytest.raises(ValueError, match="Only one of `device` or `out_sharding` can be set"),
    ):
        jnp.ones(8, device=kiln.devices()[1], out_sharding=P("x"))


def test_axes_left_to_the_compiler_may_be_named_by_nobody() -> None:
    with kiln.set_mesh(AUTO):
        assert dot(P()).sharding.is_fully_replicated


def test_full_takes_any_sharding() -> None:
    rows = NamedSharding(AUTO, P("x"))
    assert lax.full((8,), 1.0, sharding=rows).sharding == rows
    assert lax.full_like(X, 1.0, np.int32, None, rows).sharding == rows
    assert lax.full_like(X, 1.0).sharding != rows


def test_it_is_a_keyword_of_all_samplers() -> None:
    names = ["ball", "beta", "gamma", "t", "uniform", "randint", "orthogonal", "wald", "poisson"]
    for name in names:
        parameter = inspect.signature(getattr(random, name)).parameters["out_sharding"]
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY and parameter.default is None
