"""The program of one device run by all: values, derivatives, collectives, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.ir.shardings.mesh import Mesh
from kiln.ir.shardings.mesh import PartitionSpec as P
from kiln.ir.shardings.sharding import NamedSharding

DEVICES = np.array(kiln.devices())
MESH = Mesh(DEVICES[:8].reshape(4, 2), ("x", "y"))
# Rows and columns of devices in another order than their numbers.
TURNED = Mesh(DEVICES[[6, 1, 3, 0, 2, 7, 5, 4]].reshape(2, 2, 2), ("u", "x", "y"))
SQUARE = np.arange(64, dtype=np.float32).reshape(8, 8) / 7
BLOCK = np.arange(192, dtype=np.float32).reshape(16, 4, 3)
WEIGHTS = np.linspace(-1, 1, 24, dtype=np.float32).reshape(8, 3)
BATCH = np.sin(np.arange(128, dtype=np.float32)).reshape(16, 8)
BOTH, ALL = P("x", "y"), P(("x", "y"))


def over(f, in_specs, out_specs, mesh=MESH, **options):
    return kiln.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)


def close(got, want) -> None:
    for a, b in zip(kiln.tree.leaves(got), kiln.tree.leaves(want), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-5)


def ring(size):
    return [(i, (i + 1) % size) for i in range(size)]


BODIES = {
    "elementwise": (lambda v: v * 2, BOTH, BOTH, SQUARE),
    "psum": (lambda v: lax.psum(v, "x"), BOTH, P(None, "y"), SQUARE),
    "psum of two axes": (lambda v: lax.psum(v, ("x", "y")), BOTH, P(), SQUARE),
    "psum of bools": (lambda v: lax.psum(v > 3, "x"), BOTH, P(None, "y"), SQUARE),
    "pmean": (lambda v: lax.pmean(v.sum(), ("y", "x")), BOTH, P(), SQUARE),
    "pmax": (lambda v: lax.pmax(v, "y"), BOTH, P("x"), SQUARE),
    "pmin": (lambda v: lax.pmin(v, "x"), P(("y", "x")), P("y"), SQUARE),
    "all_gather": (lambda v: lax.all_gather(v, "x"), BOTH, P("x", None, "y"), SQUARE),
    "all_gather, tiled": (
        lambda v: lax.all_gather(v, "x", axis=1, tiled=True),
        BOTH,
        BOTH,
        SQUARE,
    ),
    "all_gather of two axes": (lambda v: lax.all_gather(v, ("y", "x")), BOTH, ALL, SQUARE),
    "all_gather, the same everywhere": (
        lambda v: lax.all_gather(v, "x", tiled=True, to="invarying"),
        BOTH,
        P(None, "y"),
        SQUARE,
    ),
    "all_gather of rows, the same everywhere": (
        lambda v: lax.all_gather(v, ("x", "y"), axis=1, to="invarying").sum(1),
        BOTH,
        P(),
        SQUARE,
    ),
    "psum_scatter": (lambda v: lax.psum_scatter(v, "y"), P("x"), ALL, SQUARE),
    "psum_scatter, tiled": (
        lambda v: lax.psum_scatter(v, "x", scatter_dimension=1, tiled=True),
        P(None, "y"),
        BOTH,
        SQUARE,
    ),
    "ppermute": (lambda v: lax.ppermute(v, "y", [(1, 0)]), BOTH, BOTH, SQUARE),
    "axis_index": (
        lambda v: v + lax.axis_index("x") * 10 + lax.axis_index("y"),
        BOTH,
        BOTH,
        SQUARE,
    ),
    "axis_index of two axes": (
        lambda v: v[:1] + lax.axis_index(("y", "x")),
        BOTH,
        BOTH,
        SQUARE,
    ),
    "axis_size": (lambda v: v * lax.axis_size("x") + lax.psum(1, "y"), BOTH, BOTH, SQUARE),
    "in a loop of a jitted function": (
        lambda v: kiln.jit(
            lambda u: lax.fori_loop(
                0,
                3,
                lambda i, c: lax.ppermute(c, "y", ring(2)) + i * lax.axis_index("x"),
                u,
            )
        )(v),
        BOTH,
        BOTH,
        SQUARE,
    ),
    "in a branch": (
        lambda v: lax.cond(
            lax.psum(v.sum(), ("x", "y")) > 0,
            lambda u: lax.pmax(u, "x"),
            lambda u: lax.pmin(u, "x"),
            v,
        ),
        BOTH,
        P(None, "y"),
        SQUARE,
    ),
    "of a closed-over array": (
        lambda v: lax.psum(v, "x") * jnp.asarray(SQUARE)[:2, :4],
        P("x", "y"),
        P(None, "y"),
        SQUARE,
    ),
    "with axes left to the compiler": (
        lambda v: lax.psum(v, "x") + 1,
        P("x"),
        P(),
        SQUARE,
        {"axis_names": {"x"}},
    ),
    "axis_index with axes left": (
        lambda v: v + lax.axis_index("x"),
        P("x"),
        P("x"),
        SQUARE,
        {"axis_names": {"x"}},
    ),
    **{
        f"all_to_all {s}->{c}": (
            lambda v, s=s, c=c: lax.all_to_all(v, "x", s, c),
            P("x"),
            P("x"),
            BLOCK,
        )
        for s, c in [(1, 0), (1, 1), (1, 2)]
    },
    "all_to_all, tiled": (
        lambda v: lax.all_to_all(v, "x", 1, 0, tiled=True),
        P("x"),
        P(None, "x"),
        SQUARE,
    ),
}
ON_TURNED = [
    name
    for name in BODIES
    if name not in ("of a closed-over array", "psum_scatter") and not name.startswith("all_to_all ")
]


@pytest.mark.parametrize("name", BODIES)
def test_eight_devices_compute_what_the_program_means(name: str) -> None:
    f, in_specs, out_specs, x, *options = BODIES[name]
    g = over(f, in_specs, out_specs, **(options[0] if options else {}))
    with override(engine="reference"):
        want = g(x)
    close(g(x), want)
    jitted = kiln.jit(g)
    assert "sdy.manual_computation" in jitted.lower(x).as_text()
    close(jitted(x), want)


@pytest.mark.parametrize("name", ON_TURNED)
def test_the_order_of_devices_does_not_matter(name: str) -> None:
    f, in_specs, out_specs, x, *options = BODIES[name]
    g = over(f, in_specs, out_specs, TURNED, **(options[0] if options else {}))
    with override(engine="reference"):
        want = g(x)
    close(g(x), want)


def test_numbers_of_collectives() -> None:
    close(over(lambda v: lax.psum(v, "x"), P("x"), P())(SQUARE), SQUARE.reshape(4, 2, 8).sum(0))
    shifted = over(lambda v: lax.ppermute(v, "x", ring(4)), P("x"), P("x"))(SQUARE)
    close(shifted, np.roll(SQUARE, 2, 0))
    places = over(lambda v: v + lax.axis_index("y"), P("y"), P("y"))(np.zeros(4, np.float32))
    close(places, np.array([0, 0, 1, 1], np.float32))


def test_results_are_sharded_as_written() -> None:
    for spec in (P(), P(None), P("x"), P("x", None), P(None, "x"), P(None, None)):
        f = over(lambda v: v, spec, spec)
        assert f(SQUARE).sharding.spec == spec
        assert kiln.jit(f)(SQUARE).sharding.is_equivalent_to(f(SQUARE).sharding, 2)


def test_results_are_cut_as_told() -> None:
    out = over(lambda v: v + 1, BOTH, BOTH)(SQUARE)
    assert out.sharding == NamedSharding(MESH, BOTH)
    whole = over(lambda v: lax.psum(v, ("x", "y")), BOTH, P())(SQUARE)
    assert whole.is_fully_replicated


def test_arguments_come_from_anywhere_on_the_mesh() -> None:
    g = over(lambda v, w: lax.psum(v @ w, "y"), (BOTH, P("y")), P("x"))
    x = kiln.device_put(SQUARE, NamedSharding(MESH, P("y", "x")))
    w = kiln.device_put(SQUARE, NamedSharding(MESH, P()))
    close(g(x, w), SQUARE @ SQUARE)
    close(kiln.jit(lambda u: g(u * 2, w).sum())(x), (2 * SQUARE @ SQUARE).sum())


def test_trees_prefixes_and_decorators() -> None:
    @kiln.shard_map(mesh=MESH, in_specs=(P("x"), None), out_specs={"sum": P(), "part": P("x")})
    def f(parts, scale):
        return {"sum": lax.psum(parts["u"] * scale, "x"), "part": [parts["v"]]}

    out = f({"u": SQUARE, "v": BATCH}, 2.0)
    close(out["sum"], 2 * SQUARE.reshape(4, 2, 8).sum(0))
    close(out["part"][0], BATCH)
    assert f.__name__ == "f"


def test_the_entered_mesh_is_used() -> None:
    with MESH:
        out = kiln.shard_map(lambda v: lax.psum(v, "x"), in_specs=P("x"), out_specs=P())(SQUARE)
    close(out, SQUARE.reshape(4, 2, 8).sum(0))


def test_a_mesh_of_one_device() -> None:
    one = Mesh(DEVICES[:1], "x")
    f = over(lambda v: lax.psum(v, "x") + lax.axis_index("x"), P("x"), P("x"), one)
    close(f(SQUARE), SQUARE)
    close(kiln.jit(f)(SQUARE), SQUARE)


# Derivatives.


def local_loss(w, b):
    return lax.pmean(jnp.mean(jnp.tanh(b @ w) ** 2), ("x", "y"))


def loss(w, b):
    return jnp.mean(jnp.tanh(b @ w) ** 2)


MAPPED = over(local_loss, (P(), ALL), P())
TRANSFORMS = {
    "grad": lambda f: kiln.grad(f, (0, 1)),
    "grad of jit": lambda f: kiln.grad(kiln.jit(f), (0, 1)),
    "jit of grad": lambda f: kiln.jit(kiln.grad(f, (0, 1))),
    "jvp": lambda f: lambda w, b: kiln.jvp(f, (w, b), (w + 1, b)),
    "linearize": lambda f: lambda w, b: kiln.linearize(f, w, b)[1](w, b),
    "hessian": kiln.hessian,
    "reverse twice": lambda f: kiln.jacrev(kiln.jacrev(f)),
    "checkpoint": lambda f: kiln.grad(kiln.checkpoint(f)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_derivatives_are_those_of_the_whole(name: str) -> None:
    transform = TRANSFORMS[name]
    close(transform(MAPPED)(WEIGHTS, BATCH), transform(loss)(WEIGHTS, BATCH))


def test_derivatives_of_unequal_uses() -> None:
    """Operands whole and sharded, results whole and sharded, sums that some members never see."""

    def body(w, b):
        h = lax.psum(b.T @ jnp.sin(b) @ w, "x")
        return h + w * lax.axis_index("y"), lax.ppermute(b * w.sum(), "x", [(0, 1), (2, 3)])

    g = over(body, (P(), P("x")), (P("y"), P("x")))
    weights = (np.cos(np.arange(48)).reshape(16, 3), np.cos(np.arange(128)).reshape(16, 8))

    def scalar(run):
        return lambda w, b: sum((u * v).sum() for u, v in zip(run(w, b), weights, strict=True))

    got = kiln.grad(scalar(g), (0, 1))(WEIGHTS, BATCH)
    with override(engine="reference"):
        expanded = kiln.grad(scalar(g), (0, 1))(WEIGHTS, BATCH)
    close(got, expanded)
    step = 1e-2
    for i, x in enumerate((WEIGHTS, BATCH)):
        direction = np.cos(np.arange(x.size, dtype=np.float32)).reshape(x.shape)
        ends = []
        for sign in (1, -1):
            args = [WEIGHTS, BATCH]
            args[i] = x + sign * step * direction
            ends.append(float(scalar(g)(*args)))
        slope = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(float((got[i] * direction).sum()), slope, rtol=2e-2)


def test_vmap_maps_each_member() -> None:
    many = np.stack([WEIGHTS, 2 * WEIGHTS, -WEIGHTS])
    for transform in (lambda f: f, kiln.grad):
        got = kiln.jit(kiln.vmap(transform(MAPPED), (0, None)))(many, BATCH)
        close(got, kiln.vmap(transform(loss), (0, None))(many, BATCH))
    pair = np.stack([SQUARE, SQUARE + 1], 1)
    g = over(lambda v: (v * 2, lax.psum(v, "x")), BOTH, (BOTH, P(None, "y")))
    doubled, summed = kiln.vmap(g, in_axes=1, out_axes=1)(pair)
    close(doubled, pair * 2)
    close(summed, pair.reshape(4, 2, 2, 8).sum(0).transpose(1, 0, 2).transpose(1, 0, 2))


def test_an_outer_mapped_axis_is_seen_inside() -> None:
    g = over(lambda v: lax.psum(lax.psum(v, "x"), "outer"), P("x"), P())
    got = kiln.vmap(g, axis_name="outer")(np.stack([SQUARE, SQUARE]))
    close(got[1], 2 * SQUARE.reshape(4, 2, 8).sum(0))
    same = kiln.vmap(over(lambda v: lax.psum(v, "x"), P("x"), P()), axis_name="x")
    close(same(SQUARE[None])[0], SQUARE.reshape(4, 2, 8).sum(0))


def test_training_inside() -> None:
    """Gradients of the mean over the members, or means of their own, train as on one device."""

    def mean(x):
        return lax.pmean(x, ("x", "y"))

    def steps(gradient, mean):
        def run(w, b):
            def loss(w):
                return jnp.mean(jnp.tanh(b @ w) ** 2)

            def step(w, _):
                return w - 0.1 * gradient(loss, w), mean(jnp.mean(b @ w))

            return lax.scan(step, w, None, length=3)

        return run

    def of_mean(loss, w):
        return kiln.grad(lambda w: mean(loss(w)))(w)

    def of_copies(loss, w):
        return mean(kiln.grad(loss)(lax.pcast(w, ("x", "y"), to="varying")))

    def unchecked(loss, w):
        return mean(kiln.grad(loss)(w))

    on_one = steps(lambda loss, w: kiln.grad(loss)(w), lambda x: x)
    alone = on_one(WEIGHTS, BATCH)
    slope = kiln.grad(lambda w: on_one(w, BATCH)[0].sum())(WEIGHTS)
    for gradient in (of_mean, of_copies, unchecked):
        g = over(steps(gradient, mean), (P(), ALL), P(), check_vma=gradient is not unchecked)
        close(g(WEIGHTS, BATCH), alone)
        close(kiln.jit(g)(WEIGHTS, BATCH), alone)
        close(kiln.grad(lambda w, g=g: g(w, BATCH)[0].sum())(WEIGHTS), slope)


def test_derivatives_inside() -> None:
    """By a value that members share: their sum. By a member's own copy, or unchecked: its own."""

    def body(w, v):
        return kiln.grad(lambda u: (v @ u).sum())(w)

    def own(w, v):
        return body(lax.pcast(w, "x", to="varying"), v)[None]

    w = np.ones(8, np.float32)
    specs = (P(), P("x"))
    close(over(body, specs, P())(w, SQUARE), SQUARE.sum(0))
    close(over(own, specs, P("x"))(w, SQUARE), SQUARE.reshape(4, 2, 8).sum(1))
    close(over(own, specs, P("x"), check_vma=False)(w, SQUARE), SQUARE.reshape(4, 2, 8).sum(1))


