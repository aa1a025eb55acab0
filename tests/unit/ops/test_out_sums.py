"""Arrays that are unreduced or reduced along mesh axes: values, parts, derivatives, errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.errors import ShardingTypeError
from kiln.sharding import AxisType, Mesh, NamedSharding, P, reshard

X = np.arange(16, dtype=np.float32).reshape(8, 2)


def mesh(kind: AxisType = AxisType.Explicit) -> Mesh:
    return kiln.make_mesh((2, 2), ("x", "y"), axis_types=(kind, kind))


@pytest.fixture(autouse=True)
def _under_the_mesh() -> Iterator[None]:
    with kiln.set_mesh(mesh()):
        yield


def put(value: Any, *entries: Any, **sums: Any) -> Any:
    return kiln.device_put(np.asarray(value), P(*entries, **sums))


def parts(x: Any) -> list[np.ndarray]:
    return [np.asarray(shard.data) for shard in x.addressable_shards]


def product() -> Any:
    """Return an array of which each device along y has a part of the sum."""
    x, y = put(X, "x", "y"), put(X.T, "y", None)
    return kiln.jit(lambda x, y: jnp.dot(x, y, out_sharding=P("x", unreduced={"y"})))(x, y)


def test_a_product_is_left_as_parts_of_sums() -> None:
    out = product()
    assert str(kiln.typeof(out)) == "float32[8@x,8]{U:y}"
    assert out.sharding == NamedSharding(mesh(), P("x", None, unreduced={"y"}))
    assert not out.sharding.is_fully_replicated
    first, second = parts(out)[:2]
    np.testing.assert_array_equal(first, np.outer(X[:4, 0], X[:, 0]))
    np.testing.assert_array_equal(second, np.outer(X[:4, 1], X[:, 1]))


def test_its_value_is_the_sum() -> None:
    out = product()
    np.testing.assert_array_equal(out, X @ X.T)
    np.testing.assert_array_equal(reshard(out, P("x")), X @ X.T)
    np.testing.assert_array_equal(kiln.jit(lambda z: reshard(z, P(None, "x")))(out), X @ X.T)
    np.testing.assert_array_equal(kiln.jit(lambda z: reshard(z + z, P()))(out), 2 * (X @ X.T))


def test_no_device_adds_up_what_is_left_unreduced() -> None:
    x, y = put(X, "x", "y"), put(X.T, "y", None)
    f = kiln.jit(lambda x, y: jnp.dot(x, y, out_sharding=P("x", unreduced={"y"})))
    assert "all-reduce" not in f.lower(x, y).compile().as_text()
    assert 'unreduced={"y"}' in f.lower(x, y).as_text()


@pytest.mark.parametrize("spec", [P(unreduced={"x"}), P("x", unreduced={"y"})])
@pytest.mark.parametrize("before", [P(), P("x"), P("x", "y")])
def test_any_array_can_be_given_as_parts(spec: P, before: P) -> None:
    x = put(X, *before)
    for made in (reshard(x, spec), kiln.jit(lambda x: reshard(x, spec))(x)):
        assert made.sharding.spec == P(*spec, *[None] * (2 - len(spec)), unreduced=spec.unreduced)
        np.testing.assert_array_equal(made, X)
        np.testing.assert_array_equal(reshard(made, P("y")), X)


def test_only_the_first_device_holds_what_was_whole() -> None:
    made = put(X, unreduced={"x", "y"})
    assert [bool(part.any()) for part in parts(made)] == [True, False, False, False]
    np.testing.assert_array_equal(made, X)


@pytest.mark.parametrize(
    "f",
    [
        jnp.negative,
        lambda x: x.T,
        lambda x: x.reshape(4, 4),
        lambda x: x[2:4],
        lambda x: lax.reduce_sum(x, (0,)),
        lambda x: jnp.concatenate([x, x]),
        lambda x: x + x,
        lambda x: x - x,
        lambda x: lax.split(x, (3, 5))[1],
        lambda x: x.astype(jnp.bfloat16).astype(jnp.float32),
        lambda x: jnp.where(True, x, x),
    ],
)
def test_linear_operations_keep_parts(f: Any) -> None:
    x = put(X / 4, unreduced={"x"})
    out = kiln.jit(f)(x)
    assert kiln.typeof(out).sums.unreduced == {"x"}
    np.testing.assert_array_equal(out, f(jnp.asarray(X / 4)))


def test_a_factor_is_reduced() -> None:
    x, y = put(X, unreduced={"x"}), put(X, reduced={"x"})
    out = kiln.jit(lambda x, y: x * y)(x, y)
    assert kiln.typeof(out).sums.unreduced == {"x"}
    np.testing.assert_array_equal(out, X * X)


def test_the_gradient_of_what_is_reduced_is_unreduced() -> None:
    w, x = put(X.T, reduced={"x"}), put(X, "x")
    f = kiln.jit(kiln.grad(lambda w, x: jnp.sin(jnp.sin(x) @ w).sum()))
    found = f(w, x)
    assert str(kiln.typeof(found)) == "float32[2,8]{U:x}"
    plain = kiln.jit(kiln.grad(lambda w, x: jnp.sin(jnp.sin(x) @ w).sum()))(X.T, X)
    np.testing.assert_allclose(found, plain, rtol=1e-5, atol=1e-5)
    # Each device has what its rows give.
    assert not np.allclose(parts(found)[0], plain)


def test_the_gradient_of_parts_is_reduced() -> None:
    x = put(X, unreduced={"x"})
    found = kiln.jit(kiln.grad(lambda x: (reshard(x * 2, P()) ** 2).sum()))
    with pytest.raises(ShardingTypeError, match="RHS should be reduced"):
        found(x)
    found = kiln.jit(kiln.grad(lambda x: (reshard(x + x, P()) ** 2).sum()))(x)
    assert kiln.typeof(found).sums.reduced == {"x"}
    np.testing.assert_array_equal(found, 8 * X)


def test_a_scan_adds_up_parts() -> None:
    w, xs = put(np.ones((4, 4), np.float32), reduced={"x"}), put(np.ones((3, 2, 4)), None, "x")

    @kiln.jit
    def step(w: Any, xs: Any) -> Any:
        def body(total: Any, x: Any) -> Any:
            return total + kiln.grad(lambda w: (x @ w).sum())(w), None

        start = reshard(jnp.zeros_like(w), P(unreduced={"x"}))
        return reshard(lax.scan(body, start, xs)[0], P())

    np.testing.assert_array_equal(step(w, xs.astype(jnp.float32)), np.full((4, 4), 6.0))
    text = step.lower(w, xs.astype(jnp.float32)).compile().as_text()
    assert text.count("all-reduce(") == 1


@pytest.mark.parametrize(
    ("text", "f"),
    [
        ("unreduced rule for sin", lambda u, r, p: jnp.sin(u)),
        ("is unreduced while", lambda u, r, p: u + p),
        ("unreduced along the same", lambda u, r, p: u + reshard(p, P(unreduced={"y"}))),
        ("cannot be unreduced since mul", lambda u, r, p: u * u),
        ("RHS should be reduced", lambda u, r, p: u * p),
        ("replicated on the same axes", lambda u, r, p: r * p),
        ("sharded/varying on the same axes", lambda u, r, p: r * reshard(p, P("x"))),
        ("cannot be unreduced", lambda u, r, p: u @ p.T),
        ("unreduced rule for max", lambda u, r, p: jnp.maximum(u, u)),
        ("unreduced rule for convert", lambda u, r, p: u.astype(jnp.int32)),
        (
            "equal to the contracting specs",
            lambda u, r, p: lax.dot_general(
                p, p, (((1,), (1,)), ((), ())), out_sharding=P(unreduced={"x"})
            ),
        ),
        (
            "that were summed over",
            lambda u, r, p: lax.reduce_sum(p, (0,), out_sharding=P(unreduced={"x"})),
        ),
    ],
)
def test_what_would_be_no_sum_is_refused(text: str, f: Any) -> None:
    u, r = put(X, unreduced={"x"}), put(X, reduced={"x"})
    with pytest.raises(ShardingTypeError, match=text) as caught:
        kiln.jit(f)(u, r, put(X))
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "make"),
    [
        ("cannot overlap with unreduced", lambda: P("x", unreduced={"x"})),
        ("unreduced cannot contain None", lambda: P(unreduced={None})),
        ("Unreduced axes .* not found in mesh", lambda: put(X, unreduced={"z"})),
        (
            "only refer to mesh axes that are of type `Explicit`",
            lambda: NamedSharding(mesh(AxisType.Auto), P(unreduced={"x"})),
        ),
    ],
)
def test_specs_that_say_nothing_are_refused(text: str, make: Any) -> None:
    with pytest.raises(ValueError, match=text):
        make()


def test_specs_are_joined_with_their_sums() -> None:
    both = P("x", unreduced={"z"}) + P("a", reduced={"b"})
    assert both == P("x", "a", unreduced={"z"}, reduced={"b"})
    assert both.update(unreduced=()) == P("x", "a", reduced={"b"})
    assert both != P("x", "a")


def test_what_is_computed_before_is_no_part() -> None:
    a, b = put(X), put(X + 1, "x")

    def f(a: Any, b: Any) -> Any:
        return jnp.sin(a) + 1, b * b, (a[0] + 1).sum()

    want = np.sin(X) + 1, (X + 1) ** 2, (X[0] + 1).sum()
    spec = P(unreduced={"x", "y"})
    for g in (
        kiln.jit(f, out_shardings=spec),
        kiln.jit(lambda a, b: reshard(f(a, b), spec)),
        kiln.jit(lambda a, b: reshard(reshard(f(a, b), spec), P())),
    ):
        for got, one in zip(g(a, b), want, strict=True):
            np.testing.assert_allclose(got, one, rtol=1e-6)


def _before(x: np.ndarray) -> np.ndarray:
    return x[0] + np.cumsum(np.concatenate([x[1:], 0 * x[:1]])[::-1], 0)[::-1]


def test_parts_go_through_programs_inside_others() -> None:
    u, flag, n = put(X, unreduced={"x"}), jnp.asarray(True), jnp.asarray(3)

    def check(f: Any, want: np.ndarray) -> None:
        for out in (kiln.jit(f)(u), kiln.jit(lambda u: reshard(f(u), P()))(u)):
            np.testing.assert_array_equal(out, want)

    check(lambda u: kiln.jit(lambda u: u + u)(u), 2 * X)
    check(lambda u: lax.cond(flag, lambda u: u + u, lambda u: u, u), 2 * X)
    check(lambda u: lax.cond(~flag, lambda u: u + u, lambda u: u, u) + u, 2 * X)
    check(lambda u: lax.fori_loop(0, 3, lambda i, t: t + u, u), 4 * X)
    check(lambda u: lax.fori_loop(0, n, lambda i, t: t + t, u), 8 * X)
    check(lambda u: lax.scan(lambda t, _: (t + u, t), u, None, 3)[0], 4 * X)
    check(lambda u: lax.scan(lambda t, _: (t + u, t), u, None, 3)[1].sum(0), 6 * X)
    check(lambda u: lax.scan(lambda t, x: (t + x, None), u[0], u)[0], X.sum(0) + X[0])
    check(lambda u: lax.scan(lambda t, x: (t + x, t), u[0], u, reverse=True)[1], _before(X))
    check(lambda u: lax.map(lambda x: x + x, u), 2 * X)
    check(kiln.checkpoint(lambda u: u + u), 2 * X)
    check(lambda u: kiln.vmap(lambda u: u + u, 1, 1)(u), 2 * X)


def test_parts_are_saved_as_their_sum(tmp_path: Any) -> None:
    u = product()
    kiln.checkpoints.save(tmp_path / "u", {"u": u})
    np.testing.assert_array_equal(kiln.checkpoints.restore(tmp_path / "u")["u"], X @ X.T)


def test_what_does_not_know_parts_refuses_them() -> None:
    u = product()
    with pytest.raises(NotImplementedError, match="partial sums"):
        kiln.export.export(kiln.jit(lambda u: u + u))(u)
    with pytest.raises(NotImplementedError, match="unreduced"):
        kiln.shard_map(lambda u: lax.psum(u, "y"), out_specs=P("x"))(u)
    with pytest.raises(NotImplementedError, match="unreduced"):
        kiln.shard_map(lambda u: u, in_specs=P(unreduced={"x"}), out_specs=P())(u)
