"""`x.at[index]` against NumPy's ufunc.at; what NumPy lacks is in `tests/differential`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from tests.structure.source_tree import KILN
from tests.unit.numpy.indexing.test_taking import C, M, X, environment, random_index, same

PARTS = [
    "x[1]",
    "x[-1]",
    "x[1:3]",
    "x[::2]",
    "x[::-1]",
    "x[...]",
    "x[None, 1]",
    "x[True]",
    "x[False]",
    "x[a([1, 1, 2])]",
    "x[a([[0, 1], [1, -1]])]",
    "x[x > 2]",
    "x[a(3)]",
    "x[2:2]",
    "m[1]",
    "m[:, 1]",
    "m[1:, ::-2]",
    "m[0, 1:3]",
    "m[a([0, 0])]",
    "m[a([0, 2]), 1:]",
    "m[::-1, a([0, 0])]",
    "m[a([0, 0]), a([1, 1])]",
    "m[a([0, 2]), None, a([1, 3])]",
    "m[m > 3]",
    "c[a([0, 1]), :, a([2, 2])]",
    "c[:, a([[0], [1]]), 1:3]",
    "c[0, :, a([2, 3])]",
    "c[1:, 0, ::2]",
]
Y = np.array([2.5, 0.5, 3.5], np.float32)
JOINED = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def index_of(part: str) -> tuple[Any, Any]:
    """Return the array a part is of, and the index, as NumPy's."""
    whole = {"x": X, "m": M, "c": C}[part[0]]
    names = environment(np, None)
    return whole, eval(f"s{part[1:]}", {**names, "s": np.s_})


@pytest.mark.parametrize("part", PARTS)
def test_updates_are_those_of_numpy(part: str) -> None:
    whole, index = index_of(part)
    array, inner = part.split("[", 1)
    rng = np.random.default_rng(0)
    values = rng.integers(1, 9, whole[index].shape).astype(whole.dtype)

    def fun(x: Any, m: Any, c: Any, values: Any) -> dict[str, Any]:
        names = {**environment(kiln, jnp), "x": x, "m": m, "c": c, "values": values}
        ways = ("set", *JOINED)
        return {how: eval(f"{array}.at[{inner}.{how}(values)", names) for how in ways}

    arrays = [jnp.array(v) for v in (X, M, C, values)]
    found = [fun(*arrays)]
    if ">" not in part:
        found.append(kiln.jit(fun)(*arrays))
    for how in ("set", *JOINED):
        wanted = whole.copy()
        if how == "set":
            wanted[index] = values
        else:
            JOINED[how].at(wanted, index, values)
        for outs in found:
            same(outs[how], wanted)


LOSSY = [
    ("c.at[0].set(1.5)", C[0] * 0 + 1),
    ("a([3]).at[0].mul(1.5)", 4),
    ("a([3]).at[a([0, 0])].add(a([0.75, 0.75]))", 4),
    ("a([1, 1], dtype='int8').at[0].set(a([300])[0])", 44),
    ("a([T, F]).at[0].set(3)", True),
]


@pytest.mark.parametrize(("expression", "wanted"), LOSSY, ids=[e[0] for e in LOSSY])
def test_values_that_do_not_fit_warn(expression: str, wanted: Any) -> None:
    with pytest.warns(FutureWarning, match="cannot safely cast value from dtype=") as caught:
        found = eval(expression, environment(kiln, jnp))
    assert not Path(caught[0].filename).is_relative_to(KILN)
    np.testing.assert_array_equal(found[0], wanted)


def test_values_that_fit_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jnp.array(X).at[0].set(1)
        jnp.array(X).at[0].set(np.float64(1))
        jnp.array(X).at[0].set(jnp.array([1, 2])[0])
        jnp.array(X).at[0].set(True)
        jnp.array([1], "int8").at[0].add(300)
        jnp.array([1], "bfloat16").at[0].set(2.5)


