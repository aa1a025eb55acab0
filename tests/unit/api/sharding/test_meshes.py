"""The mesh in force, and what places arrays by it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.errors import UnavailableOptionError
from kiln.sharding import AbstractMesh, AxisType, NamedSharding, P, PartitionSpec


def mesh() -> kiln.sharding.Mesh:
    return kiln.make_mesh((4,), ("x",), (AxisType.Explicit,))


def test_set_mesh_is_a_context_and_a_setting() -> None:
    assert kiln.sharding.get_mesh().empty
    with kiln.set_mesh(mesh()):
        assert kiln.sharding.get_mesh() == mesh()
        assert kiln.sharding.get_abstract_mesh().shape == {"x": 4}
    setting = kiln.set_mesh(mesh())
    assert kiln.sharding.get_mesh() == mesh()
    setting.__exit__()
    assert kiln.sharding.get_abstract_mesh().empty


def test_settings_of_meshes_do_not_pile_up() -> None:
    mesh = kiln.make_mesh((1,), ("x",))
    before = sys.getrefcount(mesh)
    try:
        for _ in range(100):
            kiln.set_mesh(mesh)
        assert sys.getrefcount(mesh) < before + 10
    finally:
        kiln.set_mesh(None)


def test_set_mesh_refuses() -> None:
    with pytest.raises(ValueError, match="Expected mesh of type"):
        kiln.set_mesh(3)
    with pytest.raises(ValueError, match="outside of `jit`"):
        kiln.jit(lambda x: kiln.set_mesh(mesh()) or x)(1.0)


def test_reshard_follows_the_mesh() -> None:
    x = jnp.arange(8.0)
    with kiln.set_mesh(mesh()):
        moved = kiln.reshard(x, P("x"))
        assert moved.sharding == NamedSharding(mesh(), P("x"))
        assert kiln.jit(lambda x: kiln.reshard(x, P("x")) * 2)(x).tolist() == (x * 2).tolist()
        abstract = NamedSharding(kiln.sharding.get_abstract_mesh(), P("x"))
        assert kiln.reshard(x, abstract).sharding == moved.sharding
        assert lax.with_sharding_constraint(moved, abstract).sharding == moved.sharding
        g = kiln.sharding.auto_axes(lambda x: x * 2, out_sharding=P("x"))
        assert g(x).sharding == moved.sharding
        h = kiln.sharding.explicit_axes(lambda x: x * 2, in_sharding=P("x"))
        assert h(x).tolist() == (x * 2).tolist()
    with pytest.raises(RuntimeError, match="needs a mesh"):
        kiln.reshard(x, P("x"))
    with pytest.raises(RuntimeError, match="has no devices"):
        kiln.reshard(x, abstract)


def test_a_types_sharding_places_nothing() -> None:
    x = jnp.arange(4.0)
    assert kiln.typeof(x).sharding.spec == PartitionSpec(None)
    assert kiln.reshard(x, kiln.typeof(x).sharding) is x
    assert lax.with_sharding_constraint(x, kiln.typeof(x).sharding) is x


def test_axes_are_manual_inside_shard_map() -> None:
    seen = []

    def member(x: kiln.Array) -> kiln.Array:
        seen.append(kiln.sharding.get_abstract_mesh())
        return lax.pbroadcast(x, "x", 2)

    with kiln.set_mesh(mesh()):
        found = kiln.shard_map(member, in_specs=P("x"), out_specs=P("x"))(jnp.arange(4))
    assert found.tolist() == [2, 2, 2, 2]
    assert seen[0].are_all_axes_manual


def test_use_abstract_mesh() -> None:
    with kiln.sharding.use_abstract_mesh(AbstractMesh((2,), ("y",))):
        assert kiln.sharding.get_abstract_mesh().shape == {"y": 2}
    with pytest.raises(ValueError, match="Expected mesh of type"):
        kiln.sharding.use_abstract_mesh(mesh())


def test_smap_maps_array_axes() -> None:
    with kiln.set_mesh(mesh()):
        f = kiln.smap(lambda x: x + lax.psum(x, "x"), in_axes=1, out_axes=1, axis_name="x")
        assert f(jnp.ones((2, 4))).tolist() == [[5.0] * 4] * 2
        x = kiln.device_put(jnp.arange(8.0).reshape(2, 4), P(None, "x"))
        f = kiln.smap(lambda x: x + lax.psum(x, "x"), out_axes=1, axis_name="x")
        assert f(x).tolist() == [[6.0, 7.0, 8.0, 9.0], [26.0, 27.0, 28.0, 29.0]]
    with (
        kiln.set_mesh(kiln.make_mesh((4,), ("x",))),
        pytest.raises(TypeError, match="in_axes was not specified"),
    ):
        kiln.smap(lambda x: x, out_axes=0, axis_name="x")(jnp.ones(4))


def test_guards_accept_what_kiln_does() -> None:
    with kiln.auto_pcast(True), kiln.array_garbage_collection_guard("allow"):
        pass
    with pytest.raises(UnavailableOptionError, match="vary along mesh axes without being told"):
        kiln.auto_pcast(False)


def test_user_contexts_are_part_of_the_key() -> None:
    context, traces = kiln.make_user_context(0), []

    @kiln.jit
    def f(x: float) -> float:
        traces.append(context.value)
        return x

    f(1.0)
    with context(1):
        f(1.0)
        f(2.0)
    with context(1):
        f(1.0)
    f(1.0)
    assert traces == [0, 1]


def test_scopes() -> None:
    with kiln.named_scope("a"):
        assert float(kiln.named_call(jnp.sin)(0.0)) == 0.0

    @kiln.named_scope("f")
    def f(x: Any) -> Any:
        with kiln.named_scope("inner"):
            x = jnp.sin(x)
        return kiln.jit(lambda x: kiln.named_call(jnp.cos, name="cosine")(x))(x)

    def names(program: Any) -> list[str]:
        return [str(eqn.source_info.name_stack) for eqn in program.eqns]

    with kiln.named_scope("outside"):
        program = kiln.make_jaxpr(f)(1.0)
        # Scopes around a program are not in it: it may be run from others.
        assert names(program) == ["f/inner", "f"]
        assert names(program.eqns[1].params["jaxpr"]) == ["cosine"]
    assert set(names(kiln.make_jaxpr(kiln.grad(f))(1.0))) == {"f/inner", "f"}

    made_outside = kiln.named_scope("within")

    def g(x: Any) -> Any:
        with kiln.named_scope("around"), made_outside, made_outside:
            return jnp.sin(x)

    assert names(kiln.make_jaxpr(g)(1.0)) == ["around/within/within"]
    with pytest.raises(TypeError, match="must be a string"), kiln.named_scope(3):
        pass


def test_devices_are_recognized() -> None:
    assert isinstance(kiln.devices()[0], kiln.Device)
    assert not isinstance(3, kiln.Device)
    assert kiln.host_count() == 1
    assert kiln.host_ids() == kiln.process_indices() == [kiln.host_id()]
    assert "numpy:" in (kiln.print_environment_info(return_string=True) or "")


def test_arrays_of_process_local_data() -> None:
    sharding = NamedSharding(mesh(), P("x"))
    x = kiln.make_array_from_process_local_data(sharding, jnp.arange(8))
    assert x.sharding == sharding
    assert x.tolist() == list(range(8))
    with pytest.raises(ValueError, match="there is one process"):
        kiln.make_array_from_process_local_data(sharding, jnp.arange(8), (16,))


def several(kind: AxisType) -> kiln.sharding.Mesh:
    return kiln.make_mesh((2, 2), ("x", "y"), (kind,) * 2)


@pytest.mark.parametrize("kind", [AxisType.Explicit, AxisType.Auto])
def test_what_nobody_placed_is_on_all_devices_of_the_mesh_that_is_set(kind: AxisType) -> None:
    before = jnp.arange(8.0)
    with kiln.set_mesh(several(kind)):
        made = [
            *(jnp.arange(8.0), jnp.ones((8, 2)), jnp.array(np.ones(8)), jnp.asarray(3.0)),
            *(before + 1, before[2:4], before.at[2].set(3.0), jnp.sin(before), jnp.array(before)),
            *(kiln.jit(lambda x: x * 2)(before), kiln.jit(lambda: jnp.ones(4))()),
            *(kiln.grad(lambda x: (x * x).sum())(before), kiln.vmap(jnp.sin)(before)),
            kiln.random.normal(kiln.random.key(0), (8,)),
        ]
        for x in made:
            whole = NamedSharding(several(kind), P())
            assert x.committed and x.sharding.is_equivalent_to(whole, x.ndim), x.sharding
        # What is there stays where it is.
        assert before.sharding.num_devices == 1 and jnp.asarray(before) is before
        assert kiln.device_put(before).sharding.num_devices == 1
        assert made[4].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert (before + 1).sharding.num_devices == 1


def test_what_is_committed_elsewhere_does_not_meet_the_mesh_that_is_set() -> None:
    x = kiln.device_put(jnp.arange(8.0), kiln.devices()[0])
    with kiln.set_mesh(several(AxisType.Explicit)):
        for f in (lambda x: x + 1, kiln.jit(lambda x: x * 2)):
            with pytest.raises(ValueError, match="incompatible devices"):
                f(x)


def test_a_mesh_entered_by_itself_places_nothing() -> None:
    with several(AxisType.Auto):
        assert jnp.ones(8).sharding.num_devices == 1
        assert kiln.jit(lambda x: x * 2)(jnp.arange(8.0)).sharding.num_devices == 1


def test_arrays_like_described_ones_are_where_these_are() -> None:
    place = NamedSharding(several(AxisType.Explicit), P("x"))
    described = kiln.ShapeDtypeStruct((8,), jnp.float32, sharding=place)
    for like in (jnp.zeros_like, jnp.ones_like, lambda x: jnp.full_like(x, 2)):
        assert like(described).sharding == place
    assert jnp.zeros_like(described, shape=(3,)).sharding.num_devices == 1
    abstract = NamedSharding(several(AxisType.Explicit).abstract_mesh, P("x"))
    alone = kiln.ShapeDtypeStruct((8,), jnp.float32, sharding=abstract)
    with kiln.set_mesh(several(AxisType.Explicit)):
        assert jnp.zeros_like(alone).sharding == place


def test_spmd_axis_name_splits_the_mapped_axis() -> None:
    mesh = several(AxisType.Auto)
    x = jnp.arange(32.0).reshape(4, 8)

    def constrained(row: Any) -> Any:
        return lax.with_sharding_constraint(row, NamedSharding(mesh, P("x")))

    out = kiln.jit(kiln.vmap(constrained, spmd_axis_name="y"))(x)
    assert out.sharding == NamedSharding(mesh, P("y", "x")) and (out == x).all()
    with pytest.raises(ValueError, match="spmd_axis_name 'x' cannot appear"):
        kiln.vmap(constrained, spmd_axis_name="x")(x)


def test_spmd_axis_name_splits_the_examples_of_shards() -> None:
    mesh = several(AxisType.Auto)
    x = jnp.arange(32.0).reshape(4, 8)
    shapes = []

    def member(row: Any) -> Any:
        shapes.append(row.shape)
        return row - lax.pmax(row.max(), "x")

    f = kiln.shard_map(member, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    out = kiln.vmap(f, spmd_axis_name="y")(x)
    assert out.sharding.is_equivalent_to(NamedSharding(mesh, P("y", "x")), 2)
    assert out.tolist() == (x - x.max(1, keepdims=True)).tolist()
    assert {*shapes} == {(4,)}
    with pytest.raises(ValueError, match="spmd_axis_name cannot appear"):
        kiln.vmap(f, spmd_axis_name="x")(x)


@pytest.mark.parametrize("at", [0, -1])
def test_what_is_the_same_for_all_examples_is_split_as_their_stack(at: int) -> None:
    here = mesh()
    x = kiln.device_put(jnp.arange(8.0), NamedSharding(here, P("x")))
    spec = P("x", None) if at == 0 else P(None, "x")
    with kiln.set_mesh(here):
        f = kiln.vmap(lambda x: jnp.full((3,), 2.0), out_axes=at)
        for out in (f(x), kiln.jit(f)(x)):
            assert out.sharding == NamedSharding(here, spec) and (out == 2).all()
            assert kiln.typeof(out).sharding.spec == spec


def test_gradients_are_the_same_with_spmd_axis_name() -> None:
    mesh = several(AxisType.Auto)
    x = jnp.arange(32.0).reshape(4, 8)

    def linear(row: Any) -> Any:
        return 3 * row.sum()

    def curved(row: Any) -> Any:
        return jnp.sin(row.sum())

    for member in (linear, curved, lambda row: lax.psum(row.sum(), "y")):
        f = kiln.shard_map(member, mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=False)
        for g in (f, kiln.grad(f)):
            assert kiln.vmap(g, spmd_axis_name="y")(x).tolist() == kiln.vmap(g)(x).tolist()
