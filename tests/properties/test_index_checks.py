"""Checks of indices: what is out of range is reported, and what is in range never is.

Each spelling of an index is tried in each place where programs have one, as a number of the program
and as one that it computes. What is in range is what NumPy accepts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.experimental import checkify

X = np.arange(6, dtype=np.float32).reshape(3, 2)
INSIDE = (0, 2, -1, -3)
OUTSIDE = (3, 9, -4, -50)

Spelling = Callable[[Any, Any], Any]

# Of an array of three rows; each takes one row, or changes it.
OF_ANY: dict[str, Spelling] = {
    "x[i]": lambda x, i: x[i],
    "x[i, 0]": lambda x, i: x[i, 0],
    "x.T[0, i]": lambda x, i: x.T[0, i],
    "x[i, None]": lambda x, i: x[i, None],
    "x[None, i]": lambda x, i: x[None, i],
    "x.T[..., i]": lambda x, i: x.T[..., i],
    "x[i, 1:]": lambda x, i: x[i, 1:],
    "x.T[1:, i]": lambda x, i: x.T[1:, i],
    "x[i][::-1]": lambda x, i: x[i, ::-1],
    "x.at[i].get()": lambda x, i: x.at[i].get(),
    "x.at[i].get(fill)": lambda x, i: x.at[i].get(mode="fill"),
    "x.at[i].set": lambda x, i: x.at[i].set(1.0),
    "x.at[i].set(drop)": lambda x, i: x.at[i].set(1.0, mode="drop"),
    "x.at[i, 0].add": lambda x, i: x.at[i, 0].add(1.0),
    "x.at[i].mul": lambda x, i: x.at[i].mul(2.0),
    "x.at[i].min": lambda x, i: x.at[i].min(2.0),
    "x.at[i].max": lambda x, i: x.at[i].max(2.0),
    "x.at[i].apply": lambda x, i: x.at[i].apply(jnp.sin),
    "x[[0, i]]": lambda x, i: x[jnp.stack([jnp.int32(0), jnp.int32(i)])],
    "x[[[i]], [0, 1]]": lambda x, i: x[jnp.full((1, 1), i), np.array([0, 1])],
    "x.at[[i, 0]].add": lambda x, i: x.at[jnp.stack([jnp.int32(i), jnp.int32(0)])].add(1.0),
    "take": lambda x, i: jnp.take(x, i, axis=0),
    "take of arrays": lambda x, i: jnp.take(x, jnp.full((2,), i), axis=0),
    "take_along_axis": lambda x, i: jnp.take_along_axis(x, jnp.full((1, 2), i), 0),
    "dynamic_slice": lambda x, i: lax.dynamic_slice(x, (i, 0), (1, 2)),
    "dynamic_slice_in_dim": lambda x, i: lax.dynamic_slice_in_dim(x, i, 1),
    "dynamic_index_in_dim": lambda x, i: lax.dynamic_index_in_dim(x, i),
    "dynamic_update_slice": lambda x, i: lax.dynamic_update_slice(x, np.ones((1, 2), "f4"), (i, 0)),
    "dynamic_update_index": lambda x, i: lax.dynamic_update_index_in_dim(x, np.ones(2, "f4"), i, 0),
}
# In range whatever the number is, or moved there on purpose.
ALWAYS_INSIDE: dict[str, Spelling] = {
    "x.at[i].get(clip)": lambda x, i: x.at[i].get(mode="clip"),
    "x.at[i].set(clip)": lambda x, i: x.at[i].set(1.0, mode="clip"),
    "take(clip)": lambda x, i: jnp.take(x, i, axis=0, mode="clip"),
    "take_along_axis(clip)": lambda x, i: jnp.take_along_axis(
        x, jnp.full((1, 2), i), 0, mode="clip"
    ),
    "clipped": lambda x, i: x[jnp.clip(i, 0, 2)],
    "modulo": lambda x, i: x[i % 3],
    "take(wrap)": lambda x, i: jnp.take(x, i, axis=0, mode="wrap"),
}
OF_NUMBERS: dict[str, Spelling] = {
    "x[np.int8(i)]": lambda x, i: x[np.int8(i)],
    "x[np.array(i)]": lambda x, i: x[np.array(i)],
    "x[jnp.int32(i)]": lambda x, i: x[jnp.int32(i)],
    "x[np.array([i, 0])]": lambda x, i: x[np.array([i, 0])],
    "x[(i, 1)]": lambda x, i: x[(i, 1)],
    "x.at[np.array([0, i])].set": lambda x, i: x.at[np.array([0, i])].set(0.0),
}
SLICES: dict[str, Spelling] = {
    "x[i:]": lambda x, i: x[i:],
    "x[:i]": lambda x, i: x[:i],
    "x[i::-1]": lambda x, i: x[i::-1],
    "x.at[i:].add": lambda x, i: x.at[i:].add(1.0),
}


def _scanned(f: Spelling) -> Spelling:
    return lambda x, i: lax.scan(lambda total, j: (total + f(x, i).sum(), j), 0.0, jnp.arange(2))[0]


def _computed_in_scan(f: Spelling) -> Spelling:
    return lambda x, i: lax.scan(lambda n, _: (n, f(x, n)), i, None, length=2)[1]


def _mapped(f: Spelling) -> Spelling:
    return lambda x, i: kiln.vmap(lambda y: f(y, i))(jnp.stack([x, x]))


def _mapped_index(f: Spelling) -> Spelling:
    return lambda x, i: kiln.vmap(lambda j: f(x, j))(jnp.stack([jnp.int32(0), jnp.int32(i)]))


def _branch(f: Spelling) -> Spelling:
    return lambda x, i: lax.cond(x[0, 1] > 0, lambda: f(x, i).sum(), lambda: 0.0)


def _untaken(f: Spelling) -> Spelling:
    return lambda x, i: lax.cond(x[0, 1] < 0, lambda: f(x, i).sum(), lambda: 0.0)


def _repeated(f: Spelling) -> Spelling:
    return lambda x, i: lax.while_loop(
        lambda s: s[0] < 2, lambda s: (s[0] + 1, s[1] + f(x, i).sum()), (0, 0.0)
    )[1]


def _inner(f: Spelling) -> Spelling:
    return lambda x, i: kiln.jit(lambda y: f(y, i))(x)


def _slope(f: Spelling) -> Spelling:
    return lambda x, i: kiln.grad(lambda y: (f(y, i) ** 2).sum())(x)


def _rematerialized(f: Spelling) -> Spelling:
    return lambda x, i: kiln.grad(kiln.checkpoint(lambda y: (f(y, i) ** 2).sum()))(x)


PLACES: dict[str, Callable[[Spelling], Spelling]] = {
    "alone": lambda f: f,
    "scan": _scanned,
    "vmap": _mapped,
    "cond": _branch,
    "while": _repeated,
    "jit": _inner,
    "grad": _slope,
    "checkpoint": _rematerialized,
}
OF_COMPUTED = {"carried": _computed_in_scan, "vmap of the index": _mapped_index}


def _checkified(f: Spelling, i: int, *, computed: bool, compiled: bool) -> bool:
    """Tell whether `checkify` reports an index."""
    if computed:
        checked = checkify.checkify(f, errors=checkify.index_checks)
        error, _ = (kiln.jit(checked) if compiled else checked)(X, i)
    else:
        checked = checkify.checkify(lambda x: f(x, i), errors=checkify.index_checks)
        error, _ = (kiln.jit(checked) if compiled else checked)(X)
    return error.get() is not None


def _stopped(f: Spelling, i: int, *, computed: bool) -> bool:
    """Tell whether a program that is compiled with checks raises."""
    error: Exception | None = None
    try:
        if computed:
            kiln.jit(f, check="index")(X, i)
        else:
            kiln.jit(lambda x: f(x, i), check="index")(X)
    except IndexError as raised:
        error = raised
    return error is not None and "out of bounds" in str(error)


def _wrong(
    spellings: dict[str, Spelling],
    places: dict[str, Callable[[Spelling], Spelling]],
    numbers: tuple[int, ...],
    *,
    computed: bool,
    by_checkify: bool | None = None,
    by_check: bool | None = None,
) -> list[Any]:
    """Return the spellings, places and numbers that are reported, or not, without reason.

    What is expected is that numbers outside are, unless another answer is given.
    """
    found = []
    for (spelling, f), (place, around), i in itertools.product(
        spellings.items(), places.items(), numbers
    ):
        outside = not -3 <= i < 3
        g = around(f)
        told = _checkified(g, i, computed=computed, compiled=True)
        if told != (outside if by_checkify is None else by_checkify):
            found.append((spelling, place, i, "checkify", told))
        stopped = _stopped(g, i, computed=computed)
        if stopped != (outside if by_check is None else by_check):
            found.append((spelling, place, i, "check", stopped))
    return found


FEW = ("x[i]", "x.at[i].set", "x[i, 0]", "dynamic_slice", "take")


@pytest.mark.parametrize("computed", [False, True])
def test_numbers_out_of_range_are_reported(computed: bool) -> None:
    few = {name: OF_ANY[name] for name in FEW}
    assert _wrong(few, {"alone": PLACES["alone"]}, (2, -3, 3, -4), computed=computed) == []
    one = {"x[i]": OF_ANY["x[i]"], "x.at[i].set": OF_ANY["x.at[i].set"]}
    some = {name: PLACES[name] for name in ("scan", "vmap", "grad")}
    assert _wrong(one, some, (-1, 9), computed=computed) == []


def test_what_eager_code_reports() -> None:
    for f, i in itertools.product((OF_ANY["x[i]"], OF_ANY["x.at[i].set"]), (0, -3, 3, -4)):
        told = _checkified(f, i, computed=False, compiled=False)
        assert told == (not -3 <= i < 3)


def test_an_index_of_two_axes_says_which() -> None:
    error, _ = checkify.checkify(lambda x: x[1, 3], errors=checkify.index_checks)(jnp.ones((2, 2)))
    assert "index 3 is out of bounds for axis 1 with size 2" in str(error.get())


def test_what_is_clipped_on_purpose_is_not_reported() -> None:
    for name in ("x.at[i].get(clip)", "x.at[i].set(clip)"):
        one = {name: ALWAYS_INSIDE[name]}
        for computed in (False, True):
            places = {"alone": PLACES["alone"]}
            assert (
                _wrong(one, places, (9,), computed=computed, by_checkify=False, by_check=False)
                == []
            )


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "nonzero": lambda x: jnp.nonzero(x > 2, size=5),
    "nonzero of few": lambda x: jnp.nonzero(x > 2, size=1),
    "where": lambda x: jnp.where(x > 2, size=5, fill_value=9),
    "argwhere": lambda x: jnp.argwhere(x > 2, size=5),
    "flatnonzero": lambda x: jnp.flatnonzero(x > 2, size=5, fill_value=-1),
    "compress": lambda x: jnp.compress(x > 2, x, size=5),
    "extract": lambda x: jnp.extract(x > 2, x, size=5, fill_value=7),
    "unique": lambda x: jnp.unique(x, size=9),
    "unique of few": lambda x: jnp.unique(x, size=2, return_counts=True),
    "union1d": lambda x: jnp.union1d(x, x[:2], size=6),
    "setdiff1d": lambda x: jnp.setdiff1d(x, x[:2], size=6),
    "intersect1d": lambda x: jnp.intersect1d(x, x[:2], size=6),
    "histogram": lambda x: jnp.histogram(x, 4, range=(1.5, 2.0))[0],
    "histogram2d": lambda x: jnp.histogram2d(x, x, 4, range=[(1.5, 2.0), (0.0, 1.0)])[0],
    "repeat": lambda x: jnp.repeat(x, jnp.array([1, 0, 2, 0, 1, 0]), total_repeat_length=6),
    "searchsorted": lambda x: jnp.searchsorted(jnp.sort(x), x + 9),
    "digitize": lambda x: jnp.digitize(x, jnp.array([1.0, 2.0])),
    "interp": lambda x: jnp.interp(x, jnp.array([1.0, 2.0]), jnp.array([1.0, 2.0])),
    "percentile": lambda x: jnp.percentile(x, 100),
    "median": lambda x: jnp.median(x),
    "top_k": lambda x: lax.top_k(x, 2),
    "argsort": lambda x: x[jnp.argsort(x)],
    "roll": lambda x: jnp.roll(x, jnp.int32(7)),
    "delete": lambda x: jnp.delete(x, 2),
    "insert": lambda x: jnp.insert(x, 6, 1.0),
    "choice": lambda x: kiln.random.choice(kiln.random.key(0), x, (3,), replace=False),
    "segment_sum": lambda x: kiln.ops.segment_sum(x, jnp.array([0, 0, 1, 1, 2, 2]), 3),
    "one_hot": lambda x: kiln.nn.one_hot(jnp.array([7, -1]), 3),
    "diag": lambda x: jnp.diag(jnp.diag(x, 2)),
}
"""Functions that do what they say of any values: nothing in them is out of range."""


def _out_of_range(functions: dict[str, Callable[[Any], Any]]) -> list[Any]:
    """Return the functions of which an index is reported, compiled or by `checkify`."""
    x = np.array([3, 1, 3, 2, 1, 5], np.float32)
    wrong: list[Any] = []
    for name, f in functions.items():
        expected = kiln.tree.leaves(kiln.jit(f)(x))
        error, outs = checkify.checkify(f, errors=checkify.index_checks)(x)
        if error.get() is not None:
            wrong.append((name, error.get()))
        np.testing.assert_array_equal(kiln.tree.leaves(outs)[0], expected[0], name)
        try:
            kiln.jit(f, check="index")(x)
        except IndexError as raised:
            wrong.append((name, str(raised)))
    return wrong


def test_functions_have_no_index_out_of_range() -> None:
    few = ("nonzero", "compress", "unique of few", "histogram")
    assert _out_of_range({name: FUNCTIONS[name] for name in few}) == []


@pytest.mark.full
def test_no_function_has_an_index_out_of_range() -> None:
    assert _out_of_range(FUNCTIONS) == []


def test_data_beyond_its_bins_is_reported() -> None:
    """As in JAX: the number of the bin is an index of the user's."""
    f = lambda x: jnp.bincount(x, length=3)
    error, _ = checkify.checkify(f, errors=checkify.index_checks)(jnp.array([1, 9]))
    assert "index 9 is out of bounds" in str(error.get())