# What varies.


VARYING = [
    (lambda w, v: w + 1, ""),
    (lambda w, v: w + v, "x"),
    (lambda w, v: lax.psum(w + v, "x"), ""),
    (lambda w, v: lax.pmax(v, "x") * lax.axis_index("y"), "y"),
    (lambda w, v: lax.all_gather(v, "x"), "x"),
    (lambda w, v: lax.ppermute(w, "y", [(0, 1)]), "y"),
    (lambda w, v: lax.pcast(w, ("x", "y"), to="varying"), "xy"),
    (lambda w, v: kiln.jit(lambda u: lax.psum(u, "x"))(v) + w, ""),
    (lambda w, v: kiln.jit(jnp.sin)(w) + kiln.jit(jnp.sin)(v), "x"),
    (lambda w, v: lax.scan(lambda c, _: (c + lax.pmean(v, "x"), c), w, None, 2)[0], ""),
    (lambda w, v: lax.scan(lambda c, _: (c * 2, v), w, None, 2)[0], ""),
    (lambda w, v: lax.scan(lambda c, _: (c * 2, v), w, None, 2)[1], "x"),
    (lambda w, v: lax.scan(lambda c, u: (c + u, c), w, v[:, None], None)[0], "x"),
    (lambda w, v: lax.fori_loop(0, 3, lambda i, c: (c[1], v), (w, w))[0], "x"),
    (lambda w, v: lax.fori_loop(0, lax.axis_index("y"), lambda i, c: c + 1, w), "y"),
    (lambda w, v: lax.fori_loop(lax.axis_index("y"), 3, lambda i, c: c + i, w), "y"),
    (lambda w, v: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, w), ""),
    (lambda w, v: lax.while_loop(lambda c: (c + v).sum() < 9, lambda c: c + 1, w), "x"),
    (lambda w, v: lax.cond(v.sum() > 0, lambda: w, lambda: w * 2), "x"),
    (lambda w, v: lax.cond(w.sum() > 0, lambda: w, lambda: w * 2), ""),
    (lambda w, v: lax.cond(w.sum() > 0, lambda: w, lambda: v), "x"),
    (lambda w, v: lax.cond(v.sum() > 0, lambda: 1.0, lambda: 2.0), "x"),
    (lambda w, v: kiln.checkpoint(lambda u: lax.psum(u * w, "x"))(v), ""),
    (lambda w, v: kiln.vmap(lambda a, b: a * b)(w, v), "x"),
    (lambda w, v: kiln.grad(lambda u: jnp.sum(u * w))(w), ""),
    (lambda w, v: kiln.grad(lambda u: jnp.sum(u * v))(w), ""),
    (lambda w, v: kiln.grad(lambda u: jnp.sum(u * w))(v), "x"),
]


