"""Modules whose parameters say how they are sharded, from `init` to a step, over eight devices."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.linen as nn
import kiln.numpy as jnp
from kiln.linen import partitioning
from kiln.serialization import load, save
from kiln.sharding import NamedSharding, P, make_mesh

KERNEL = nn.initializers.lecun_normal()
BIAS = nn.initializers.zeros_init()
RULES = (("batch", "data"), ("hidden", "model"), ("features", None))


class Perceptron(nn.Module):
    @nn.compact
    def __call__(self, x):
        first = nn.with_partitioning(KERNEL, (None, "model"))
        x = nn.Dense(16, kernel_init=first, bias_init=nn.with_partitioning(BIAS, ("model",)))(x)
        x = nn.relu(x)
        return nn.Dense(4, kernel_init=nn.with_partitioning(KERNEL, ("model", None)))(x)


class Named(nn.Module):
    @nn.compact
    def __call__(self, x):
        init = nn.with_logical_partitioning(KERNEL, ("features", "hidden"))
        x = nn.Dense(16, kernel_init=init, use_bias=False)(x)
        return nn.with_logical_constraint(x, ("batch", "hidden"))


@pytest.fixture
def mesh():
    return make_mesh((4, 2), ("data", "model"))


@pytest.fixture
def x():
    return jnp.asarray(np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8))


def test_init_makes_the_parameters_where_they_belong(mesh, x) -> None:
    model, key = Perceptron(), kiln.random.key(0)
    shapes = kiln.eval_shape(model.init, key, x)
    specs = nn.get_partition_spec(shapes)["params"]
    assert specs["Dense_0"] == {"kernel": P(None, "model"), "bias": P("model")}
    assert specs["Dense_1"] == {"kernel": P("model", None), "bias": P()}
    shardings = nn.get_sharding(shapes, mesh)
    variables = kiln.jit(model.init, out_shardings=shardings)(key, x)
    kernel = variables["params"]["Dense_0"]["kernel"]
    assert isinstance(kernel, nn.Partitioned)
    assert kernel.value.sharding == NamedSharding(mesh, P(None, "model"))
    assert {s.data.shape for s in kernel.value.addressable_shards} == {(8, 8)}
    plain = nn.unbox(model.init(key, x))
    for a, b in zip(kiln.tree.leaves(variables), kiln.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_a_step_keeps_the_shardings(mesh, x) -> None:
    model, key = Perceptron(), kiln.random.key(0)
    shardings = nn.get_sharding(kiln.eval_shape(model.init, key, x), mesh)
    variables = kiln.jit(model.init, out_shardings=shardings)(key, x)
    batch = NamedSharding(mesh, P("data"))

    def step(variables, x):
        grads = kiln.grad(lambda v: jnp.sum(model.apply(v, x) ** 2))(variables)
        return kiln.tree.map(lambda p, g: p - 0.01 * g, variables, grads)

    placed = kiln.jit(step, in_shardings=(shardings, batch), out_shardings=shardings)
    new = placed(variables, kiln.device_put(x, batch))
    assert new["params"]["Dense_1"]["kernel"].names == ("model", None)
    for leaf, place in zip(kiln.tree.leaves(new), kiln.tree.leaves(shardings), strict=True):
        assert leaf.sharding == place
    expected = kiln.jit(step)(model.init(key, x), x)
    for a, b in zip(kiln.tree.leaves(new), kiln.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_a_mesh_in_force_constrains_what_is_used(mesh, x) -> None:
    model, key = Perceptron(), kiln.random.key(0)
    variables = model.init(key, x)
    assert "sharding_constraint" not in str(kiln.make_jaxpr(model.apply)(variables, x))
    with mesh:
        assert "sharding_constraint" in str(kiln.make_jaxpr(model.apply)(variables, x))
        inside = kiln.jit(model.apply)(variables, x)
    np.testing.assert_allclose(inside, model.apply(variables, x), rtol=2e-5, atol=1e-6)


def test_logical_names(mesh, x) -> None:
    model, key = Named(), kiln.random.key(0)
    logical = nn.get_partition_spec(kiln.eval_shape(model.init, key, x))
    assert logical["params"]["Dense_0"]["kernel"] == P("features", "hidden")
    shardings = nn.logical_to_mesh_sharding(logical, mesh, RULES)
    variables = kiln.jit(model.init, out_shardings=shardings)(key, x)
    kernel = variables["params"]["Dense_0"]["kernel"].value
    assert kernel.sharding == NamedSharding(mesh, P(None, "model"))
    with mesh, nn.logical_axis_rules(RULES):
        out = kiln.jit(model.apply)(variables, x)
    assert out.sharding.is_equivalent_to(NamedSharding(mesh, P("data", "model")), 2)
    np.testing.assert_allclose(out, model.apply(variables, x), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("suffix", [".msgpack", ".safetensors"])
def test_parameters_are_loaded_where_they_belong(tmp_path, mesh, x, suffix) -> None:
    model, key = Perceptron(), kiln.random.key(0)
    shapes = kiln.eval_shape(model.init, key, x)
    shardings = nn.get_sharding(shapes, mesh)
    variables = kiln.jit(model.init, out_shardings=shardings)(key, x)
    save(tmp_path / f"model{suffix}", variables)
    target = kiln.tree.map(
        lambda s, place: kiln.ShapeDtypeStruct(s.shape, s.dtype, sharding=place),
        nn.unbox(shapes),
        shardings,
    )
    for kind in (variables, nn.meta.replace_boxed(shapes, target)):
        found = load(tmp_path / f"model{suffix}", kind)
        kernel = found["params"]["Dense_0"]["kernel"]
        assert kernel.names == (None, "model")
        assert kernel.value.sharding == NamedSharding(mesh, P(None, "model"))
        for a, b in zip(kiln.tree.leaves(found), kiln.tree.leaves(variables), strict=True):
            np.testing.assert_array_equal(a, b)


class Layer(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        init = nn.with_partitioning(KERNEL, (None, "model"))
        return nn.tanh(nn.Dense(8, kernel_init=init, use_bias=False)(x)), None


def test_scanned_layers_lie_on_an_axis_of_their_own(mesh, x) -> None:
    deep = nn.scan(
        nn.jit(Layer),
        variable_axes={"params": 0},
        split_rngs={"params": True},
        length=4,
        metadata_params={nn.PARTITION_NAME: "data"},
    )()
    key = kiln.random.key(0)
    shapes = kiln.eval_shape(deep.init, key, x, None)
    assert kiln.tree.leaves(nn.get_partition_spec(shapes)) == [P("data", None, "model")]
    shardings = nn.get_sharding(shapes, mesh)
    variables = kiln.jit(deep.init, out_shardings=shardings)(key, x, None)
    (stack,) = kiln.tree.leaves(variables)
    assert {s.data.shape for s in stack.addressable_shards} == {(1, 8, 4)}
    plain = deep.init(key, x, None)
    np.testing.assert_allclose(stack, kiln.tree.leaves(plain)[0], rtol=2e-5, atol=1e-6)
    out, _ = kiln.jit(deep.apply)(variables, x, None)
    np.testing.assert_allclose(out, deep.apply(plain, x, None)[0], rtol=2e-5, atol=1e-6)


def test_a_jitted_module_follows_the_rules_in_force(mesh, x) -> None:
    model, key = nn.jit(Named)(), kiln.random.key(0)
    variables = nn.unbox(model.init(key, x))
    with mesh:
        free = model.apply(variables, x)
        with nn.logical_axis_rules(RULES):
            sharded = model.apply(variables, x)
    assert sharded.sharding.is_equivalent_to(NamedSharding(mesh, P("data", "model")), 2)
    assert not free.sharding.is_equivalent_to(sharded.sharding, 2)
    np.testing.assert_allclose(free, sharded, rtol=2e-5, atol=1e-6)


class TestCollectionsOfNames:
    """The older way: names of axes in collections of their own."""

    class Linear(nn.Module):
        @nn.compact
        def __call__(self, x):
            w = partitioning.param_with_axes("w", KERNEL, (4, 4), axes=("in", "out"))
            mean = partitioning.variable_with_axes("stats", "mean", jnp.zeros, (4,), axes=("out",))
            if not self.is_initializing() and self.is_mutable_collection("stats"):
                mean.value += 1
            return x @ w + mean.value, None

    def test_names_beside_variables(self):
        variables = self.Linear().init(kiln.random.key(0), jnp.ones((2, 4)))
        names = partitioning.get_axis_names(variables["params_axes"])
        assert names == {"w": P("in", "out")}
        assert variables["stats_axes"]["mean_axes"].names == ("out",)
        _, updates = self.Linear().apply(variables, jnp.ones((2, 4)), mutable=["stats"])
        assert list(updates["stats"]["mean"]) == [1.0] * 4

    def test_a_value_is_sharded_by_the_rules(self):
        mesh = make_mesh((2,), ("model",))
        with mesh, partitioning.axis_rules((("out", "model"),)):
            program = kiln.make_jaxpr(self.Linear().init)(kiln.random.key(0), jnp.ones((2, 4)))
        assert str(program).count("sharding_constraint") >= 2

    @pytest.mark.parametrize("lift", ["scan", "vmap"])
    def test_lifting_adds_a_name(self, lift):
        cls = self.Linear
        if lift == "scan":
            lifted = partitioning.scan_with_axes(
                cls,
                variable_axes={"params": 0, "stats": 1},
                split_rngs={"params": True},
                in_axes=(),
                axis_name="layer",
                axes_collections=("params", "stats"),
                length=3,
            )
        else:
            lifted = partitioning.vmap_with_axes(
                cls,
                variable_axes={"params": 0, "stats": 1},
                split_rngs={"params": True},
                partitioning_axis_names={"params": "layer", "stats": "layer"},
            )
        x = jnp.ones((2, 4)) if lift == "scan" else jnp.ones((3, 2, 4))
        variables = lifted().init(kiln.random.key(0), x)
        assert variables["params"]["w"].shape == (3, 4, 4)
        assert variables["params_axes"]["w_axes"].names == ("layer", "in", "out")
        assert variables["stats_axes"]["mean_axes"].names == ("out", "layer")
        result, _ = lifted().apply(variables, x)
        assert result.shape == x.shape

    def test_a_module_must_be_running(self):
        assert partitioning.AxisMetadata(("a",)) == partitioning.AxisMetadata(("a",))
        with pytest.raises(nn.errors.LinenError):
            partitioning.param_with_axes("w", KERNEL, (4, 4), axes=("in", "out"))
