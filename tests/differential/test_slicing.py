"""lax slices, gather and the scatters give jax's values, dtypes and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy
from kiln.base.options.config import override
from tests.differential.oracle import Case, Topic
from tests.unit.ops.indexing import test_indexing as windows
from tests.unit.ops.indexing import test_slicing as slicing

SCATTERS = ("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")
# kiln is stricter, or more lenient, on purpose.
DIFFERENT = {"slice(x, (-1,), (1,))", "slice(x, (0,), (1,), (0,))", "slice(x, (0, 0), (1, 1))"}
DIFFERENT |= {"slice_in_dim(m, 0, 1, 1, 5)"}

SLICES = [
    "slice(x, (1,), (4,), (2,))",
    "slice_in_dim(m, 1, -1, 1, 1)",
    "slice_in_dim(m, None, None, 2, 1)",
    "index_in_dim(m, -1, 1, False)",
    "index_in_dim(m, 1)",
    "pad(x, 0.0, [(1, -2, 1)])",
    "pad(x, 0.0, [(-3, 4, 2)])",
    "pad(m, np.float32(7), [(-3, -1, 2), (0, 0, 1)])",
    "pad(m[:0], np.float32(7), [(1, 2, 5), (0, -4, 0)])",
    "concatenate([x, x], 0)",
    "concatenate([m, m[:, :0], m], 1)",
    "split(x, [2, 0, 3])[2]",
    "split(m, (1, 3), axis=1)[0]",
    "dynamic_slice(x, [7], [2])",
    "dynamic_slice(x, [-1], [1])",
    "dynamic_slice(x, [-7], [1])",
    "dynamic_slice(m, (np.int32(1), np.int32(-2)), (2, 1))",
    "dynamic_slice(m, np.array([9, 1]), (2, 2))",
    "dynamic_slice_in_dim(m, -2, 2, 1)",
    "dynamic_index_in_dim(m, 1, 1, False)",
    "dynamic_index_in_dim(m, np.uint8(200), 1)",
    "dynamic_update_slice(x, x[:2], [4])",
    "dynamic_update_slice(x, x[:2], [-2])",
    "dynamic_update_index_in_dim(x, np.float32(3), 1, 0)",
    "dynamic_update_index_in_dim(m, m[0], -1, 0)",
    "dynamic_update_index_in_dim(m, m[:1], 1, 0)",
    "dynamic_update_slice_in_dim(m, m[:, :2], 9, 1)",
]


def value(expression: str) -> Any:
    def run(library: Any) -> Any:
        names = {name: getattr(library.lax, name) for name in dir(library.lax)}
        return eval(expression, {**names, **slicing.environment(library.numpy)})

    return run


def numbers(library: Any, window: Any, kind: str) -> Any:
    """Return dimension numbers of a library's own class."""
    found = getattr(window, kind)()
    return getattr(library.lax, type(found).__name__)(*vars(found).values())


def gathered(seed: int, mode: str) -> Any:
    def run(library: Any) -> Any:
        rng = np.random.default_rng(seed)
        shape, window, sizes, indices = windows.random_window(rng)
        x = library.numpy.array(rng.normal(size=shape).astype(np.float32))
        how = numbers(library, window, "gather")
        return library.lax.gather(x, library.numpy.array(indices), how, sizes, mode=mode)

    return run


def scattered(seed: int, name: str, mode: str) -> Any:
    def run(library: Any) -> Any:
        rng = np.random.default_rng(seed)
        shape, window, sizes, indices = windows.random_window(rng)
        x = library.numpy.array(rng.normal(size=shape).astype(np.float32))
        u = rng.normal(size=window.arranged(indices.shape[:-1], sizes)).astype(np.float32)
        how = numbers(library, window, "scatter")
        function = getattr(library.lax, name)
        return function(x, library.numpy.array(indices), library.numpy.array(u), how, mode=mode)

    return run


def shared(name: str) -> Any:
    """Pull a cotangent back through an extremum with ties."""

    def run(library: Any) -> Any:
        how = numbers(library, windows.POINT_UPDATES.window, "scatter")
        array = library.numpy.array
        indices = array(np.array([[1], [1], [2]], np.int32))

        def fun(x: Any, u: Any) -> Any:
            return getattr(library.lax, name)(x, indices, u, how)

        x, u = array([0.0, 2.0, 2.0]), array([2.0, 2.0, 5.0])
        return library.vjp(fun, x, u)[1](array([1.0, 2.0, 3.0]))

    return run


def cases() -> Iterator[Case]:
    for expression in SLICES:
        yield Case("slices", expression, value(expression))
    for expression, *_ in slicing.ERRORS:
        if expression not in DIFFERENT:
            yield Case("errors", expression, value(expression))
    for seed in range(40):
        for mode in ("clip", "fill"):
            yield Case("gather", f"{seed} {mode}", gathered(seed, mode))
    for i, name in enumerate(SCATTERS):
        for seed in range(10 * i, 10 * i + 8):
            for mode in ("clip", "drop"):
                yield Case(name, f"{seed} {mode}", scattered(seed, name, mode))
    for name in ("scatter_min", "scatter_max"):
        yield Case("cotangents of ties", name, shared(name))


TOPIC = Topic("slicing", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)


@pytest.mark.parametrize(
    "group",
    [
        "slices",
        SCATTERS[0],
        *(pytest.param(g, marks=pytest.mark.full) for g in ("gather", *SCATTERS[1:])),
    ],
)
def test_compiled_as_jax(group: str) -> None:
    with override(engine="xla"):
        TOPIC.check(group, kiln)
