"""Types that say what `vmap` makes of their values, as libraries register them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.api.mapping import vmappable
from kiln.base.caches.revisions import revision
from kiln.experimental import sparse
from kiln.interpreters import batching


class Named:
    """An array whose axes have names; no node of trees."""

    def __init__(self, names: str, data: Any) -> None:
        self.names = names
        self.data = data


class Along:
    """The axis of a name, and where it goes in results; of None, nothing is mapped."""

    def __init__(self, name: str | None, axis: int = 0) -> None:
        self.name = name
        self.axis = axis


class Plain(NamedTuple):
    """A node of trees that is a leaf for `vmap` while it is registered."""

    data: Any


def _to_elt(go_on: Any, position: Any, x: Named, spec: Along) -> Named:
    if spec.name is None:
        return Named(x.names, go_on(x.data, None))
    axis = x.names.index(spec.name)
    return Named(x.names.replace(spec.name, ""), go_on(x.data, axis))


def _from_elt(go_on: Any, size: int, x: Named, spec: Along) -> Named:
    if spec.name is None:
        return Named(x.names, go_on(size, x.data, None))
    names = x.names[: spec.axis] + spec.name + x.names[spec.axis :]
    return Named(names, go_on(size, x.data, spec.axis))


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    before = dict(vmappable._registered), dict(vmappable._iotas), set(vmappable.spec_types)
    batching.register_vmappable(Named, Along, int, _to_elt, _from_elt, None)
    yield
    for table, kept in zip(
        (vmappable._registered, vmappable._iotas, vmappable.spec_types), before, strict=True
    ):
        table.clear()  # type: ignore[attr-defined]
        table.update(kept)  # type: ignore[attr-defined]


X = Named("ij", np.arange(6, dtype=np.float32).reshape(2, 3))


def test_axes_of_a_form_of_their_own() -> None:
    def f(x: Named, y: Any) -> Any:
        assert x.names == "i" and x.data.shape == (2,)
        return Named(x.names, x.data * y), y

    mapped = kiln.vmap(f, in_axes=(Along("j"), 0), out_axes=(Along("k", 1), 0))
    for run in (mapped, kiln.jit(lambda y: (lambda r: (r[0].data, r[1]))(mapped(X, y)))):
        out = run(X, jnp.arange(3.0)) if run is mapped else run(jnp.arange(3.0))  # type: ignore[operator]
        data = out[0].data if run is mapped else out[0]
        np.testing.assert_array_equal(data, X.data * np.arange(3, dtype=np.float32))
    assert mapped(X, jnp.arange(3.0))[0].names == "ik"


def test_nothing_else_is_mapped() -> None:
    def f(x: Named) -> Any:
        return x.data.sum()

    mapped = kiln.vmap(f, in_axes=Along("i"), axis_size=2)
    np.testing.assert_array_equal(mapped(X), [3, 12])
    with pytest.raises(ValueError, match="at least one non-None value in in_axes, or axis_size"):
        kiln.vmap(f, in_axes=(Along("i"),))(X)


def test_unmapped_values_pass() -> None:
    mapped = kiln.vmap(
        lambda x, y: (x, y + x.data[0, 0]), in_axes=(Along(None), 0), out_axes=(Along(None), 0)
    )
    kept, out = mapped(X, jnp.arange(2.0))
    assert kept.names == "ij" and kept.data.shape == (2, 3)
    np.testing.assert_array_equal(out, [0, 1])


def test_derivatives() -> None:
    def loss(data: Any) -> Any:
        f = kiln.vmap(lambda x: Named(x.names, x.data**2), Along("j"), Along("j", 0), axis_size=3)
        return f(Named("ij", data)).data.sum()

    np.testing.assert_array_equal(kiln.grad(loss)(X.data), 2 * X.data)


def test_nodes_of_trees_are_leaves() -> None:
    def to_elt(go_on: Any, position: Any, x: Plain, axis: Any) -> Any:
        return Plain(go_on(x.data, axis) + 10 * position())

    def from_elt(go_on: Any, size: int, x: Plain, axis: Any) -> Plain:
        return Plain(go_on(size, x.data, axis) + 1)

    batching.register_vmappable(Plain, int, int, to_elt, from_elt, None)
    x = {"p": Plain(jnp.zeros((2, 3))), "q": None, "r": jnp.arange(2.0)}
    out = kiln.vmap(lambda t: (t["p"], t["q"], t["r"]))(x)
    np.testing.assert_array_equal(out[0].data, [[1, 1, 1], [11, 11, 11]])
    assert out[1] is None
    np.testing.assert_array_equal(out[2], [0, 1])
    batching.register_vmappable(Plain, int, int, to_elt, from_elt, lambda n: jnp.arange(n) * 2)
    out = kiln.vmap(lambda p, r: p)(x["p"], x["r"])
    np.testing.assert_array_equal(out.data, [[1, 1, 1], [21, 21, 21]])
    batching.unregister_vmappable(Plain)
    np.testing.assert_array_equal(kiln.vmap(lambda p: p.data.sum())(x["p"]), [0, 0])


def test_values_inside_values() -> None:
    def to_elt(go_on: Any, position: Any, x: Plain, axis: Any) -> Any:
        return Plain(go_on(x.data, axis))

    def from_elt(go_on: Any, size: int, x: Plain, axis: Any) -> Plain:
        return Plain(go_on(size, x.data, axis))

    batching.register_vmappable(Plain, Along, int, to_elt, from_elt, None)
    found = kiln.vmap(lambda p: p, Along("i"), Along("i", 1), axis_size=2)(Plain(X))
    assert type(found.data) is Named and found.data.names == "ji"
    np.testing.assert_array_equal(found.data.data, X.data.T)


@pytest.mark.parametrize(
    ("fun", "in_axes", "out_axes", "error", "match"),
    [
        (lambda x, y: y, (Along("i"), Along("i")), 0, TypeError, "is not a value of such a type"),
        (lambda x, y: x, (Along("i"), 0), Along("i", 5), ValueError, "the axis 5 of an output"),
        (lambda x, y: y, (Along("j"), 0), 0, ValueError, "inconsistent sizes .*: 3, and 2"),
        (lambda x, y: y, ("i", 0), 0, TypeError, "in_axes must be an int"),
    ],
)
def test_axes_that_are_not_there(
    fun: Any, in_axes: Any, out_axes: Any, error: type, match: str
) -> None:
    with pytest.raises(error, match=match) as found:
        kiln.vmap(fun, in_axes, out_axes)(X, jnp.arange(2.0))
    assert len(str(found.value).splitlines()) == 3


def test_arrays_as_ever_beside_registered_types() -> None:
    out = kiln.vmap(lambda x, *, s: {"a": x @ x, "b": s}, out_axes={"a": 0, "b": 0})(
        jnp.ones((2, 3)), s=jnp.arange(2)
    )
    np.testing.assert_array_equal(out["a"], [3, 3])
    with pytest.raises(ValueError, match="argument x of type"):
        kiln.vmap(lambda x, y: x)(jnp.ones(3), jnp.ones(2))


def test_sparse_arrays_beside_registered_types() -> None:
    dense = np.arange(12.0, dtype=np.float32).reshape(2, 2, 3)
    stack = sparse.BCOO.fromdense(dense, n_batch=1)

    def f(nothing: None, x: Named, m: Any, *, also_nothing: None, y: Any) -> Any:
        assert nothing is None and also_nothing is None and m.shape == (2, 3)
        return Named(x.names, x.data + y), m.T, None

    axes = (0, Along("i"), 0)
    mapped = kiln.vmap(f, in_axes=axes, out_axes=(Along("i"), 0, 0))
    named, turned, nothing = mapped(None, X, stack, also_nothing=None, y=np.arange(2))
    np.testing.assert_array_equal(named.data, X.data + np.arange(2)[:, None])
    np.testing.assert_array_equal(turned.todense(), dense.mT)
    assert nothing is None and turned.n_batch == 1


def test_a_registration_is_seen_by_fresh_functions() -> None:
    before = revision()
    batching.register_vmappable(Plain, int, int, _to_elt, _from_elt, None)
    registered = revision()
    batching.unregister_vmappable(Plain)
    assert len({before, registered, revision()}) == 3
