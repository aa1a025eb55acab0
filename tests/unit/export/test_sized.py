"""Functions exported for all sizes, called with several."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export, lax
from kiln.errors import UnsupportedPrimitive
from kiln.export.tables import read, write
from kiln.ir.sizes.values import evaluate

pytest.importorskip("flatbuffers")


def _windows(x):
    return x[1:], x[:-1], x[::2], x[-1], x[::-1], x[: x.shape[0] // 2]


def _scan(x):
    return lax.scan(lambda c, row: (c + row, c * row), jnp.zeros(x.shape[1]), x)


def _scatter(x):
    return x.at[1:].add(2.0).at[0].set(0.0)


PROGRAMS = {
    "products": (lambda x, y: (jnp.sin(x) @ y + x.shape[0], x.sum(), x.mean(0)), "b, 3", "3, 2*b"),
    "softmax": (lambda x: kiln.nn.softmax(x, axis=-1), "n, b"),
    "windows": (_windows, "b + 2, 3"),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 0))), "b, 3"),
    "join": (lambda x: jnp.concatenate([x, x, jnp.ones((2, 3))]), "b, 3"),
    "reshape": (lambda x: x.reshape(-1), "b, 3"),
    "count": (lambda x: jnp.arange(x.shape[0]) + x[:, 0], "b, 3"),
    "scan over rows": (_scan, "b, 3"),
    "scan of rows": (_scan, "4, b"),
    "gather": (lambda x, i: (x[i], jnp.take(x, i, axis=1)), "b, 3", "k"),
    "scatter": (_scatter, "b + 1, 3"),
    "sort": (lambda x: (jnp.sort(x, axis=0), x.argmax(0), x.max(1)), "b, 3"),
    "branches": (lambda x: lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x), "b, 3"),
    "loop": (lambda x: lax.fori_loop(0, x.shape[0], lambda i, v: v * 2, x), "b, 3"),
    "calls": (lambda x: kiln.jit(lambda y: y + y.shape[0])(x), "b, 3"),
    "statistics": (lambda x: (x.var(), jnp.linalg.norm(x), x.std(0)), "b, 3"),
    "map": (lambda x: kiln.vmap(lambda row: jnp.dot(row, row))(x), "b, 3"),
    "gradient": (lambda x: kiln.grad(lambda x: (jnp.tanh(x) ** 2).sum())(x), "b, 3"),
    "differences": (lambda x: x[:, None, :] - x[None, :, :], "b, 3"),
    "einsum": (lambda x, y: jnp.einsum("bi,bj->ij", x, y), "b, 3", "b, 4"),
    "convolution": (lambda x: lax.conv(x, jnp.ones((2, 3, 3, 3)), (1, 1), "SAME"), "b, 3, 8, 8"),
    "random": (lambda x: x + kiln.random.uniform(kiln.random.key(0), x.shape), "b, 3"),
    "choice": (lambda x: jnp.where(x > 0, x, 0), "b, 3"),
    "running": (lambda x: (jnp.cumsum(x, 0), lax.cummax(x, 0, reverse=True)), "b, 3"),
    "attention": (
        lambda q: kiln.nn.softmax(q @ q.swapaxes(1, 2) + jnp.tri(q.shape[1])) @ q,
        "b, n, 4",
    ),
    "selection": (lambda x: (lax.top_k(x, 2), jnp.median(x), jnp.unique(x, size=3)), "b, 3"),
    "pools": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        "b, 2*n, 8, 2",
    ),
    "roll": (lambda x: (jnp.roll(x, 1, axis=0), jnp.cumsum(x, axis=1)), "b, 3"),
    "triangle": (lambda x: jnp.tril(jnp.ones((x.shape[0], x.shape[0]))) @ x, "b, 3"),
}
QUICK = ("running", "products", "windows", "scan of rows", "gather", "loop", "random")
ENVIRONMENTS = ({"b": 1, "n": 2, "k": 3}, {"b": 5, "n": 1, "k": 1})


def _types(specs):
    kinds = [np.int32 if spec == "k" else np.float32 for spec in specs]
    return [
        kiln.ShapeDtypeStruct(export.symbolic_shape(spec), kind)
        for spec, kind in zip(specs, kinds, strict=True)
    ]


def _values(specs, env):
    rng = np.random.default_rng(0)
    made = []
    for struct in _types(specs):
        shape = [evaluate(dim, env) for dim in struct.shape]
        if struct.dtype == np.int32:
            made.append(np.zeros(shape, np.int32))
        else:
            made.append(rng.normal(size=shape).astype(np.float32))
    return made


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.full]) for n in PROGRAMS]
)
def test_for_all_sizes(name):
    fun, *specs = PROGRAMS[name]
    exported = export.export(kiln.jit(fun))(*_types(specs))
    found = export.deserialize(exported.serialize(vjp_order=int(name not in ("loop", "running"))))
    for env in ENVIRONMENTS:
        values = _values(specs, env)
        outs, expected = (kiln.tree.leaves(run(*values)) for run in (found.call, kiln.jit(fun)))
        assert [x.shape for x in outs] == [x.shape for x in expected]
        for x, y in zip(outs, expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def test_derivatives_for_all_sizes():
    fun, *specs = PROGRAMS["products"]
    exported = export.export(kiln.jit(fun))(*_types(specs))
    found = export.deserialize(exported.serialize(vjp_order=1))
    for env in ENVIRONMENTS:
        x, y = _values(specs, env)
        pulled, expected = (
            kiln.grad(lambda x, run=run, y=y: run(x, y)[0].sum())(x) for run in (found.call, fun)
        )
        np.testing.assert_allclose(pulled, expected, rtol=1e-4, atol=1e-5)


def test_derivatives_of_integers_for_all_sizes():
    def f(n, x):
        return 2 * n.T, x.T * x.T

    types = export.symbolic_args_specs(
        [np.ones((2, 3), np.int32), np.ones((3, 4))], ["2, a", "a, 4"]
    )
    found = export.deserialize(export.export(kiln.jit(f))(*types).serialize(vjp_order=2))
    n, x = np.ones((2, 3), np.int32), np.arange(12, dtype=np.float32).reshape(3, 4)
    cts = (np.zeros((3, 2), kiln.dtypes.float0), np.ones((4, 3), np.float32))
    for run in (found.call, kiln.jit(found.call)):
        (nothing, pulled), again = kiln.vjp(lambda *c, r=run: kiln.vjp(r, n, x)[1](c), *cts)
        assert nothing.dtype == kiln.dtypes.float0 and nothing.shape == (2, 3)
        np.testing.assert_allclose(pulled, 2 * x)
        np.testing.assert_allclose(again((nothing, np.ones_like(x)))[1], 2 * x.T)


def test_sizes_that_kiln_does_not_express():
    exported = export.export(kiln.jit(jnp.sin))(*_types(["n, b"]))
    table = read(bytes(exported.serialize()), "Exported")
    for aval in (*table["types"], *table["in_avals"]):
        aval["shape"] = ["n", "floordiv(n, b + -5)"]
    with pytest.raises(NotImplementedError, match="a size that kiln cannot express: n // b-5"):
        export.deserialize(write(table, "Exported"))


def test_quotients_of_sizes():
    def padded(x, y):
        rows = -(-x.shape[0] // y.shape[0])
        room = rows * y.shape[0] - x.shape[0]
        return jnp.pad(x, (0, room)).reshape(rows, y.shape[0]) + y, x.shape[0] % y.shape[0]

    made = export.export(kiln.jit(padded))(*_types(["n", "b"]))
    found = export.deserialize(made.serialize())
    assert str(found.out_avals[0].shape[0]) == "-((-n)//b)"
    for n, b in ((7, 3), (6, 3), (2, 5), (4, 4)):
        operands = np.arange(n, dtype=np.float32), np.ones(b, np.float32)
        for x, y in zip(found.call(*operands), padded(*map(jnp.asarray, operands)), strict=True):
            np.testing.assert_array_equal(x, y)


def test_several_platforms_and_sizes():
    (shape,) = (export.symbolic_shape("b, 3"),)
    made = export.export(kiln.jit(lambda x: x * x.shape[0]), platforms=("tpu", "cpu"))(
        kiln.ShapeDtypeStruct(shape, np.float32)
    )
    found = export.deserialize(made.serialize())
    np.testing.assert_array_equal(found.call(np.ones((2, 3), np.float32)), np.full((2, 3), 2))


def test_sizes_that_follow_from_others():
    types = _types(["b, n", "2*b + n + 1"])
    found = export.export(kiln.jit(lambda x, y: y[: x.shape[0]] + x.shape[1]))(*types)
    np.testing.assert_array_equal(
        found.call(np.ones((2, 3), np.float32), np.arange(8, dtype=np.float32)), [3, 4]
    )
    with pytest.raises(ValueError, match=r"args\[1\].shape\[0\]: it is 9 and should be 8"):
        found.call(np.ones((2, 3), np.float32), np.arange(9, dtype=np.float32))


def test_jitted_and_mapped_calls():
    fun, *specs = PROGRAMS["softmax"]
    found = export.export(kiln.jit(fun))(*_types(specs))
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    np.testing.assert_allclose(kiln.jit(kiln.vmap(found.call))(x), fun(x), rtol=1e-5)


def test_what_takes_sizes_as_numbers_is_named():
    # Which routine is faster depends on the size.
    with pytest.raises(UnsupportedPrimitive, match=r"svd needs a constant size.* n"):
        export.export(kiln.jit(jnp.linalg.svd), platforms=("cuda",))(*_types(["n, 3"]))


@pytest.mark.parametrize(
    ("fun", "spec"),
    [
        (lambda x: jnp.linalg.cholesky(x @ x.mT + jnp.eye(x.shape[-1])), "b, n, n"),
        (lambda x: jnp.linalg.eigvalsh(x @ x.mT), "b, n, n"),
        (lambda x: jnp.abs(jnp.linalg.eigvals(x)).sum(), "b, n, n"),
        (lambda x: jnp.linalg.solve(x @ x.mT + jnp.eye(x.shape[-1]), x), "b, n, n"),
        (lambda x: lax.linalg.lu(x), "b, m, n"),
        (lambda x: tuple(jnp.linalg.qr(x)), "b, m, n"),
        (lambda x: tuple(jnp.linalg.qr(x, mode="complete")), "b, m, n"),
        (lambda x: [jnp.abs(y).sum() for y in jnp.linalg.svd(x)], "b, m, n"),
    ],
)
def test_routines_for_matrices(fun, spec):
    found = export.deserialize(export.export(kiln.jit(fun))(*_types([spec])).serialize())
    for shape in ((2, 4, 3), (1, 2, 5)) if "m" in spec else ((2, 3, 3), (1, 4, 4)):
        x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        got, expected = (kiln.tree.leaves(f(x)) for f in (found.call, kiln.jit(fun)))
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


DRAWS = {
    "permutation": lambda key, x: kiln.random.permutation(key, x),
    "of a range": lambda key, x: kiln.random.permutation(key, x.shape[0]),
    "choice": lambda key, x: kiln.random.choice(key, x, (3,)),
    "without replacement": lambda key, x: kiln.random.choice(
        key, x.shape[0], (x.shape[0] // 2,), replace=False
    ),
    "weighted": lambda key, x: kiln.random.choice(
        key, x, x.shape, replace=False, p=jnp.ones(x.shape) / x.shape[0]
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_those_of_numbers(name):
    def fun(x):
        return DRAWS[name](kiln.random.key(3), x)

    named = kiln.jit(fun, abstracted_axes=("n",))
    for n in (1, 7, 1625, 1700):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(named(x), fun(x))


@pytest.mark.parametrize("k", [0, 1, -2, 5])
@pytest.mark.parametrize("fun", [jnp.tril_indices, jnp.triu_indices])
def test_triangles(fun, k):
    def indices(x):
        return fun(x.shape[0], k), fun(x.shape[0], k, 3)

    named = kiln.jit(indices, abstracted_axes=("n",))
    for n in (1, 2, 7):
        x = np.ones(n)
        got, expected = kiln.tree.leaves(named(x)), kiln.tree.leaves(indices(x))
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("spec", ["b*b", "b*n, n + b", "floordiv(b, 2)"])
def test_names_without_a_solution(spec):
    with pytest.raises(
        ValueError, match="Cannot solve for the value of the size 'b' from the types f"
    ):
        export.export(kiln.jit(jnp.sin))(*_types([spec]))


@pytest.mark.parametrize(
    ("fun", "operation"),
    [
        (lambda x: lax.rng_bit_generator(jnp.zeros(4, "uint32"), x.shape), "rng_bit_generator"),
    ],
)
def test_what_hides_its_sizes_is_named(fun, operation):
    with pytest.raises(UnsupportedPrimitive, match=f"cannot infer the sizes .*{operation}, for ex"):
        export.export(kiln.jit(fun))(*_types(["n"]))


def test_named_sizes_are_refused_where_they_are_not_stored():
    struct = kiln.ShapeDtypeStruct(export.symbolic_shape("n"), np.float32)
    with pytest.raises(NotImplementedError, match="the xla engine needs constant sizes"):
        kiln.jit(jnp.sin).lower(struct).as_text("stablehlo")
