"""`x[index]` and indexing functions, against NumPy.

An expression is text, evaluated by each library with its own `x`, `m`, `c`, and `a` for its arrays.
Updates are in `test_updates.py`; what differs from NumPy is in `tests/differential`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.core.arrays.array import from_host

X = np.arange(5, dtype=np.float32)
M = np.arange(12, dtype=np.float32).reshape(3, 4)
C = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
T, F = True, False

READS = [
    # Ints, slices, new axes, ellipses.
    "x[0]",
    "x[-1]",
    "x[np.int8(2)]",
    "x[()]",
    "x[...]",
    "x[None]",
    "x[:, None]",
    "x[None, ..., None]",
    "x[1:]",
    "x[:-1]",
    "x[::2]",
    "x[1:4:2]",
    "x[::-1]",
    "x[::-2]",
    "x[3:0:-1]",
    "x[4:1:-2]",
    "x[2:2]",
    "x[9:]",
    "x[-99:99]",
    "x[3:1]",
    "x[np.int64(1):np.uint8(3)]",
    "m[1]",
    "m[1, 2]",
    "m[-1, ::-1]",
    "m[:, 1]",
    "m[..., 0]",
    "m[0, ...]",
    "m[1, ..., 2]",
    "m[None, 1, None, 2:]",
    "m[1:, 1:3]",
    "m[::-1, ::-1]",
    "c[1, 2, 3]",
    "c[1, :, 3]",
    "c[:, 1]",
    "c[..., -1]",
    "c[1:, ..., ::2]",
    "c[0, None, 1]",
    # Index arrays.
    "x[a([1, 1, 2])]",
    "x[a([-1, 0])]",
    "x[a([[0, 1], [2, 3]])]",
    "x[a(2)]",
    "x[a([], dtype='int32')]",
    "x[np.array([0, 3])]",
    "x[a([0, 3], dtype='int8')]",
    "x[a([0, 3], dtype='uint16')]",
    "m[a([0, 2])]",
    "m[a([0, 2]), 1]",
    "m[1, a([0, 2])]",
    "m[a([0, 2]), a([1, 3])]",
    "m[a([[0], [2]]), a([1, 3])]",
    "m[:, a([1, 1])]",
    "m[1:, a([1, 1])]",
    "m[::-1, a([1, 1])]",
    "m[a([1, 1]), ::-2]",
    "m[a([1, 1]), None]",
    "m[None, a([1, 1])]",
    "m[..., a([1, 1])]",
    "m[a(1), a([0, 2])]",
    "c[a([0, 1]), :, a([2, 3])]",
    "c[0, :, a([2, 3])]",
    "c[:, 0, a([2, 3])]",
    "c[a([0, 1]), 0, :]",
    "c[a([0, 1]), ..., 0]",
    "c[:, a([[0, 1], [2, 3]]), 1:3]",
    "c[a([0, 1]), None, a([2, 3])]",
    "c[a([0, 1]), a([2, 3]), None]",
    "c[:, a([0, 1]), a([[2], [3]])]",
    "c[1:, a([0, 1]), ::-1]",
    "c[a([0, 1])][:, a([0])]",
    "x[a([0, 1]), ...]",
    "m[a([0, 1]), ..., a([0, 1])]",
    "m[(0, [1, 2])]",
    # Masks.
    "x[a([T, F, T, F, F])]",
    "x[x > 2]",
    "m[m > 3]",
    "m[a([T, F, T])]",
    "m[a([T, F, T]), 1]",
    "m[:, a([T, F, T, T])]",
    "m[a([T, F, T]), a([0, 1])]",
    "m[a([T, F, T]), a([T, T, F, F])]",
    "c[a([[T, F, T, F]] * 3)]",
    "c[:, a([T, F, T, F]), 0]",
    "c[a([T, F, F]), :, a([0, 2])]",
    "c[a([F, F, F])]",
    "x[True]",
    "x[False]",
    "x[a(True)]",
    "m[1, True]",
    "m[True, 1]",
    "m[:, False]",
    "m[None, True, a([0, 1])]",
    # Empty axes.
    "m[:0]",
    "m[:0, 1]",
    "m[:0][a([], dtype='int32')]",
    "m[:, :0][a([0, 1])]",
]


def environment(library: Any, module: Any) -> dict[str, Any]:
    if library is np:
        arrays = {"x": X, "m": M, "c": C}
        return {**arrays, "a": np.asarray, "np": np, "T": T, "F": F}
    arrays = {"x": module.array(X), "m": module.array(M), "c": module.array(C)}
    return {**arrays, "a": module.asarray, "np": np, "T": T, "F": F, "jnp": module}


def same(found: Any, wanted: Any) -> None:
    assert found.shape == wanted.shape
    assert str(found.dtype) == str(wanted.dtype)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


@pytest.mark.parametrize("expression", READS)
def test_reads_are_those_of_numpy(expression: str) -> None:
    same(eval(expression, environment(kiln, jnp)), eval(expression, environment(np, None)))


@pytest.mark.parametrize("expression", READS)
def test_compiled_reads_are_those_of_numpy(expression: str) -> None:
    wanted = eval(expression, environment(np, None))
    names = environment(kiln, jnp)
    if "x > 2" in expression or "m > 3" in expression:
        names["mask"] = {"x": X > 2, "m": M > 3}[expression[0]]
        expression = f"{expression[0]}[mask]"

    def fun(x: Any, m: Any, c: Any) -> Any:
        return eval(expression, {**names, "x": x, "m": m, "c": c})

    same(kiln.jit(fun)(X, M, C), wanted)


TRACED = ["x[i]", "m[i]", "m[:, i]", "m[i, j]", "c[i, 1:, j]", "m[i, None]", "c[i, ::-1]"]


@pytest.mark.parametrize("expression", [*TRACED, "c[i, a([0, 1])]", "c[a([0, 1]), :, i]"])
def test_traced_scalars(expression: str) -> None:
    names = environment(kiln, jnp)
    for i, j in ((1, 2), (-1, -2), (0, 0)):
        wanted = eval(expression, {**environment(np, None), "i": i, "j": j})

        def fun(x: Any, m: Any, c: Any, i: Any, j: Any) -> Any:
            return eval(expression, {**names, "x": x, "m": m, "c": c, "i": i, "j": j})

        same(kiln.jit(fun)(X, M, C, i, j), wanted)
        same(kiln.jit(fun)(X, M, C, np.int8(i), np.int32(j)), wanted)
        same(fun(*map(jnp.array, (X, M, C)), jnp.array(i), jnp.array(j)), wanted)


def primitives(fun: Any, *args: Any) -> set[str]:
    return {eqn.primitive.name for eqn in kiln.make_jaxpr(fun)(*args).eqns}


def test_static_indices_are_slices() -> None:
    assert primitives(lambda x: x[1], X) == {"slice", "squeeze"}
    assert primitives(lambda x: x[1:3], X) == {"slice"}
    assert primitives(lambda x: x[::-1], X) == {"rev"}
    assert primitives(lambda x: x[::-2], X) == {"slice", "rev"}
    assert primitives(lambda m: m[1, ::2, None], M) == {"slice", "squeeze", "broadcast_in_dim"}
    assert primitives(lambda x: x[...], X) == set()
    assert primitives(lambda x: x[:], X) == set()


def test_traced_scalars_are_dynamic_slices() -> None:
    found = primitives(lambda x, i: x[i], X, 1)
    assert "dynamic_slice" in found and "gather" not in found
    assert primitives(lambda x: x[jnp.array(1)], X) == {"dynamic_slice", "squeeze"}
    found = primitives(lambda m, i, j: m[i, j], M, 1, 1)
    assert "dynamic_slice" in found and "gather" not in found
    assert "gather" in primitives(lambda x, i: x[i], X, np.array([1, 2]))


def test_static_updates_are_no_scatters() -> None:
    assert primitives(lambda x: x.at[1].set(0.0), X) == {"dynamic_update_slice", "reshape"}
    assert primitives(lambda x: x.at[...].add(1.0), X) <= {"broadcast_in_dim", "add"}
    assert "scatter" in primitives(lambda x, i: x.at[i].set(0.0), X, 1)
    assert "scatter-add" in primitives(lambda x, i: x.at[i].add(0.0), X, 1)


ERRORS = [
    ("x[[1, 2]]", TypeError, r"Using a non-tuple sequence .* use `arr\[array\(seq\)\]`"),
    ("x[[0, None]]", TypeError, r"use `arr\[tuple\(seq\)\]`"),
    ("x[[0, [0, 1]]]", TypeError, r"use `arr\[tuple\(seq\)\]`"),
    ("x['a']", TypeError, "string indexing"),
    ("m[0, 'a']", TypeError, "string indexing"),
    ("x[1.0]", TypeError, "must have integer or boolean type, got indexer with type float64"),
    ("x[a([1.0])]", TypeError, "must have integer or boolean type.* float32"),
    ("x[1j]", TypeError, "must have integer or boolean type"),
    ("m[1, 2, 3]", IndexError, "Too many indices: array is 2-dimensional, but 3 were indexed"),
    ("m[..., ...]", IndexError, "an index can only have a single ellipsis"),
    ("a(1.0)[0]", IndexError, "Too many indices: array is 0-dimensional, but 1"),
    ("x[object()]", IndexError, "only integers, slices"),
    ("x[{1}]", IndexError, "only integers, slices"),
    ("m[a([T, F])]", IndexError, r"boolean index did not match .*got \(2,\), expected \[3\]"),
    ("x[1.0:2]", TypeError, "'float' object cannot be interpreted as an integer"),
    ("x[::0]", ValueError, "slice step cannot be zero"),
    ("m[:0][0]", IndexError, "index is out of bounds for axis 0 with size 0"),
    ("m[:, :0][0, a([0])]", TypeError, "Slice size at index 0"),
    ("m[a([0, 1]), a([0, 1, 2])]", ValueError, r"Incompatible shapes.*\(2,\), \(3,\)"),
]


@pytest.mark.parametrize(("expression", "kind", "phrase"), ERRORS, ids=[e[0] for e in ERRORS])
def test_errors(expression: str, kind: type[Exception], phrase: str) -> None:
    with pytest.raises(kind, match=phrase):
        eval(expression, environment(kiln, jnp))


def test_a_traced_mask_is_refused_with_a_remedy() -> None:
    errors = kiln.errors
    with pytest.raises(errors.NonConcreteBooleanIndexError, match=r"bool\[3\]") as caught:
        kiln.jit(lambda x: x[x > 2])(np.ones(3, np.float32))
    assert isinstance(caught.value, IndexError) and "where" in str(caught.value)
    with pytest.raises(errors.NonConcreteBooleanIndexError, match=r"bool\[\]"):
        kiln.jit(lambda x, flag: x[flag])(X, True)
    with pytest.raises(errors.NonConcreteBooleanIndexError, match=r"bool\[5\]"):
        kiln.jit(lambda x: x.at[x > 2].set(0))(X)
    # A mask that is known while tracing is a constant.
    same(kiln.jit(lambda x: x[jnp.array(X > 2)])(X), X[X > 2])
    # Under grad alone, values are known.
    same(kiln.grad(lambda x: x[x > 2].sum())(jnp.array(X)), (X > 2).astype(np.float32))


def test_a_traced_bound_is_refused_with_a_remedy() -> None:
    for fun in (lambda x, n: x[:n], lambda x, n: x[n:], lambda x, n: x[::n]):
        with pytest.raises(IndexError, match="static") as caught:
            kiln.jit(fun)(X, 3)
        assert "dynamic_slice" in str(caught.value)
    same(kiln.grad(lambda n: jnp.array(X)[: int(n)].sum() * n)(3.0), np.float32(3))


@pytest.mark.parametrize("name", ["nonzero", "argwhere", "flatnonzero", "where"])
def test_data_dependent_sizes_ask_for_size(name: str) -> None:
    with pytest.raises(kiln.errors.ConcretizationTypeError, match="size"):
        kiln.jit(lambda x: getattr(jnp, name)(x))(X)


FUNCTIONS = [
    "jnp.take(x, a([0, -1]))",
    "jnp.take(m, a([[0, 1], [2, 3]]), axis=1)",
    "jnp.take(m, a([0, 30, -30]), mode='clip')",
    "jnp.take(m, a([0, 30, -30]), mode='wrap')",
    "jnp.take(c, 1, axis=-1)",
    "jnp.take_along_axis(m, a([[0, 1], [2, 3], [-1, -2]]), 1)",
    "jnp.take_along_axis(m, a([[0, 1, 1, 2]]), 0)",
    "jnp.take_along_axis(c, a([[[1]], [[0]], [[2]]]), 1)",
    "jnp.choose(a([0, 1, 0]), [a([1, 2, 3]), a([4, 5, 6])])",
    "jnp.choose(a([0, -1, 3]), [a([1, 2, 3]), a([4, 5, 6])], mode='clip')",
    "jnp.choose(a([0, -1, 3]), [a([1, 2, 3]), a([4, 5, 6])], mode='wrap')",
    "jnp.diag_indices(3, 3)",
    "jnp.diag_indices_from(c[:, :3, :3])",
    "jnp.tril_indices(3, -1)",
    "jnp.triu_indices(3, 1, 4)",
    "jnp.tril_indices_from(m, 1)",
    "jnp.triu_indices_from(m)",
    "jnp.ix_(a([0, 1]), a([2, 3, 4]))",
    "jnp.ix_(a([T, F, T]), a([2, 3]))",
    "jnp.unravel_index(a([5, 11]), (3, 4))",
    "jnp.ravel_multi_index((a([1, 2]), a([3, 0])), (3, 4))",
    "jnp.ravel_multi_index((a([1, 5]), a([3, -1])), (3, 4), mode='clip')",
    "jnp.ravel_multi_index((a([1, 5]), a([3, -1])), (3, 4), mode='wrap', order='F')",
    "jnp.nonzero(a([[1, 0], [0, 2]]))",
    "jnp.argwhere(m > 5)",
    "jnp.argwhere(a(1.0))",
    "jnp.flatnonzero(m)",
    "jnp.extract(m > 2, m)",
    "jnp.compress(a([T, F, T]), m, axis=0)",
    "jnp.compress(a([T, F, T]), m, axis=-1)",
    "jnp.compress(a([T, F, T]), m)",
]


@pytest.mark.parametrize("expression", FUNCTIONS)
def test_functions_are_those_of_numpy(expression: str) -> None:
    wanted = eval(expression, {**environment(np, None), "jnp": np})
    found = eval(expression, environment(kiln, jnp))
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
    for ours, theirs in pairs:
        narrow = np.asarray(theirs)
        same(ours, narrow.astype(np.int32) if narrow.dtype == np.int64 else narrow)


FUNCTION_ERRORS = [
    ("jnp.take(x, [0, 1])", TypeError, "take requires ndarray or scalar arguments"),
    ("jnp.take(x, 0, mode='raise')", NotImplementedError, "'raise' mode to kiln.numpy.take"),
    ("jnp.take(x, 0, out=x)", NotImplementedError, "'out' argument"),
    ("jnp.take(m, 1.0)", ValueError, "indices must have an integer type"),
    ("jnp.take(m, 0, axis=2)", ValueError, "axis 2 is out of bounds"),
    ("jnp.take(x[:0], 0)", IndexError, "Cannot do a non-empty"),
    ("jnp.take_along_axis(m, a([0, 1]), 1)", ValueError, "must have the same number of dimensions"),
    ("jnp.take_along_axis(m, a([[0.0]]), 1)", TypeError, "must be of integer type, got float32"),
    ("jnp.take_along_axis(m, a([[0, 1]]), 0)", ValueError, "Incompatible shapes"),
    ("jnp.put(x, 0, 1)", ValueError, "Pass inplace=False"),
    ("jnp.put_along_axis(m, a([[0]]), 1, 0)", ValueError, "Pass inplace=False"),
    ("jnp.choose(a([0, 3]), [a([1, 2]), a([4, 5])])", ValueError, "invalid entry in choice array"),
    ("jnp.diag_indices(-1)", ValueError, "n argument to diag_indices must be nonnegative, got -1"),
    ("jnp.diag_indices_from(m)", ValueError, "must be of equal length"),
    ("jnp.ix_(m)", ValueError, "must be 1-dimensional"),
    ("jnp.ravel_multi_index((a([5]), a([0])), (3, 4))", ValueError, "invalid entry in coordinates"),
    ("jnp.nonzero(a(1.0))", ValueError, "0d arrays is not allowed"),
    ("jnp.nonzero([1, 0])", TypeError, "nonzero requires ndarray"),
    ("jnp.nonzero(m, size=1, fill_value=(1, 2, 3))", ValueError, "tuple of length 2"),
    ("jnp.fill_diagonal(m, 1)", NotImplementedError, "must use inplace=False"),
    ("jnp.fill_diagonal(x, 1, inplace=False)", ValueError, "at least 2-d"),
    ("jnp.place(x, x > 2, a([]), inplace=False)", ValueError, "from an empty array"),
]


@pytest.mark.parametrize(
    ("expression", "kind", "phrase"), FUNCTION_ERRORS, ids=[e[0] for e in FUNCTION_ERRORS]
)
def test_errors_of_functions(expression: str, kind: type[Exception], phrase: str) -> None:
    with pytest.raises(kind, match=phrase):
        eval(expression, environment(kiln, jnp))


def test_checks_that_need_values_are_refused_under_jit() -> None:
    with pytest.raises(kiln.errors.ConcretizationTypeError, match="mode='wrap'"):
        kiln.jit(lambda i: jnp.choose(i, [1, 2]))(np.array([0, 1]))
    with pytest.raises(kiln.errors.ConcretizationTypeError, match="mode='clip'"):
        kiln.jit(lambda i: jnp.ravel_multi_index((i, i), (3, 4)))(1)


def test_nonzero_with_a_size_is_traced() -> None:
    stack = np.array([[1, 0, 2], [0, 0, 0], [3, 4, 5]], np.float32)

    def places(row: Any) -> Any:
        return jnp.nonzero(row, size=2, fill_value=-1)[0]

    wanted = [[0, 2], [-1, -1], [0, 1]]
    np.testing.assert_array_equal(kiln.vmap(places)(stack), wanted)
    np.testing.assert_array_equal(kiln.jit(kiln.vmap(places))(stack), wanted)
    found = kiln.jit(lambda m: jnp.nonzero(m > 3, size=9))(M)
    for ours, theirs in zip(found, np.nonzero(M > 3), strict=True):
        np.testing.assert_array_equal(np.asarray(ours)[: theirs.size], theirs)


DERIVATIVES = [
    "x[1:4]",
    "x[::-2]",
    "x[-1]",
    "x[a([1, 1, 9])]",
    "x[i]",
    "m[i, a([0, 1])]",
    "m[a([0, 0]), ::2]",
    "x.at[a([0, 0, 9])].get(mode='fill', fill_value=0)",
    "jnp.take(x, a([1, 1]))",
    "jnp.take_along_axis(m, a([[0], [1], [1]]), 1)",
    "m[i][None, 1:]",
]


@pytest.mark.parametrize("expression", [*TRACED, *DERIVATIVES, "c[:, i, a([0, 1])]"])
def test_mapped_indices_and_operands(expression: str) -> None:
    names = environment(kiln, jnp)
    stacks = [np.stack([v, v + 1]) for v in (X, M, C)]
    indices = np.array([2, -1], np.int32)

    def fun(x: Any, m: Any, c: Any, i: Any) -> Any:
        return eval(expression, {**names, "x": x, "m": m, "c": c, "i": i, "j": i})

    for axes in ((0, 0, 0, 0), (0, 0, 0, None), (None, None, None, 0)):
        args = [
            jnp.array(stack if at == 0 else stack[0])
            for stack, at in zip([*stacks, indices], axes, strict=True)
        ]
        found = kiln.vmap(fun, axes)(*args)
        for k in range(2):
            each = [v if at is None else v[k] for v, at in zip(args, axes, strict=True)]
            same(found[k], fun(*each))


def test_a_random_index_reads_what_numpy_reads() -> None:
    rng = np.random.default_rng(0)
    for _ in range(400):
        shape = tuple(int(s) for s in rng.integers(1, 5, int(rng.integers(1, 5))))
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        index = random_index(rng, shape)
        try:
            wanted = x[index]
        except IndexError:
            with pytest.raises((IndexError, ValueError)):
                from_host(x)[index]
            continue
        same(from_host(x)[index], wanted)


def random_index(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Draw an index of at most one entry for each axis, with new axes and an ellipsis between."""
    count = int(rng.integers(0, len(shape) + 1))
    dots = int(rng.integers(0, count + 1)) if rng.random() < 0.4 else None
    axes = list(range(count))
    if dots is not None:
        axes = [*range(dots), *range(len(shape) - count + dots, len(shape))]
    out: list[Any] = []
    for place, axis in enumerate(axes):
        if place == dots:
            out.append(Ellipsis)
        if rng.random() < 0.15:
            out.append(None)
        if rng.random() < 0.05:
            out.append(bool(rng.random() < 0.7))
        out.append(random_entry(rng, shape[axis]))
    if dots == count:
        out.append(Ellipsis)
    return tuple(out)


