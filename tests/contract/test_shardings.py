"""Section 6: arrays and programs over several devices."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.experimental import io_callback
from kiln.sharding import Mesh, NamedSharding, P, PartitionSpec, SingleDeviceSharding, make_mesh
from tests.contract.marks import contract

DEVICES = kiln.devices()
MESH = make_mesh((4, 2), ("a", "b"))
BOTH = NamedSharding(MESH, P("a", "b"))
ROWS = NamedSharding(MESH, P("a"))
ALL = NamedSharding(MESH, P(("a", "b")))
COLUMNS = NamedSharding(MESH, P(None, "b"))
WHOLE = NamedSharding(MESH, P())
LAYOUTS = [BOTH, ROWS, COLUMNS, WHOLE, NamedSharding(MESH, P("b", "a")), ALL]
VALUES = np.arange(64, dtype=np.float32).reshape(8, 8) / 7 - 3


def put(sharding=BOTH, values=VALUES):
    return kiln.device_put(jnp.array(values), sharding)


@contract("6.1")
def test_partition_specs_are_values() -> None:
    assert P is PartitionSpec
    assert P("a", None) == P("a", None) != P("a")
    assert P(("a",)) == P("a") and P(["a", "b"]) == P(("a", "b"))
    assert (tuple(P("a", ("b", "c"))), len(P(None, "a")), P("a", "b")[1]) == (
        ("a", ("b", "c")),
        2,
        "b",
    )
    assert hash(P("a")) == hash(P("a")) and repr(P("a", None)) == "P('a', None)"


@contract("6.1")
def test_meshes_are_values() -> None:
    mesh = Mesh(np.array(DEVICES).reshape(4, 2), ("a", "b"))
    assert mesh == MESH and hash(mesh) == hash(MESH) and mesh != make_mesh((2, 4), ("a", "b"))
    assert dict(mesh.shape) == {"a": 4, "b": 2} and mesh.size == 8 and mesh.axis_names == ("a", "b")
    assert "('a', 'b')" in repr(mesh)
    assert make_mesh((2,), ("x",)).flat == tuple(DEVICES[:2])
    assert pickle.loads(pickle.dumps(BOTH)) == BOTH
    for wrong in (
        lambda: Mesh(np.array(DEVICES), ("a", "b")),
        lambda: Mesh(np.array(DEVICES).reshape(4, 2), ("a", "a")),
        lambda: Mesh([DEVICES[0], DEVICES[0]], "a"),
        lambda: make_mesh((99,), ("a",)),
    ):
        with pytest.raises(ValueError, match=r"name|device"):
            wrong()


@contract("6.1")
def test_wrong_axis_names() -> None:
    with pytest.raises(ValueError, match="Resource axis: z"):
        NamedSharding(MESH, P("z"))
    with pytest.raises(ValueError, match="duplicate entries for `a`"):
        NamedSharding(MESH, P("a", "a"))


@contract("6.2")
@pytest.mark.parametrize("sharding", LAYOUTS)
def test_arrays_over_several_devices(sharding) -> None:
    x = put(sharding)
    assert x.sharding == sharding and x.committed and x.devices() == set(DEVICES)
    assert x.is_fully_replicated == (sharding is WHOLE) == sharding.is_fully_replicated
    np.testing.assert_array_equal(x, VALUES)
    assert len(x.addressable_shards) == 8
    for shard in x.addressable_shards:
        assert shard.data.devices() == {shard.device}
        np.testing.assert_array_equal(shard.data, VALUES[shard.index])
        assert shard.data.shape == sharding.shard_shape(x.shape)
    firsts = [s for s in x.addressable_shards if s.replica_id == 0]
    assert sum(s.data.size for s in firsts) == VALUES.size
    assert repr(x) == repr(jnp.array(VALUES)) and str(x) == str(jnp.array(VALUES))


@contract("6.2")
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "complex64", "uint32"])
def test_dtypes(dtype) -> None:
    values = np.asarray(jnp.array(VALUES > 0, dtype))
    x = put(ALL, values)
    np.testing.assert_array_equal(np.asarray(x), values)
    np.testing.assert_array_equal(np.asarray(kiln.jit(lambda x: x[::-1])(x)), values[::-1])


@contract("6.2")
@pytest.mark.parametrize(
    "values", [np.zeros((8, 0)), np.float32(3.0), np.broadcast_to(2.0, (8, 8))]
)
@pytest.mark.parametrize("sharding", [ALL, WHOLE])
def test_unusual_values(values, sharding) -> None:
    if not np.ndim(values):
        sharding = WHOLE
    x = kiln.device_put(values, sharding)
    np.testing.assert_array_equal(x, values)
    np.testing.assert_array_equal(kiln.jit(lambda x: x + 1)(x), values + 1)


@contract("6.2")
def test_keys_are_sharded_as_well() -> None:
    keys = kiln.random.split(kiln.random.key(3), 8)
    draw = kiln.jit(kiln.vmap(lambda k: kiln.random.normal(k, (3,))))
    # The bits are the same on all engines; what is computed from them has each one's rounding.
    np.testing.assert_allclose(draw(kiln.device_put(keys, ALL)), draw(keys), rtol=1e-5)
    bits = kiln.jit(kiln.vmap(kiln.random.bits))
    np.testing.assert_array_equal(bits(kiln.device_put(keys, ALL)), bits(keys))


@contract("6.2")
def test_equivalence() -> None:
    flat = make_mesh((8,), ("x",))
    assert WHOLE.is_equivalent_to(NamedSharding(flat, P()), 2)
    assert ALL.is_equivalent_to(NamedSharding(flat, P("x")), 2)
    assert not ROWS.is_equivalent_to(BOTH, 2)
    assert NamedSharding(MESH, P("a", None)).is_equivalent_to(ROWS, 2)
    one = Mesh(DEVICES[:1], "x")
    assert SingleDeviceSharding(DEVICES[0]).is_equivalent_to(NamedSharding(one, P("x")), 1)
    assert not SingleDeviceSharding(DEVICES[0]).is_equivalent_to(
        SingleDeviceSharding(DEVICES[1]), 1
    )


@contract("6.2")
def test_arrays_of_parts() -> None:
    asked = []

    def data(index):
        asked.append(index)
        return VALUES[index]

    x = kiln.make_array_from_callback(VALUES.shape, ROWS, data)
    assert len(asked) == 4
    np.testing.assert_array_equal(x, VALUES)
    parts = [shard.data for shard in x.addressable_shards]
    y = kiln.make_array_from_single_device_arrays(VALUES.shape, ROWS, parts[::-1])
    assert y.sharding == ROWS
    np.testing.assert_array_equal(y + x, 2 * VALUES)
    with pytest.raises(ValueError, match="Expected 8 per-device arrays"):
        kiln.make_array_from_single_device_arrays(VALUES.shape, ROWS, parts[:3])
    with pytest.raises(ValueError, match="Expected shard shape"):
        kiln.make_array_from_callback(VALUES.shape, ROWS, lambda index: VALUES)


@contract("6.2")
def test_eager_operations_keep_to_the_devices() -> None:
    x = put(BOTH)
    for y, want in (
        (x + 1, VALUES + 1),
        (x * x, VALUES * VALUES),
        (jnp.maximum(x, 0), np.maximum(VALUES, 0)),
        (x.T, VALUES.T),
        (x[2], VALUES[2]),
        (x[:, 1:3], VALUES[:, 1:3]),
        (x[x.argmax() // 8], VALUES[7]),
        (x.sum(0), VALUES.sum(0)),
        (x @ x, VALUES @ VALUES),
        (x.at[1, 2].set(9.0)[1], None),
        (jnp.sort(x, axis=1)[:, ::-1], VALUES[:, ::-1]),
        (x.reshape(4, 16), VALUES.reshape(4, 16)),
        (jnp.linalg.inv(x @ x.T + 9 * jnp.eye(8)), None),
        (next(iter(x)), VALUES[0]),
    ):
        assert y.devices() == set(DEVICES)
        if want is not None:
            np.testing.assert_allclose(y, want, rtol=2e-5, atol=1e-4)
    assert float(x[1, 2]) == VALUES[1, 2] and x.tolist() == VALUES.tolist()
    assert [float(r[0]) for r in x] == VALUES[:, 0].tolist()


@contract("6.3", "6.4")
def test_a_mesh_of_one_device_keeps_its_names() -> None:
    alone = NamedSharding(kiln.make_mesh((1,), ("only",)), P("only"))
    x = kiln.device_put(VALUES, alone)
    asked = kiln.jit(lambda x: x + 1, out_shardings=alone)(VALUES)
    told = kiln.jit(lambda x: x + 1, in_shardings=alone)(VALUES)
    for y in (asked, told, kiln.jit(lambda x: x * 2)(x), x + 1):
        assert y.sharding == alone and y.committed
    total, printed = kiln.jit(lambda x: (x.sum(), x[0]))(x)
    assert total.sharding.spec == printed.sharding.spec == P()
    np.testing.assert_allclose(total, VALUES.sum(), rtol=1e-6)
    given = kiln.jit(lambda x: x + 1, donate_argnums=0, out_shardings=alone)(x)
    assert x.is_deleted() and given.sharding == alone


@contract("6.3")
def test_in_and_out_shardings() -> None:
    f = kiln.jit(lambda x, y: (x @ y, y), in_shardings=(ROWS, COLUMNS), out_shardings=(BOTH, None))
    product, y = f(VALUES, jnp.array(VALUES))
    assert product.sharding == BOTH and product.committed
    assert y.sharding.is_equivalent_to(COLUMNS, 2)
    np.testing.assert_allclose(product, VALUES @ VALUES, rtol=1e-5)
    np.testing.assert_array_equal(y, VALUES)


@contract("6.3")
def test_prefixes() -> None:
    tree = {"w": VALUES, "b": [VALUES[0], VALUES[1]]}
    f = kiln.jit(
        lambda t, n, s: kiln.tree.map(lambda x: x * n + s, t),
        static_argnums=1,
        in_shardings=({"w": BOTH, "b": ALL}, None),
        out_shardings={"w": ROWS, "b": None},
    )
    out = f(tree, 2, 1.0)
    assert out["w"].sharding == ROWS and out["b"][0].sharding.is_equivalent_to(ALL, 1)
    kiln.tree.map(lambda a, b: np.testing.assert_array_equal(a, 2 * b + 1), out, tree)
    g = kiln.jit(lambda x, y: x + y, in_shardings=ROWS, out_shardings=ROWS)
    assert g(VALUES, VALUES).sharding == ROWS
    h = kiln.jit(lambda x: x + 1, in_shardings=None, out_shardings=None)
    assert h(VALUES).devices() == {DEVICES[0]}


@contract("6.4")
@pytest.mark.parametrize("sharding", LAYOUTS)
def test_elementwise_results_keep_the_sharding(sharding) -> None:
    x = put(sharding)
    f = kiln.jit(lambda x: jnp.sin(x) * 2 + 1)
    for y in (
        f(x),
        f(f(x)),
        jnp.exp(x),
        x + jnp.array(VALUES),
        kiln.jit(lambda x, y: x * y)(x, VALUES),
    ):
        assert y.sharding.is_equivalent_to(sharding, 2)
        assert y.committed
    np.testing.assert_allclose(f(x), np.sin(VALUES) * 2 + 1, rtol=1e-5)


ERRORS = {
    "divisible input": (
        ValueError,
        r"divi",
        lambda: kiln.jit(lambda x: x, in_shardings=ROWS)(np.ones((6, 4))),
    ),
    "divisible output": (
        ValueError,
        r"divi",
        lambda: kiln.jit(lambda x: x, out_shardings=ROWS)(np.ones((6, 4))),
    ),
    "divisible put": (ValueError, r"divi", lambda: put(ROWS, np.ones((6, 4)))),
    "rank of input": (
        ValueError,
        r"argument weights(.|\n)*rank",
        lambda: kiln.jit(lambda weights: weights, in_shardings=BOTH)(np.ones(8)),
    ),
    "rank of output": (
        ValueError,
        r"rank",
        lambda: kiln.jit(lambda x: x, out_shardings=BOTH)(np.ones(8)),
    ),
    "length": (
        ValueError,
        r"2 in_shardings(.|\n)*prefix(.|\n)*2 for 1",
        lambda: kiln.jit(lambda x: x, in_shardings=(BOTH, BOTH))(VALUES),
    ),
    "structure": (
        ValueError,
        r"in_shardings(.|\n)*'other'(.|\n)*'w'",
        lambda: kiln.jit(lambda t: t["w"], in_shardings=({"other": BOTH},))({"w": VALUES}),
    ),
    "out structure": (
        ValueError,
        r"out_shardings",
        lambda: kiln.jit(lambda x: x, out_shardings=(BOTH, BOTH))(VALUES),
    ),
    "committed elsewhere": (
        ValueError,
        r"does not match",
        lambda: kiln.jit(lambda x: x, in_shardings=BOTH)(put(ROWS)),
    ),
    "committed to one": (
        ValueError,
        r"does not match",
        lambda: kiln.jit(lambda x: x, in_shardings=BOTH)(kiln.device_put(VALUES, DEVICES[0])),
    ),
    "keywords": (
        ValueError,
        r"keyword",
        lambda: kiln.jit(lambda x: x, in_shardings=BOTH)(x=VALUES),
    ),
    "no sharding": (
        (TypeError, ValueError),
        r"in_shardings",
        lambda: kiln.jit(lambda x: x, in_shardings="a"),
    ),
    "no out sharding": (
        (TypeError, ValueError),
        r"out_shardings",
        lambda: kiln.jit(lambda x: x, out_shardings=(3,)),
    ),
    "no mesh": (
        (RuntimeError, ValueError),
        r"mesh",
        lambda: kiln.jit(lambda x: x, in_shardings=P("a"))(VALUES),
    ),
    "no mesh inside": (
        (RuntimeError, ValueError),
        r"mesh",
        lambda: kiln.jit(lambda x: lax.with_sharding_constraint(x, P("a")))(VALUES),
    ),
    "constraint does not fit": (
        ValueError,
        r"divi",
        lambda: lax.with_sharding_constraint(np.ones(6), ROWS),
    ),
    "constraint of too few dimensions": (
        ValueError,
        r"rank",
        lambda: kiln.jit(lambda x: lax.with_sharding_constraint(x, BOTH))(np.ones(8)),
    ),
    "divisible output inside": (
        ValueError,
        r"divi",
        lambda: kiln.jit(kiln.jit(lambda x: x * 2, out_shardings=ROWS))(np.ones((6, 4))),
    ),
    "a list for a tuple": (
        ValueError,
        r"out_shardings(.|\n)*list(.|\n)*tuple",
        lambda: kiln.jit(lambda x: (x, x), out_shardings=[ROWS, ROWS])(VALUES),
    ),
    "meshes apart": (
        ValueError,
        r"incompatible devices",
        lambda: put(ROWS) + kiln.device_put(VALUES, NamedSharding(make_mesh((4,), ("x",)), P("x"))),
    ),
    "device and shardings": (
        ValueError,
        r"in_shardings",
        lambda: kiln.jit(lambda x: x, in_shardings=ROWS, device=DEVICES[0]),
    ),
}


@contract("6.5")
@pytest.mark.parametrize("case", ERRORS)
def test_errors(case) -> None:
    kind, text, call = ERRORS[case]
    with pytest.raises(kind, match=text) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 3


@contract("6.5")
def test_a_divisibility_error_says_size_and_parts() -> None:
    with pytest.raises(ValueError, match="6") as caught:
        put(ROWS, np.ones((6, 4)))
    assert "4 parts" in str(caught.value) and "size 6" in str(caught.value)


@contract("6.5", "6.1")
def test_a_mesh_entered_gives_partition_specs_a_meaning() -> None:
    with MESH:
        y = kiln.jit(lambda x: lax.with_sharding_constraint(x * 2, P("a")), in_shardings=P("b"))(
            VALUES
        )
        assert kiln.device_put(VALUES, P("a", "b")).sharding == BOTH
    assert y.sharding.is_equivalent_to(ROWS, 2)
    np.testing.assert_array_equal(y, 2 * VALUES)


@contract("6.6")
@pytest.mark.parametrize("sharding", LAYOUTS)
def test_with_sharding_constraint(sharding) -> None:
    @kiln.jit
    def f(x):
        return lax.with_sharding_constraint(x @ x, sharding)

    for x in (VALUES, jnp.array(VALUES), put(ROWS)):
        y = f(x)
        assert y.sharding.is_equivalent_to(sharding, 2)
        np.testing.assert_allclose(y, VALUES @ VALUES, rtol=1e-5)
    assert "sdy.sharding_constraint" in f.lower(VALUES).as_text()
    assert lax.with_sharding_constraint(jnp.array(VALUES), sharding).sharding == sharding


def _mlp(w1, w2, x):
    return jnp.tanh(jnp.tanh(x @ w1) @ w2)


def _loss(w1, w2, x):
    return (_mlp(w1, w2, x) ** 2).mean()


def _scanned(x):
    return lax.scan(lambda c, row: (jnp.tanh(c + row), c.sum()), jnp.zeros(8), x)


def _branches(x):
    return lax.cond(x.sum() > 0, lambda v: v @ v, lambda v: v.T, x)


PROGRAMS = {
    "elementwise": lambda x: jnp.exp(-(x**2)) + jnp.where(x > 0, x, 0.5),
    "reductions": lambda x: (x.sum(), x.mean(0), x.max(1), jnp.argmax(x, 1), x.std()),
    "products": lambda x: (x @ x.T, jnp.einsum("ij,kj->ik", x, x), x[0] @ x),
    "rearranged": lambda x: (
        x.T,
        x.reshape(-1),
        x[::-1, 1:5],
        jnp.roll(x, 3, 0),
        jnp.tile(x, (2, 1)),
    ),
    "indexed": lambda x: (x[jnp.array([3, 1])], x.at[2].add(1.0), x[x[:, 0].argsort()]),
    "sorted": lambda x: (jnp.sort(x, 0), jnp.cumsum(x, 1), lax.top_k(x, 2)),
    "softmax": lambda x: kiln.nn.softmax(x @ x, axis=-1),
    "gradient": lambda x: kiln.grad(_loss, (0, 1))(x, x.T, x),
    "hessian of a row": lambda x: kiln.hessian(lambda r: (jnp.sin(r) * x).sum())(x[0]),
    "mapped": lambda x: kiln.vmap(lambda r: jnp.outer(r, r))(x),
    "scan": _scanned,
    "loop": lambda x: lax.fori_loop(0, 5, lambda i, v: jnp.tanh(v @ x * 0.1), x),
    "branches": _branches,
    "linear algebra": lambda x: jnp.linalg.cholesky(x @ x.T + 20 * jnp.eye(8)),
    "transformed": lambda x: jnp.fft.rfft(x, axis=1),
    "convolved": lambda x: jnp.convolve(x[0], x[1]),
    "random": lambda x: x + kiln.random.normal(kiln.random.key(0), x.shape),
    "nested": lambda x: kiln.jit(lambda v: lax.with_sharding_constraint(v * 2, COLUMNS))(x) + 1,
}


@contract("6.6", "6.4")
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    "shardings",
    [[BOTH], pytest.param([ALL, COLUMNS], marks=pytest.mark.full)],
    ids=["both axes", "one axis"],
)
def test_values_do_not_depend_on_shardings(program, shardings) -> None:
    fun = PROGRAMS[program]
    want = kiln.jit(fun)(jnp.array(VALUES))
    for sharding in shardings:
        got = kiln.jit(fun)(put(sharding))
        kiln.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=3e-4, atol=3e-5), got, want
        )


@contract("4.2", "6.4")
def test_donation_over_several_devices() -> None:
    f = kiln.jit(lambda x: x + 1, donate_argnums=0)
    x = put(BOTH)
    y = f(x)
    assert x.is_deleted() and y.sharding == BOTH
    np.testing.assert_array_equal(y, VALUES + 1)
    x = put(BOTH)
    with pytest.warns(UserWarning, match="not usable"):
        kiln.jit(lambda x: x.sum(), donate_argnums=0)(x)
    assert not x.is_deleted()


@contract("6.4", "10.1")
def test_one_trace_serves_all_shardings() -> None:
    traced = []

    def f(x):
        traced.append(1)
        return x * 2

    g = kiln.jit(f)
    for sharding in LAYOUTS:
        g(put(sharding))
    g(VALUES)
    kiln.jit(f, in_shardings=BOTH)(VALUES)
    assert len(traced) == 1


@contract("6.4")
def test_callbacks_see_whole_arrays_once() -> None:
    seen = []

    @kiln.jit
    def f(x):
        kiln.debug.callback(lambda v: seen.append(np.array(v)), x)
        return x + kiln.pure_callback(
            lambda v: np.asarray(v) * 2, kiln.ShapeDtypeStruct(x.shape, x.dtype), x
        )

    np.testing.assert_allclose(f(put(BOTH)), 3 * VALUES, rtol=1e-6)
    kiln.effects_barrier()
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], VALUES)


@contract("6.4")
def test_ordered_effects_keep_their_order_across_places() -> None:
    seen = []

    def note(v):
        seen.append(float(np.asarray(v).ravel()[0]))

    @kiln.jit
    def f(x):
        kiln.debug.callback(note, x, ordered=True)
        return x + 1

    x = jnp.zeros((8, 8))
    for sharding in (BOTH, SingleDeviceSharding(DEVICES[2]), None, ROWS):
        x = f(x) if sharding is None else f(kiln.device_put(x, sharding))
        x = np.asarray(x) if sharding is not None else x
    kiln.effects_barrier()
    assert seen == [0.0, 1.0, 2.0, 3.0]


@contract("6.4")
def test_programs_that_call_python_end_before_the_interpreter() -> None:
    code = (
        "import kiln, numpy as np\n"
        "from kiln.sharding import *\n"
        "m = make_mesh((8,), ('x',))\n"
        "x = kiln.device_put(np.ones((8, 64), 'f4'), NamedSharding(m, P('x')))\n"
        "t = kiln.ShapeDtypeStruct((8, 64), 'float32')\n"
        "f = kiln.jit(lambda x: kiln.pure_callback(lambda v: np.asarray(v) * 2, t, x) + 1)\n"
        "for _ in range(30): y = f(x)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@contract("6.2")
def test_devices_in_another_order() -> None:
    mesh = Mesh(np.array(DEVICES)[[3, 1, 0, 2, 7, 6, 5, 4]].reshape(2, 4), ("p", "q"))
    shuffled = NamedSharding(mesh, P("q", "p"))
    x = kiln.device_put(VALUES, shuffled)
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(shard.data, VALUES[shard.index])
    y = kiln.jit(lambda x: x * 2)(x)
    assert y.sharding == shuffled
    np.testing.assert_array_equal(y, 2 * VALUES)
    mixed = kiln.jit(lambda x, y: x @ y)(x, put(BOTH))
    np.testing.assert_allclose(mixed, VALUES @ VALUES, rtol=1e-5)
    some = Mesh(np.array(DEVICES)[[5, 2]], "p")
    z = kiln.jit(lambda x: x + 1)(kiln.device_put(VALUES, NamedSharding(some, P("p"))))
    assert z.devices() == {DEVICES[5], DEVICES[2]}
    np.testing.assert_array_equal(z, VALUES + 1)


@contract("6.6")
def test_constraints_of_sizes_that_the_parts_do_not_divide() -> None:
    @kiln.jit
    def f(x):
        return lax.with_sharding_constraint(x * 2, BOTH) + 1, lax.with_sharding_constraint(x, ROWS)

    for shape in ((6, 4), (8, 3), (7, 5), (1, 1)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        twice, same = f(x)
        np.testing.assert_array_equal(twice, x * 2 + 1)
        np.testing.assert_array_equal(same, x)
    assert kiln.grad(lambda x: f(x)[0].sum())(np.ones((6, 4), np.float32)).shape == (6, 4)


@contract("5.3")
@pytest.mark.parametrize("place", ["sharded", "first", "last"])
def test_closed_over_arrays_follow_the_arguments(place) -> None:
    const = put(ROWS)
    place = {"sharded": COLUMNS, "first": DEVICES[0], "last": DEVICES[-1]}[place]
    f = kiln.jit(lambda x: x + const)
    for on in (kiln.device_put(VALUES, place), kiln.device_put(VALUES, DEVICES[1])):
        for _ in range(3):
            out = f(on)
            np.testing.assert_array_equal(out, 2 * VALUES)
            assert out.sharding.device_set == on.sharding.device_set
            assert out.committed
        np.testing.assert_array_equal(f.lower(on).compile()(on), 2 * VALUES)
    # They decide only where nothing else does.
    assert f(VALUES).sharding.device_set == const.sharding.device_set
    alone = kiln.device_put(VALUES, DEVICES[2])
    out = kiln.jit(lambda x: x + alone)(VALUES)
    assert (out.sharding.device_set, out.committed) == ({DEVICES[2]}, False)
    np.testing.assert_array_equal(out + kiln.device_put(VALUES, DEVICES[3]), 3 * VALUES)


@contract("7.3")
@pytest.mark.parametrize("spec", [P("a"), P(), P(("a", "b"))])
def test_callbacks_on_sharded_arguments(spec) -> None:
    x = kiln.device_put(np.arange(8, dtype=np.float32), NamedSharding(BOTH.mesh, spec))
    like = kiln.ShapeDtypeStruct((8,), np.float32)
    calls = []

    def double(x):
        calls.append(x)
        return np.asarray(x) * 2

    out = kiln.jit(lambda x: kiln.pure_callback(double, like, x))(x)
    np.testing.assert_array_equal(out, np.arange(8) * 2)
    for shard in out.addressable_shards:
        np.testing.assert_array_equal(shard.data, (np.arange(8) * 2)[shard.index])
    pair = kiln.jit(
        lambda x: kiln.pure_callback(lambda x: (double(x), double(x) + 1), (like, like), x)
    )(x)
    np.testing.assert_array_equal(pair[1], np.arange(8) * 2 + 1)
    ordered = kiln.jit(lambda x: io_callback(double, like, x, ordered=True) + x)(x)
    for shard in ordered.addressable_shards:
        np.testing.assert_array_equal(shard.data, (np.arange(8) * 3)[shard.index])
    assert len(calls) == 4


@contract("6.1")
@pytest.mark.parametrize("shape", [(-1,), (0,), (2, -1), (8.0,), ("8",), (9,)])
def test_sizes_of_meshes(shape) -> None:
    with pytest.raises((TypeError, ValueError), match=r"make_mesh.*test_shardings.py"):
        make_mesh(shape, ("x", "y")[: len(shape)])


@contract("6.1")
def test_none_as_a_spec() -> None:
    mesh = make_mesh((8,), ("x",))
    for specs in (None, (None,), P()):
        f = kiln.shard_map(lambda t: t["u"] * 2, mesh=mesh, in_specs=specs, out_specs=P())
        np.testing.assert_array_equal(f({"u": VALUES}), 2 * VALUES)


@contract("12.5")
@pytest.mark.parametrize("sharding", ["ROWS", "last"])
def test_compiled_functions_move_nothing_put_on_purpose(sharding) -> None:
    place = ROWS if sharding == "ROWS" else SingleDeviceSharding(DEVICES[-1])
    other = SingleDeviceSharding(DEVICES[0])

    def f(x, unused):
        return x * 2

    compiled = kiln.jit(f).lower(kiln.device_put(VALUES, place), 1.0).compile()
    for x in (VALUES, jnp.asarray(VALUES), kiln.device_put(VALUES, place)):
        np.testing.assert_array_equal(compiled(x, kiln.device_put(1.0, DEVICES[3])), 2 * VALUES)
    with pytest.raises(ValueError, match=r"(?s)argument x.*disagree|disagree.*argument x"):
        compiled(kiln.device_put(VALUES, other), 1.0)
    compiled = kiln.jit(f).lower(VALUES, 1.0).compile()
    with pytest.raises(ValueError, match="input shardings that disagree"):
        compiled(kiln.device_put(VALUES, place), 1.0)
    np.testing.assert_array_equal(compiled(kiln.device_put(VALUES, other), 1.0), 2 * VALUES)