def test_values_are_as_before() -> None:
    x = jnp.asarray(X)
    assert x[9].tolist() == X[2].tolist() == x[jnp.int32(9)].tolist()
    assert x[-9].tolist() == X[0].tolist()
    assert x.at[9].set(1.0).tolist() == X.tolist() == x.at[-4].set(1.0).tolist()
    assert x.at[9].set(1.0, mode="clip")[2].tolist() == [1.0, 1.0]
    assert np.isnan(x.at[9].get(mode="fill")).all()
    assert x.at[-1].get(mode="fill", wrap_negative_indices=False, fill_value=7.0).tolist() == [7, 7]
    assert x.at[9].get(mode="clip").tolist() == X[2].tolist()


@pytest.mark.full
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("computed", [False, True])
def test_every_spelling_in_every_place(place: str, computed: bool) -> None:
    places = {place: PLACES[place]}
    spellings = OF_ANY if computed else {**OF_ANY, **OF_NUMBERS}
    if place in ("grad", "checkpoint"):
        # The derivative of a minimum of equals is drawn from both; its index is the same.
        spellings = {name: f for name, f in spellings.items() if "apply" not in name}
    assert _wrong(spellings, places, INSIDE + OUTSIDE, computed=computed) == []


@pytest.mark.full
@pytest.mark.parametrize("place", OF_COMPUTED)
def test_every_spelling_of_what_a_loop_computes(place: str) -> None:
    places = {place: OF_COMPUTED[place]}
    assert _wrong(OF_ANY, places, INSIDE + OUTSIDE, computed=True) == []


@pytest.mark.full
def test_what_is_in_range_never_is() -> None:
    none = {"by_checkify": False, "by_check": False}
    for computed in (False, True):
        spellings = ALWAYS_INSIDE if computed else {**ALWAYS_INSIDE, **SLICES}
        assert _wrong(spellings, PLACES, INSIDE + OUTSIDE, computed=computed, **none) == []
        untaken = {"untaken": _untaken}
        assert _wrong(OF_ANY, untaken, OUTSIDE, computed=computed, **none) == []