def random_entry(rng: np.random.Generator, size: int) -> Any:
    kind = rng.integers(0, 6)
    if kind == 0:
        return int(rng.integers(-size, size))
    if kind == 1:
        bounds = [None if rng.random() < 0.4 else int(rng.integers(-6, 7)) for _ in range(2)]
        return slice(*bounds, [None, 1, 2, 3, -1, -2][rng.integers(0, 6)])
    if kind == 2:
        return slice(None)
    if kind == 3:
        return rng.random(size) < 0.5
    shape = [(), (3,), (2, 3), (1,), (2, 1), (0,)][rng.integers(0, 6)]
    return rng.integers(-size, size, shape).astype(["int32", "int8", "int64"][rng.integers(0, 3)])


def test_what_is_updated_by_index_is_not_iterated_over() -> None:
    with pytest.raises(TypeError, match="not iterable"):
        list(jnp.arange(3).at)


def test_a_position_out_of_bounds_selects_nothing_of_a_sum_over_all() -> None:
    x = jnp.arange(1.0, 7).reshape(2, 3)
    at = jnp.array([[0, 5], [-1, -9]])
    found = jnp.take_along_axis(x, at, 1, mode="one_hot")
    assert found.tolist() == [[1, 0], [6, 0]]


def test_no_element_is_taken_along_an_axis_without_any() -> None:
    x = jnp.ones((4, 0, 3), np.int32)
    assert jnp.take_along_axis(x, x, axis=1).shape == (4, 0, 3)
    assert jnp.take_along_axis(x, jnp.zeros((4, 2, 3), np.int32), axis=1).shape == (4, 2, 3)
