"""Arrays, programs and derivatives where types say how arrays are sharded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.ir.types import ShapedArray
from kiln.ops.sharding import auto, retyped
from kiln.sharding import AxisType, Mesh, NamedSharding, P, auto_axes, explicit_axes

HOST = np.arange(32, dtype=np.float32).reshape(8, 4)


def mesh(kind: AxisType = AxisType.Explicit) -> Mesh:
    return kiln.make_mesh((4, 2), ("x", "y"), axis_types=(kind, kind))


@pytest.fixture(autouse=True)
def _under_the_mesh() -> Iterator[None]:
    with kiln.set_mesh(mesh()):
        yield


def put(*entries: Any, value: Any = HOST) -> Any:
    return kiln.device_put(value, P(*entries))


def test_arrays_have_types_that_tell() -> None:
    x = put("x", "y")
    assert str(kiln.typeof(x)) == "float32[8@x,4@y]"
    assert type(put().aval) is ShapedArray
    assert type(kiln.device_put(x, kiln.devices()[0]).aval) is ShapedArray
    assert type(kiln.device_put(x, NamedSharding(mesh(AxisType.Auto), P("x"))).aval) is ShapedArray
    assert type(x.addressable_shards[0].data.aval) is ShapedArray
    assert (x + 1).sharding == x.sharding
    assert str((x + 1).aval) == "float32[8@x,4@y]"


def test_the_mapped_axis_stays_split_where_the_compiler_decides() -> None:
    a, b = put("x", None, "y", value=HOST.reshape(4, 4, 2)), put("y", value=HOST[:2])
    f = kiln.vmap(lambda a, b: jnp.dot(a, b, out_sharding=P(None, "y")), (0, None))
    for out in (f(a, b), kiln.jit(f)(a, b)):
        assert str(kiln.typeof(out)) == "float32[4@x,4,4@y]"
        np.testing.assert_allclose(out, HOST.reshape(4, 4, 2) @ HOST[:2])
    g = kiln.vmap(auto_axes(lambda a: a + 1, out_sharding=P()))
    assert str(kiln.typeof(kiln.jit(g)(a))) == "float32[4@x,4,2]"


def test_some_axes_are_left_to_the_compiler() -> None:
    found: list[str] = []

    def f(a: Any) -> Any:
        found.append(str(kiln.typeof(a)))
        return jnp.sin(a)

    a = put("x", "y")
    out = kiln.jit(auto_axes(f, axes="x", out_sharding=P("x", "y")))(a)
    assert (found[-1], str(kiln.typeof(out))) == ("float32[8,4@y]", "float32[8@x,4@y]")
    np.testing.assert_allclose(out, np.sin(HOST), rtol=1e-6)
    kiln.set_mesh(mesh(AxisType.Auto))
    a = kiln.device_put(HOST, P("x", "y"))
    out = kiln.jit(explicit_axes(f, axes="y", in_sharding=P(None, "y")))(a)
    assert (found[-1], str(kiln.typeof(out))) == ("float32[8,4@y]", "float32[8,4]")
    np.testing.assert_allclose(out, np.sin(HOST), rtol=1e-6)


def test_a_rule_of_ones_own_inside_a_scan() -> None:
    @kiln.custom_vjp
    def f(x: Any, w: Any) -> Any:
        return jnp.sin(x @ w)

    f.defvjp(
        lambda x, w: (f(x, w), (x, w)),
        lambda res, ct: (
            (ct * jnp.cos(res[0] @ res[1])) @ res[1].T,
            jnp.dot(res[0].T, ct * jnp.cos(res[0] @ res[1]), out_sharding=P()),
        ),
    )

    def loss(x: Any, w: Any) -> Any:
        return lax.scan(lambda x, _: (f(x, w), None), x, None, 3)[0].sum()

    w = np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)
    found = kiln.jit(kiln.grad(loss, (0, 1)))(put("x", None), put(value=w))
    assert str(kiln.typeof(found[0])) == "float32[8@x,4]"
    kiln.set_mesh(None)

    def plain(x: Any, w: Any) -> Any:
        return lax.scan(lambda x, _: (jnp.sin(x @ w), None), x, None, 3)[0].sum()

    for got, want in zip(found, kiln.grad(plain, (0, 1))(HOST, w), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_rows_of_a_split_array() -> None:
    for row, want in zip(put("x", "y"), HOST, strict=True):
        np.testing.assert_array_equal(row, want)


def test_no_mesh_need_be_in_force() -> None:
    x = put("x")
    kiln.set_mesh(None)
    assert str(kiln.typeof(jnp.sin(x))) == "float32[8@x,4]"
    assert str(kiln.typeof(kiln.jit(lambda x: x.T)(x))) == "float32[4,8@x]"


def test_the_text_of_a_program() -> None:
    def f(a: Any) -> Any:
        return jnp.dot(a.T, jnp.sin(a), out_sharding=P("y", None))

    assert str(kiln.make_jaxpr(f)(put("x", "y"))) == (
        "{ lambda ; a:f32[8@x,4@y]. let\n"
        "  b:f32[4@y,8@x] = transpose[permutation=(1, 0)] a\n"
        "  c:f32[8@x,4@y] = sin a\n"
        "  d:f32[4,8] = mesh_cast b\n"
        "  e:f32[8,4] = mesh_cast c\n"
        "  f:f32[4,4] = dot_general[\n"
        "    dimension_numbers=(((1,), (0,)), ((), ()))\n"
        "    precision=None\n"
        "    preferred_element_type=float32\n"
        "  ] d e\n"
        "  g:f32[4@y,4] = reshard[\n"
        "    sharding=NamedSharding(mesh=Mesh('x': 4, 'y': 2), spec=P('y', None))\n"
        "  ] f\n"
        "in (g,) }"
    )


def test_engines_get_constraints_in_place_of_types() -> None:
    x = put("x", "y")
    lowered = kiln.jit(lambda x: jnp.sin(x).T).lower(x)
    text = lowered.as_text()
    assert text.count("sdy.sharding_constraint") == 2
    assert '[{"y"}, {"x"}]' in text
    assert str(lowered.compile()(x).aval) == "float32[4@y,8@x]"


def test_a_result_that_nothing_splits_is_whole_on_each_device() -> None:
    total = kiln.jit(lambda x: x.sum(0))(put("x"))
    assert type(total.aval) is ShapedArray
    assert total.sharding.is_fully_replicated
    assert total.sharding.num_devices == 8
    assert total.tolist() == HOST.sum(0).tolist()


def test_types_are_known_while_tracing() -> None:
    seen = []

    @kiln.jit
    def f(x: Any) -> Any:
        seen.append(kiln.typeof(x).sharding.spec)
        return lax.scan(lambda c, r: (seen.append(str(r.aval)) or c, r), 0.0, x)[1]

    assert str(f(put(None, "y")).aval) == "float32[8,4@y]"
    assert seen == [P(None, "y"), "float32[4@y]"]


def test_a_program_is_recorded_for_each_sharding() -> None:
    traces = []
    f = kiln.jit(lambda x: traces.append(str(x.aval)) or x)
    for x in (put("x"), put("y"), put("x"), put()):
        f(x)
    assert traces == ["float32[8@x,4]", "float32[8@y,4]", "float32[8,4]"]


def test_out_sharding_is_auto_axes_around_an_operation() -> None:
    x = put("x", "y")
    want = HOST.T @ HOST
    for out in (P("y", None), P(), P(None, ("x",))):
        found = jnp.matmul(x.T, x, out_sharding=out)
        assert found.sharding.is_equivalent_to(NamedSharding(mesh(), out), 2)
        np.testing.assert_allclose(found, want, rtol=1e-6)
    part = x.at[jnp.array([1, 2])].get(out_sharding=P(None, "y"))
    assert str(part.aval) == "float32[2,4@y]"
    assert part.tolist() == HOST[1:3].tolist()
    changed = x.at[jnp.array([1])].set(7.0, out_sharding=P("x", None))
    assert str(changed.aval) == "float32[8@x,4]"
    assert changed[:4].tolist()[1] == [7.0] * 4


def test_types_say_nothing_inside_auto_axes() -> None:
    seen = []

    @auto_axes(out_sharding=P("x", None))
    def f(a: Any, b: Any) -> Any:
        seen.append((str(a.aval), kiln.sharding.get_abstract_mesh().are_all_axes_auto))
        # A closed-over value tells nothing here, either.
        return a + b + c

    a, b, c = put("x"), put(None, "y"), put("y")
    for found in (f(a, b), kiln.jit(f)(a, b)):
        assert str(found.aval) == "float32[8@x,4]"
        assert found.tolist() == (HOST * 3).tolist()
    assert seen == [("float32[8,4]", True)] * 2


def test_types_tell_inside_explicit_axes() -> None:
    seen = []
    kiln.set_mesh(mesh(AxisType.Auto))
    f = explicit_axes(lambda x: seen.append(str(x.aval)) or x * 2, in_sharding=P("x"))
    assert f(HOST).tolist() == (HOST * 2).tolist()
    assert kiln.jit(f)(HOST).tolist() == (HOST * 2).tolist()
    assert seen == ["float32[8@x,4]"] * 2


def test_shard_map_gives_types_by_its_specs() -> None:
    f = kiln.shard_map(lambda x: x * 2, in_specs=P("x"), out_specs=P("x"))
    for found in (f(put("x")), kiln.jit(f)(put("x"))):
        assert str(found.aval) == "float32[8@x,4]"
        assert found.tolist() == (HOST * 2).tolist()


def test_cotangents_are_sharded_as_operands() -> None:
    def loss(w: Any, x: Any) -> Any:
        return (jnp.tanh(x @ w) ** 2).sum()

    w = np.ones((4, 6), np.float32)
    want = kiln.grad(loss)(w, HOST / 32)
    for entries in ((), (None, "y"), ("y", None)):
        x = put("x", value=HOST / 32)
        found = kiln.jit(kiln.grad(loss))(put(*entries, value=w), x)
        assert found.sharding.is_equivalent_to(NamedSharding(mesh(), P(*entries)), 2)
        np.testing.assert_allclose(found, want, rtol=1e-5)


def test_zeros_are_sharded_as_what_they_are_cotangents_of() -> None:
    x, y = put("x"), put("y")
    found = kiln.grad(lambda x, y: y.sum(), (0, 1))(x, y)
    assert [str(g.aval) for g in found] == ["float32[8@x,4]", "float32[8@y,4]"]


def test_vmap_over_a_split_axis() -> None:
    found = kiln.jit(kiln.vmap(kiln.jit(lambda r: r * 2)))(put("x", "y"))
    assert str(found.aval) == "float32[8@x,4@y]"
    inner = kiln.vmap(lambda r: kiln.reshard(r, P("y")))(put("x"))
    assert str(inner.aval) == "float32[8@x,4@y]"
    with pytest.raises(ValueError, match="should be sharded the same"):
        kiln.vmap(jnp.add)(put("x"), put("y"))


def test_loops_and_branches_keep_types() -> None:
    with pytest.raises(TypeError, match="goes in as float32") as caught:
        lax.scan(lambda c, r: (c + r, None), jnp.zeros(4), put(None, "y"))
    assert "kiln.reshard(carry, P('y'))" in str(caught.value).splitlines()[2]
    with pytest.raises(ValueError, match="0th dimension of all xs should be replicated"):
        lax.scan(lambda c, r: (c, r), 0.0, put("x"))
    with pytest.raises(TypeError, match="branches must have equal output types"):
        lax.cond(True, lambda x: x, lambda x: kiln.reshard(x, P()), put("x"))


def test_constraints_are_assertions() -> None:
    x = put("x")
    assert lax.with_sharding_constraint(x, P("x", None)).aval == x.aval
    for f in (lambda x: x, kiln.jit):
        with pytest.raises(AssertionError, match="acts as an assert"):
            f(lambda x: lax.with_sharding_constraint(x, P("y")))(x)


def test_values_whose_types_are_changed_back() -> None:
    x = put("x")
    assert auto(x).aval == ShapedArray((8, 4), np.dtype(np.float32))
    assert auto(HOST) is HOST
    assert retyped(x, x.aval) is x
    assert str(retyped(auto(x), x.aval).aval) == "float32[8@x,4]"


def test_a_mesh_with_one_device() -> None:
    alone = kiln.make_mesh((1,), ("x",), (AxisType.Explicit,))
    kiln.set_mesh(alone)
    x = put("x")
    assert str(kiln.jit(jnp.sin)(x).aval) == "float32[8@x,4]"
    np.testing.assert_allclose(kiln.jit(jnp.sin)(x), np.sin(HOST), rtol=1e-6)


def test_axes_that_the_compiler_decides_about_are_not_in_types() -> None:
    mixed = kiln.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
    kiln.set_mesh(mixed)
    x = kiln.device_put(HOST, NamedSharding(mixed, P("x", "y")))
    assert str(x.aval) == "float32[8@x,4]"
    found = kiln.jit(lambda x: jnp.sin(x) * 2)(x)
    assert str(found.aval) == "float32[8@x,4]"
    np.testing.assert_allclose(found, np.sin(HOST) * 2, rtol=1e-6)


def test_vmap_of_shard_map_over_a_split_axis() -> None:
    def inside(v: Any) -> Any:
        return kiln.shard_map(lambda v: v * 2, in_specs=P("x"), out_specs=P("x"))(v)

    x = put("y", value=HOST)
    for f in (kiln.vmap(inside), kiln.jit(kiln.vmap(inside))):
        found = f(x)
        assert str(found.aval) == "float32[8@y,4@x]"
        assert found.tolist() == (HOST * 2).tolist()