@pytest.mark.parametrize("case", range(len(VARYING)))
def test_types_say_what_varies(case: int) -> None:
    f, names = VARYING[case]
    g = over(f, (P(), P("x")), P(), check_vma=True)
    own, vector = np.ones(4, np.float32), np.ones(16, np.float32)
    loose = sorted(names)
    if loose:
        with pytest.raises(ValueError, match=r"may differ along the mesh axes") as error:
            kiln.make_jaxpr(g)(own, vector)
        assert str(loose) in str(error.value)
    else:
        kiln.make_jaxpr(g)(own, vector)


def test_members_in_different_branches_do_not_talk() -> None:
    """A gradient by a shared value is summed before the branches part, not in one of them."""

    def body(w, v):
        def loss(w):
            return jnp.sum(lax.cond(v[0, 0] > 2, lambda: jnp.sin(v @ w), lambda: v @ w))

        return kiln.grad(loss)(w)

    def wanted(w):
        parts = SQUARE.reshape(4, 2, 8)
        return sum(jnp.sum(jnp.sin(p @ w) if p[0, 0] > 2 else p @ w) for p in parts)

    w = np.linspace(-1, 1, 8, dtype=np.float32)
    g = over(body, (P(), P("x")), P())
    close(g(w, SQUARE), kiln.grad(wanted)(w))
    close(kiln.jit(g)(w, SQUARE), kiln.grad(wanted)(w))


