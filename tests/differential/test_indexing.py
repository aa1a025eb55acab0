"""`x[index]`, `x.at[index]` and indexing functions give jax's values, dtypes and errors.

A case is an expression as text, evaluated with a library's own arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kiln
import kiln.numpy
from kiln.base.options.config import override
from tests.differential.oracle import Case, Topic
from tests.unit.numpy.indexing import test_taking as reading
from tests.unit.numpy.indexing import test_updates as writing

# jax reads other elements here than NumPy and kiln do.
NUMPY_ONLY = {"m[None, True, a([0, 1])]"}
Y = writing.Y

OUTSIDE = [
    "x[9]",
    "x[-9]",
    "m[1, 9]",
    "m[-9]",
    "x[a([9, -9, -1])]",
    "m[a([9, -9]), 1]",
    "m[a([0, 9]), a([9, -9])]",
    "m[1, a([9, -9])]",
    "m[9, a([0, 1])]",
    "x[a(9)]",
    "m[a(9), a(-9)]",
    "c[:, a([9, 0]), 1:]",
    "m[a([9, 0]), ::-1]",
]

OPTIONS = [
    "mode='clip'",
    "mode='fill'",
    "mode='fill', fill_value=7",
    "mode='promise_in_bounds'",
    "fill_value=7",
    "wrap_negative_indices=False",
    "mode='fill', wrap_negative_indices=False",
]
FUNCTIONS = [
    "jnp.take(x, -1)",
    "jnp.take(x, 9)",
    "jnp.take(x, a([0, 9, -9]))",
    "jnp.take(x, a([0, 9, -9]), mode='clip')",
    "jnp.take(x, a([0, 9, -9]), mode='wrap')",
    "jnp.take(x, a([0, 9]), fill_value=4)",
    "jnp.take(m, a([[0, 1], [2, 7]]), axis=1)",
    "jnp.take(m, a([5, 13]))",
    "jnp.take(m, 1, axis=-1)",
    "jnp.take(c, a([0, 9]), 0)",
    "jnp.take(m[:0], a([], dtype='int32'), axis=0)",
    "jnp.take_along_axis(m, a([[0, 1], [2, 7], [-1, -9]]), 1)",
    "jnp.take_along_axis(m, a([[0, 1], [2, 7], [-1, -9]]), 1, mode='clip')",
    "jnp.take_along_axis(m, a([[0, 1]]), 1)",
    "jnp.take_along_axis(m, a([[0, 1, 1, 2]]), 0)",
    "jnp.take_along_axis(m, a([0, 5]), None)",
    "jnp.take_along_axis(m, a([[0, 1]], dtype='uint8'), 1)",
    "jnp.take_along_axis(m, a([[0, 9]]), 1, mode='fill', fill_value=3)",
    "jnp.take_along_axis(c, a([[[1]], [[0]], [[2]]]), 1)",
    "jnp.put(x, a([0, 7, -1]), 1, inplace=False)",
    "jnp.put(m, a([0, 7, -1]), a([10, 20]), inplace=False)",
    "jnp.put(x, a([0, 7, -9]), 1, mode='clip', inplace=False)",
    "jnp.put(x, a([0, 7]), 1, mode='wrap', inplace=False)",
    "jnp.put_along_axis(m, a([[0], [1], [2]]), 9.0, 1, inplace=False)",
    "jnp.put_along_axis(m, a([[0, 1, 1, 2]]), 9.0, 0, inplace=False)",
    "jnp.put_along_axis(m, a([0, 5]), 9.0, None, inplace=False)",
    "jnp.choose(a([0, 1, 0]), [a([1, 2, 3]), a([4, 5, 6])])",
    "jnp.choose(a([0, -1, 3]), [a([1, 2, 3]), a([4, 5, 6])], mode='clip')",
    "jnp.choose(a([0, -1, 3]), [a([1, 2, 3]), a([4, 5, 6])], mode='wrap')",
    "jnp.choose(a([[0], [1]]), [1.0, a([0, 1, 2])], mode='clip')",
    "jnp.diag_indices(3, 3)",
    "jnp.diag_indices_from(c[:, :3, :3])",
    "jnp.tril_indices(3, -1)",
    "jnp.triu_indices(3, 1, 4)",
    "jnp.tril_indices_from(m, 1)",
    "jnp.triu_indices_from(m)",
    "jnp.ix_(a([0, 1]), a([2, 3, 4]))",
    "jnp.unravel_index(a([5, 11, -1, 50, -50]), (3, 4))",
    "jnp.unravel_index(5, (3, 4))",
    "jnp.unravel_index(a([1]), 4)",
    "jnp.ravel_multi_index((a([1, 2]), a([3, 0])), (3, 4))",
    "jnp.ravel_multi_index((a([1, 5]), a([3, -1])), (3, 4), mode='clip')",
    "jnp.ravel_multi_index((a([1, 5]), a([3, -1])), (3, 4), mode='wrap', order='F')",
    "jnp.ravel_multi_index((1, 2), (3, 4))",
    "jnp.nonzero(a([[1, 0], [0, 2]]))",
    "jnp.nonzero(a([1, 0, 2]), size=4)",
    "jnp.nonzero(a([1, 0, 2]), size=1)",
    "jnp.nonzero(a([1, 0, 2]), size=4, fill_value=-1)",
    "jnp.nonzero(a([[1, 0], [0, 2]]), size=4, fill_value=(7, 8))",
    "jnp.nonzero(m[:0], size=2)",
    "jnp.nonzero(m, size=0)",
    "jnp.nonzero(c > 20, size=9)",
    "jnp.argwhere(a([[1, 0], [0, 2]]))",
    "jnp.argwhere(a([[1, 0], [0, 2]]), size=3, fill_value=9)",
    "jnp.argwhere(a(1.0))",
    "jnp.argwhere(a(0.0))",
    "jnp.flatnonzero(a([[1, 0], [0, 2]]), size=3)",
    "jnp.extract(x > 2, x)",
    "jnp.extract(x > 2, x, size=4, fill_value=7)",
    "jnp.compress(a([T, F, T]), m, axis=0)",
    "jnp.compress(a([T, F, T]), m, axis=1)",
    "jnp.compress(a([T, F, T]), m)",
    "jnp.compress(a([T, F, T]), m, axis=0, size=3, fill_value=9)",
    "jnp.mask_indices(3, jnp.triu)",
    "jnp.fill_diagonal(m, 1, inplace=False)",
    "jnp.fill_diagonal(m, a([1, 2]), inplace=False)",
    "jnp.fill_diagonal(c[:3, :3, :3], 1, inplace=False)",
    "jnp.place(x, x > 2, a([9, 8, 7]), inplace=False)",
    "jnp.place(m, m > 2, a([9, 8]), inplace=False)",
]

UPDATES = [
    # Places outside, in all modes.
    "x.at[9].set(1)",
    "x.at[-9].set(1)",
    "x.at[a([9, -9, -1])].set(1)",
    "x.at[a([9, -9, -1])].add(1)",
    "x.at[9].set(1, mode='clip')",
    "x.at[-9].add(1, mode='clip')",
    "x.at[9].set(1, mode='drop')",
    "x.at[9].set(1, mode='fill')",
    "x.at[9].set(1, mode='promise_in_bounds')",
    "x.at[a([9, -9])].multiply(3, mode='clip')",
    "x.at[a([9, -9])].max(30, mode='clip')",
    "x.at[-1].set(9, wrap_negative_indices=False)",
    "x.at[a([-1, 1])].set(9, wrap_negative_indices=False)",
    "m.at[1, 9].set(1)",
    "m.at[9, 1:].set(1)",
    "m.at[a([0, 9]), 1:].set(1)",
    "m.at[a([0, 9]), 1:].add(1, mode='clip')",
    # Values that are broadcast, converted, or given as lists.
    "x.at[:2].set([1, 2])",
    "m.at[1].set(a([1.0, 2, 3, 4]))",
    "m.at[:, a([0, 1])].set(a([1.0, 2]))",
    "m.at[1:].add(a([[1.0], [2.0]]))",
    "m.at[m > 3].set(a(np.arange(8.0)))",
    "x.at[0].set(np.float64(3))",
    "x.at[0].set(a(3))",
    "c.at[0].set(True)",
    "a([T, F]).at[1].set(True)",
    "a([1, 1], dtype='int8').at[0].set(300)",
    "a([1, 1], dtype='uint8').at[0].add(-1)",
    "a([1, 1], dtype='uint8').at[0].subtract(2)",
    "a(1.0).at[()].set(3)",
    "a(1).at[()].add(3)",
    "a([1j, 2]).at[a([0, 0])].multiply(2j)",
    # The rest of the methods.
    "x.at[1:3].divide(2)",
    "x.at[a([1, 1])].divide(2)",
    "c.at[1].divide(2)",
    "x.at[1:3].power(2)",
    "x.at[a([2, 2])].power(2)",
    "c.at[a([1])].power(2)",
    "x.at[1:3].mul(2)",
    "x.at[0].apply(jnp.cos)",
    "x.at[1:3].apply(jnp.cos)",
    "x.at[a([1, 1, 2])].apply(lambda v: v * 2 + 1)",
    "x.at[a([1, 9])].apply(lambda v: v * 2 + 1)",
    "c.at[a([0, 0]), 1].apply(lambda v: v + 1)",
]


def value(expression: str) -> Any:
    return lambda library: eval(expression, reading.environment(library, library.numpy))


def gradient(expression: str) -> Any:
    def run(library: Any) -> Any:
        names = reading.environment(library, library.numpy)

        def loss(x: Any, m: Any, y: Any, i: Any) -> Any:
            out = eval(expression, {**names, "x": x, "m": m, "y": y, "i": i})
            return (library.numpy.sin(out) * out).sum()

        operands = [library.numpy.array(v) for v in (reading.X, reading.M, Y)]
        return library.jit(library.grad(loss, (0, 1, 2)))(*operands, 2)

    return run


def cases() -> Iterator[Case]:
    for expression in reading.READS:
        if expression not in NUMPY_ONLY:
            yield Case("reads", expression, value(expression))
    for expression in OUTSIDE:
        yield Case("outside", expression, value(expression))
        array, index = expression.split("[", 1)
        for options in OPTIONS:
            got = f"{array}.at[{index}.get({options})"
            yield Case("outside", got, value(got))
    for group, expressions in (("functions", FUNCTIONS), ("updates", UPDATES)):
        for expression in expressions:
            yield Case(group, expression, value(expression))
    for expression, *_ in writing.LOSSY:
        yield Case("lossy updates", expression, value(expression))
    for expression in [*reading.DERIVATIVES, *writing.DERIVATIVES]:
        yield Case("derivatives", expression, gradient(expression))
    for expression, *_ in [*reading.ERRORS, *reading.FUNCTION_ERRORS, *writing.ERRORS]:
        yield Case("errors", expression, value(expression))


TOPIC = Topic("indexing", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)


@pytest.mark.parametrize("group", ["outside", "updates"])
def test_compiled_as_jax(group: str) -> None:
    with override(engine="xla"):
        TOPIC.check(group, kiln)
