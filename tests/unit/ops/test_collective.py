"""Collectives over named axes of vmap, compared with what they mean on the stack."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax

X = np.arange(12.0, dtype=np.float32).reshape(3, 4)
CUBE = np.arange(27.0, dtype=np.float32).reshape(3, 3, 3)
LONG = np.arange(72.0, dtype=np.float32).reshape(3, 6, 4)
SHIFT = [(0, 1), (1, 2), (2, 0)]


def ways(fun):
    """Map a function in three ways that must agree."""
    named = {"axis_name": "i"}
    yield kiln.vmap(fun, **named)
    yield kiln.jit(kiln.vmap(fun, **named))
    yield kiln.vmap(kiln.jit(fun), **named)


def everyone(value):
    return np.stack([value] * 3)


CASES = {
    "psum": (lambda r: lax.psum(r, "i"), X, everyone(X.sum(0))),
    "pmean": (lambda r: lax.pmean(r, "i"), X, everyone(X.mean(0))),
    "pmax": (lambda r: lax.pmax(r, "i"), X, everyone(X.max(0))),
    "pmin": (lambda r: lax.pmin(r, "i"), X, everyone(X.min(0))),
    "psum of bools": (lambda r: lax.psum(r > 3, "i"), X, everyone((X > 3).sum(0).astype("i4"))),
    "psum of a constant": (lambda r: lax.psum(jnp.float32(2), "i"), X, np.full(3, 6, np.float32)),
    "axis_index": (lambda r: lax.axis_index("i"), X, np.arange(3, dtype=np.int32)),
    "all_gather": (lambda r: lax.all_gather(r, "i"), X, everyone(X)),
    "all_gather axis 1": (lambda r: lax.all_gather(r, "i", axis=1), X, everyone(X.T)),
    "all_gather tiled": (lambda r: lax.all_gather(r, "i", tiled=True), X, everyone(X.reshape(12))),
    "psum_scatter": (lambda r: lax.psum_scatter(r, "i"), CUBE, CUBE.sum(0)),
    "psum_scatter tiled": (
        lambda r: lax.psum_scatter(r, "i", tiled=True),
        LONG,
        LONG.sum(0).reshape(3, 2, 4),
    ),
    "all_to_all": (lambda r: lax.all_to_all(r, "i", 0, 0), CUBE, CUBE.swapaxes(0, 1)),
    "all_to_all 1 0": (
        lambda r: lax.all_to_all(r, "i", 1, 0),
        CUBE,
        np.stack([CUBE[:, :, j] for j in range(3)]),
    ),
    "all_to_all tiled": (
        lambda r: lax.all_to_all(r, "i", 0, 1, tiled=True),
        LONG,
        np.stack([np.concatenate(list(LONG[:, 2 * j : 2 * j + 2]), 1) for j in range(3)]),
    ),
    "ppermute": (lambda r: lax.ppermute(r, "i", SHIFT), X, X[[2, 0, 1]]),
    "ppermute to some": (
        lambda r: lax.ppermute(r, "i", [(0, 2)]),
        X,
        np.stack([0 * X[0]] * 2 + [X[0]]),
    ),
    "pshuffle": (lambda r: lax.pshuffle(r, "i", [1, 2, 0]), X, X[[1, 2, 0]]),
    "pswapaxes": (lambda r: lax.pswapaxes(r, "i", 1), CUBE, CUBE.swapaxes(0, 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    fun, x, expected = CASES[name]
    for mapped in ways(fun):
        found = mapped(x)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


LINEAR = [
    name for name in CASES if name not in ("pmax", "pmin", "axis_index") and " of " not in name
]


@pytest.mark.parametrize("name", LINEAR)
def test_transposes_are_adjoint(name):
    fun, x, _ = CASES[name]
    mapped = kiln.vmap(fun, axis_name="i")
    out, pull = kiln.vjp(mapped, x)
    w = np.cos(np.arange(out.size, dtype=np.float32)).reshape(out.shape)
    v = np.sin(np.arange(x.size, dtype=np.float32)).reshape(x.shape)
    np.testing.assert_allclose((w * mapped(v)).sum(), (pull(w)[0] * v).sum(), rtol=1e-4)
    # Pulling back inside the mapped function gives the same: all members pull at once.
    inner = kiln.vmap(lambda r, w: kiln.vjp(fun, r)[1](w)[0], axis_name="i")(x, w)
    if name not in ("psum", "pmean") and not name.startswith("all_gather"):
        np.testing.assert_allclose(inner, pull(w)[0], rtol=1e-5)


def test_the_transpose_of_psum_is_psum():
    slope = kiln.vmap(kiln.grad(lambda r: lax.psum(r.sum(), "i")), axis_name="i")(X)
    np.testing.assert_allclose(slope, np.full_like(X, 3.0))
    gathered = kiln.vmap(kiln.grad(lambda r: (lax.all_gather(r, "i") ** 2).sum()), axis_name="i")
    np.testing.assert_allclose(gathered(X), 6 * X)


def test_pytrees_and_constants():
    out = kiln.vmap(lambda r: lax.psum({"a": r, "b": (r, 1)}, "i"), axis_name="i")(X)
    np.testing.assert_allclose(out["a"], everyone(X.sum(0)))
    np.testing.assert_array_equal(out["b"][1], [3, 3, 3])

    def sizes(r):
        assert lax.psum(1, "i") == lax.axis_size("i") == 3
        assert type(lax.psum(1, "i")) is int
        assert lax.psum(2.0, "i") == 6.0
        assert lax.pmean(2, "i") == 2.0
        return r

    kiln.vmap(sizes, axis_name="i")(X)


NESTED = {
    "both": (lambda r: lax.psum(r, ("i", "j")), np.broadcast_to(CUBE.sum((0, 1)), (3, 3, 3))),
    "outer": (lambda r: lax.psum(r, "i"), np.broadcast_to(CUBE.sum(0), (3, 3, 3))),
    "inner": (
        lambda r: lax.psum(r, "j"),
        np.broadcast_to(CUBE.sum(1, keepdims=True), (3, 3, 3)),
    ),
    "index": (lambda r: lax.axis_index(("i", "j")), np.arange(9).reshape(3, 3)),
    "gather": (
        lambda r: lax.all_gather(r, ("i", "j")),
        np.broadcast_to(CUBE.reshape(9, 3), (3, 3, 9, 3)),
    ),
    "gather outer": (
        lambda r: lax.all_gather(r, "i", axis=1),
        np.broadcast_to(CUBE.transpose(1, 2, 0), (3, 3, 3, 3)),
    ),
    "permute outer": (lambda r: lax.ppermute(r, "i", SHIFT), CUBE[[2, 0, 1]]),
    "size": (lambda r: lax.psum(1, ("i", "j")) * r, 9 * CUBE),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_axes(name):
    fun, expected = NESTED[name]
    inner = kiln.vmap(fun, axis_name="j")
    for mapped in (kiln.vmap(inner, axis_name="i"), kiln.vmap(kiln.jit(inner), axis_name="i")):
        np.testing.assert_allclose(mapped(CUBE), expected)


def test_inside_loops_and_branches():
    def step(carry, _):
        return lax.psum(carry, "i") / 3.0, lax.axis_index("i")

    def fun(r):
        return lax.scan(step, r, None, length=2)

    for mapped in ways(fun):
        carry, index = mapped(X)
        np.testing.assert_allclose(carry, everyone(X.mean(0)), rtol=1e-6)
        np.testing.assert_array_equal(index, [[0, 0], [1, 1], [2, 2]])


def test_the_program_holds_ordinary_operations():
    text = str(kiln.make_jaxpr(kiln.vmap(lambda r: lax.psum(r, "i"), axis_name="i"))(X))
    assert "reduce_sum[axes=(0,)]" in text
    assert "psum" not in text


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: lax.psum(x, "i"),
        lambda x: lax.axis_index("i"),
        lambda x: lax.psum(1, "i"),
        kiln.jit(lambda x: lax.all_gather(x, "i")),
        kiln.vmap(lambda x: lax.pmax(x, "i"), axis_name="j"),
    ],
)
def test_unbound_names(fun):
    with pytest.raises(NameError, match="unbound axis name: i"):
        fun(X)


def mapped_error(fun, x=X):
    kiln.vmap(fun, axis_name="i")(x)


def test_errors():
    with pytest.raises(NotImplementedError, match="axis_index_groups"):
        mapped_error(lambda r: lax.psum(r, "i", axis_index_groups=[[0, 1], [2]]))
    with pytest.raises(NotImplementedError, match="jvp"):
        mapped_error(kiln.grad(lambda r: lax.pmax(r.sum(), "i")))
    with pytest.raises(ValueError, match="unique members"):
        mapped_error(lambda r: lax.ppermute(r, "i", [(0, 1), (1, 1)]))
    with pytest.raises(ValueError, match="unique members"):
        mapped_error(lambda r: lax.ppermute(r, "i", [(0, 5)]))
    for pairs in ([(0.0, 1)], [(0, 1.5)], [("0", 1)], ["01"]):
        with pytest.raises(TypeError, match="ints as numbers"):
            mapped_error(lambda r, pairs=pairs: lax.ppermute(r, "i", pairs))
    with pytest.raises(TypeError, match="ints as numbers"):
        mapped_error(lambda r: lax.pshuffle(r, "i", [2.0, 0, 1]))
    with pytest.raises(ValueError, match=r"4 and 3 respectively"):
        mapped_error(lambda r: lax.all_to_all(r, "i", 0, 0))
    with pytest.raises(ValueError, match="divisible"):
        mapped_error(lambda r: lax.psum_scatter(r, "i", tiled=True))


BLOCK = np.arange(36.0, dtype=np.float32).reshape(2, 3, 6)


def over_two(fun):
    return kiln.vmap(kiln.vmap(fun, axis_name="j"), axis_name="i")


@pytest.mark.parametrize("tiled", [False, True])
@pytest.mark.parametrize("names", [("i", "j"), ("j", "i")])
def test_exchange_over_several_axes(names, tiled) -> None:
    """Members along two axes are those along one, in row-major order of the names."""
    turned = BLOCK if names == ("i", "j") else BLOCK.swapaxes(0, 1)
    flat = turned.reshape(6, 6)

    def check(fun, wanted) -> None:
        got = np.asarray(over_two(fun)(BLOCK))
        wanted = np.asarray(wanted).reshape(*turned.shape[:2], *np.shape(wanted)[1:])
        np.testing.assert_array_equal(got, wanted if names[0] == "i" else wanted.swapaxes(0, 1))

    one = {"axis_name": "k"}
    check(
        lambda r: lax.all_to_all(r, names, 0, 0, tiled=tiled),
        kiln.vmap(lambda r: lax.all_to_all(r, "k", 0, 0, tiled=tiled), **one)(flat),
    )
    check(
        lambda r: lax.psum_scatter(r, names, tiled=tiled),
        kiln.vmap(lambda r: lax.psum_scatter(r, "k", tiled=tiled), **one)(flat),
    )


def test_permutations_over_several_axes() -> None:
    """They count members in the order of the axes, however these are named."""
    perm = [(0, 4), (4, 1), (1, 5), (5, 3)]
    wanted = kiln.vmap(lambda r: lax.ppermute(r, "k", perm), axis_name="k")(BLOCK.reshape(6, 6))
    for names in (("i", "j"), ("j", "i")):
        got = over_two(lambda r, names=names: lax.ppermute(r, names, perm))(BLOCK)
        np.testing.assert_array_equal(got, np.reshape(wanted, BLOCK.shape))