def test_casts_that_make_no_sense() -> None:
    for f, why in (
        (lambda v: lax.pcast(v, "x", to="varying"), "varies along 'x' already"),
        (lambda v: lax.pcast(v, "z", to="varying"), "unbound axis name: z"),
        (lambda v: lax.pcast(v, "y", to="reduced"), "must be 'varying'"),
    ):
        with pytest.raises((ValueError, NameError), match=why) as error:
            over(f, P("x"), P("x"))(SQUARE)
        assert len(str(error.value).splitlines()) == 3


def test_types_inside_two_maps_vary_along_the_axes_of_both() -> None:
    found = {}

    def inner(v):
        found["inner"] = v.aval.varying
        return lax.psum(v, "y")

    def outer(v):
        out = kiln.shard_map(inner, in_specs=P(None, "y"), out_specs=P(), axis_names={"y"})(v)
        found["outer"] = out.aval.varying
        return out

    with kiln.set_mesh(MESH):
        f = kiln.shard_map(outer, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
        close(f(SQUARE), SQUARE[:, :4] + SQUARE[:, 4:])
        assert found == {"inner": {"x", "y"}, "outer": {"x"}}
        with pytest.raises(ValueError, match=r"only varying across mesh axes \{\} and not \{x\}"):
            kiln.shard_map(outer, in_specs=P("x"), out_specs=P(), axis_names={"x"})(SQUARE)


def test_arguments_that_are_no_arrays_have_no_specs() -> None:
    what = object()

    def f(o, v):
        assert o["it"] is what
        return v + lax.psum(v, "x")

    mapped = over(f, ({"it": None}, P("x")), P("x"))
    want = over(lambda v: v + lax.psum(v, "x"), P("x"), P("x"))(SQUARE)
    close(mapped({"it": what}, SQUARE), want)
    close(kiln.jit(lambda v: mapped({"it": what}, v))(SQUARE), want)
    with pytest.raises(TypeError, match="not a valid"):
        over(f, P("x"), P("x"))({"it": what}, SQUARE)


# Programs.


def test_an_eager_call_compiles_once() -> None:
    def f(v):
        return lax.psum(v * 3, "x")

    g = over(f, P("x"), P())
    with kiln.explain_recompiles() as first:
        g(SQUARE)
        before = len(first)
        g(SQUARE + 1)
    assert len(first) == before
    jaxpr = kiln.make_jaxpr(g)(SQUARE)
    assert "shard_map" in str(jaxpr) and "psum" in str(jaxpr)


def test_unused_results_are_not_computed() -> None:
    g = over(lambda v, w: (v * 2, lax.psum(w, "x")), (P("x"), P("x")), (P("x"), P()))
    text = kiln.jit(lambda v, w: g(v, w)[0]).lower(SQUARE, SQUARE).as_text()
    assert "all_reduce" not in text


# Errors.


def lines_of(error) -> list[str]:
    return str(error.value).splitlines()


@pytest.mark.parametrize(
    ("kind", "phrases", "run"),
    [
        (ValueError, ["in_specs", "'z'", "not found"], lambda: over(abs, P("z"), P("x"))(SQUARE)),
        (ValueError, ["out_specs", "'z'"], lambda: over(abs, P("x"), P("z"))(SQUARE)),
        (
            ValueError,
            ["axis 0 of size 6", "evenly divisible", "4 parts"],
            lambda: over(abs, P("x"), P("x"))(SQUARE[:6]),
        ),
        (
            ValueError,
            ["length 3", "rank 2"],
            lambda: over(abs, P("x", None, "y"), P("x"))(SQUARE),
        ),
        (
            ValueError,
            ["out_specs", "length 1", "rank 0"],
            lambda: over(lambda v: v.sum(), P("x"), P("x"))(SQUARE),
        ),
        (
            ValueError,
            ["out_specs", "replication", "statically inferred", "['x']", "check_vma=False"],
            lambda: over(lambda v: v, P("x"), P())(SQUARE),
        ),
        (ValueError, ["tree prefix"], lambda: over(abs, (P("x"), P("y")), P("x"))(SQUARE)),
        (ValueError, ["tree prefix"], lambda: over(abs, P("x"), (P("x"), P("y")))(SQUARE)),
        (TypeError, ["PartitionSpec", "str"], lambda: over(abs, "x", P("x"))(SQUARE)),
        (ValueError, ["duplicate"], lambda: over(abs, P("x", "x"), P("x"))(SQUARE)),
        (
            ValueError,
            ["whole", "UNCONSTRAINED"],
            lambda: over(abs, P(P.UNCONSTRAINED), P("x"))(SQUARE),
        ),
        (ValueError, ["needs a mesh"], lambda: over(abs, P("x"), P("x"), mesh=None)(SQUARE)),
        (TypeError, ["must be a Mesh"], lambda: over(abs, P("x"), P("x"), mesh=3)(SQUARE)),
        (
            ValueError,
            ["manual", "'y'", "axis_names"],
            lambda: over(abs, BOTH, BOTH, axis_names={"x"})(SQUARE),
        ),
        (
            ValueError,
            ["axis_names", "z"],
            lambda: over(abs, P("x"), P("x"), axis_names={"z"})(SQUARE),
        ),
        (
            NameError,
            ["unbound axis name", "z"],
            lambda: over(lambda v: lax.psum(v, "z"), P("x"), P("x"))(SQUARE),
        ),
        (TypeError, ["callable"], lambda: over(3, P("x"), P("x"))),
    ],
)
def test_errors_have_three_lines(kind, phrases, run) -> None:
    with pytest.raises(kind) as error:
        run()
    assert len(lines_of(error)) == 3
    for phrase in phrases:
        assert phrase in str(error.value)


def test_without_the_check_the_first_member_speaks() -> None:
    for option in ({"check_vma": False}, {"check_rep": False}):
        got = over(lambda v: v, P("x"), P(), **option)(SQUARE)
        assert got.shape == (2, 8)


@pytest.mark.parametrize("given", [{}, {"in_specs": P("x")}])
def test_a_reference_over_explicit_axes_is_refused_by_name(given: dict[str, Any]) -> None:
    mesh = kiln.make_mesh((2,), ("x",), (kiln.sharding.AxisType.Explicit,))
    ref = kiln.new_ref(kiln.device_put(jnp.zeros(4), NamedSharding(mesh, P("x"))))

    def member(ref: Any) -> None:
        ref[...] = ref[...] + 1

    with pytest.raises(NotImplementedError, match="shard_map passes no references"):
        kiln.shard_map(member, mesh=mesh, out_specs=None, **given)(ref)