ERRORS = [
    ("x.at[0].set([1, 2])", ValueError, r"fewer dimensions: arr_shape=\(2,\) shape=\(\)"),
    ("x.at[:2].set(np.ones(3))", ValueError, "Incompatible types for broadcasting"),
    ("x.at[0].set('a')", TypeError, "str"),
    ("x.at[0].set(None)", ValueError, "None is not a valid value"),
    ("x.at[1, 2].set(1)", IndexError, "Too many indices"),
    ("x.at['a'].set(1)", TypeError, "string indexing"),
    ("x.at[[1]].set(1)", TypeError, "non-tuple sequence"),
    ("x.at[1.0].set(1)", TypeError, "integer or boolean type"),
    ("x.at[0].set(1, mode='foo')", ValueError, 'Unknown gather mode "foo"'),
    ("a([T, F]).at[0].add(True)", TypeError, "does not accept dtype bool"),
    ("a([T, F]).at[a([0])].multiply(True)", TypeError, "does not accept dtype bool"),
    ("x.at[0].nope(1)", AttributeError, "nope"),
    ("x.at[0] + 1", TypeError, "unsupported operand"),
]


@pytest.mark.parametrize(("expression", "kind", "phrase"), ERRORS, ids=[e[0] for e in ERRORS])
def test_errors(expression: str, kind: type[Exception], phrase: str) -> None:
    with pytest.raises(kind, match=phrase):
        eval(expression, environment(kiln, jnp))


def test_assignment_says_what_to_write() -> None:
    with pytest.raises(TypeError, match=r"immutable(?s:.*)\.at\["):
        jnp.array(X)[0] = 1
    with pytest.raises(TypeError, match=r"immutable(?s:.*)\.at\["):
        kiln.jit(lambda x: x.__setitem__(0, 1))(X)


DERIVATIVES = [
    "x.at[1].set(y[0])",
    "x.at[1:3].set(y[:2])",
    "x.at[1:3].multiply(y[:2])",
    "x.at[i].set(y[0])",
    "x.at[a([1, 1, 2])].set(y)",
    "x.at[a([1, 1, 2])].add(y)",
    "x.at[a([1, 9, 2])].add(y)",
    "x.at[a([1, 1, 2])].max(y)",
    "x.at[i].multiply(y[1])",
    "x.at[a([1, 0, 2])].multiply(y, unique_indices=True)",
    "x.at[1].divide(y[0])",
    "x.at[::-2].subtract(y)",
]


@pytest.mark.parametrize("expression", [*DERIVATIVES, "m.at[i, a([0, 1])].add(y[:2])"])
def test_mapped_updates(expression: str) -> None:
    names = environment(kiln, jnp)
    rng = np.random.default_rng(0)
    y = rng.normal(size=(2, 3)).astype(np.float32)
    stacks = [np.stack([X, X + 1]), np.stack([M, M + 1]), y, np.array([2, -1], np.int32)]

    def fun(x: Any, m: Any, y: Any, i: Any) -> Any:
        return eval(expression, {**names, "x": x, "m": m, "y": y, "i": i})

    for axes in ((0, 0, 0, 0), (None, None, 0, None), (0, 0, None, None), (None, None, None, 0)):
        args = [
            jnp.array(stack if at == 0 else stack[0])
            for stack, at in zip(stacks, axes, strict=True)
        ]
        found = kiln.vmap(fun, axes)(*args)
        for k in range(2):
            each = [v if at is None else v[k] for v, at in zip(args, axes, strict=True)]
            np.testing.assert_allclose(found[k], fun(*each), rtol=1e-5)


def test_a_random_index_writes_what_numpy_writes() -> None:
    rng = np.random.default_rng(1)
    for _ in range(250):
        shape = tuple(int(s) for s in rng.integers(1, 4, int(rng.integers(1, 4))))
        x = rng.integers(0, 9, shape).astype(np.float32)
        index = random_index(rng, shape)
        try:
            part = x[index]
        except IndexError:
            continue
        values = rng.integers(1, 9, part.shape).astype(np.float32)
        wanted = x.copy()
        wanted[index] = values
        same(jnp.array(x).at[index].set(values), wanted)
        for how, ufunc in JOINED.items():
            wanted = x.copy()
            ufunc.at(wanted, index, values)
            same(getattr(jnp.array(x).at[index], how)(values), wanted)


@pytest.mark.parametrize("mode", [None, "clip", "drop"])
def test_a_traced_index_beside_a_slice_that_begins_within(mode: str | None) -> None:
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    row = kiln.jit(lambda x, i: x.at[i, 1:].set(9.0, mode=mode))(x, 1)
    assert row.tolist() == [[0, 1, 2], [3, 9, 9]]
    column = kiln.jit(lambda x, i: x.at[1:, i].add(9.0, mode=mode))(x, 0)
    assert column.tolist() == [[0, 1, 2], [12, 4, 5]]
