"""gather and the scatters: modes, errors, random dimension numbers, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.errors import MissingRule
from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.ops.indexing import indexing as ops
from kiln.ops.indexing.dimension_numbers import (
    CLIP,
    FILL_OR_DROP,
    PROMISE_IN_BOUNDS,
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    Window,
)

ENGINES = ["reference", "xla"]
POINTS = GatherDimensionNumbers((), (0,), (0,))
POINT_UPDATES = ScatterDimensionNumbers((), (0,), (0,))


def array(x: Any, dtype: Any = None) -> Any:
    return from_host(np.array(x, dtype))


def random_window(rng: np.random.Generator) -> tuple[Any, ...]:
    """Draw an operand's shape, dimension numbers, window sizes and indices, some outside."""
    rank = int(rng.integers(1, 4))
    shape = tuple(int(s) for s in rng.integers(1, 5, rank))
    order = [int(i) for i in rng.permutation(rank)]
    batching = tuple(sorted(order[: int(rng.integers(0, 2)) if rank > 1 else 0]))
    rest = order[len(batching) :]
    coordinates = tuple(rest[: int(rng.integers(1, len(rest) + 1))])
    dropped = tuple(sorted(i for i in rest if rng.random() < 0.4))
    sizes = tuple(
        1 if i in dropped or i in batching else int(rng.integers(1, shape[i] + 1))
        for i in range(rank)
    )
    count = int(rng.integers(len(batching), 3))
    windows = [int(s) for s in rng.integers(1, 4, count)]
    along = tuple(int(i) for i in rng.permutation(count)[: len(batching)])
    for ours, theirs in zip(batching, along, strict=True):
        windows[theirs] = shape[ours]
    kept = rank - len(dropped) - len(batching)
    places = tuple(sorted(int(i) for i in rng.permutation(kept + count)[:kept]))
    indices = rng.integers(-2, 6, (*windows, len(coordinates))).astype(np.int32)
    return shape, Window(places, dropped, coordinates, batching, along), sizes, indices


def naive_gather(x: Any, indices: Any, window: Window, sizes: Any, fill: Any) -> Any:
    """Read windows one by one; `fill` is None to move them inside."""
    windows = indices.shape[:-1]
    out = np.zeros(window.arranged(windows, sizes), x.dtype)
    view = np.moveaxis(out, window.placed, range(len(windows), out.ndim))
    for number in np.ndindex(*windows):
        start = np.zeros(x.ndim, int)
        start[list(window.coordinates)] = indices[number]
        start[list(window.batching)] = [number[i] for i in window.along]
        inside = all(0 <= s <= d - w for s, d, w in zip(start, x.shape, sizes, strict=True))
        start = [min(max(s, 0), d - w) for s, d, w in zip(start, x.shape, sizes, strict=True)]
        part = x[tuple(slice(s, s + w) for s, w in zip(start, sizes, strict=True))]
        part = part.reshape([sizes[i] for i in window.kept(x.ndim)])
        view[number] = part if inside or fill is None else fill
    return out


@pytest.mark.parametrize("seed", range(60))
def test_gather_reads_windows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape, window, sizes, indices = random_window(rng)
    x = rng.normal(size=shape).astype(np.float32)
    for mode, fill in ((CLIP, None), (PROMISE_IN_BOUNDS, None), (FILL_OR_DROP, 9.0)):
        found = ops.gather(
            array(x), array(indices), window.gather(), sizes, mode=mode, fill_value=fill
        )
        np.testing.assert_array_equal(found, naive_gather(x, indices, window, sizes, fill))


@pytest.mark.parametrize("seed", range(30))
def test_scatter_writes_what_gather_reads(seed: int) -> None:
    rng = np.random.default_rng(200 + seed)
    shape, window, sizes, indices = random_window(rng)
    x, w = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    for mode in (CLIP, FILL_OR_DROP):
        read = ops.gather(array(w), array(indices), window.gather(), sizes, mode=mode, fill_value=0)
        u = rng.normal(size=read.shape).astype(np.float32)
        added = ops.scatter_add(array(x), array(indices), array(u), window.scatter(), mode=mode)
        difference = float((w * (np.asarray(added) - x)).sum())
        assert difference == pytest.approx(float((u * np.asarray(read)).sum()), abs=1e-4)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("dtype", "wanted"),
    [
        ("float32", np.nan),
        ("bfloat16", np.nan),
        ("complex64", np.nan),
        ("int8", -128),
        ("int32", -(2**31)),
        ("uint8", 255),
        ("uint32", 2**32 - 1),
        ("bool", True),
    ],
)
def test_default_fill(dtype: str, wanted: Any, engine: str) -> None:
    with override(engine=engine):
        found = ops.gather(jnp.zeros(2, dtype), array([[2], [1]]), POINTS, (1,), mode="fill")
    assert found.dtype == jnp.zeros(2, dtype).dtype
    np.testing.assert_array_equal(np.asarray(found).astype(complex), np.array([wanted, 0], complex))


@pytest.mark.parametrize("engine", ENGINES)
def test_fill_value_keeps_the_sign_of_zero(engine: str) -> None:
    x = array([1.0], np.float32)
    with override(engine=engine):
        for fill in (0.0, -0.0, 0.0):
            found = ops.gather(x, array([[5]]), POINTS, (1,), mode="fill", fill_value=fill)
            assert np.signbit(np.asarray(found)[0]) == np.signbit(fill)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "int32"])
def test_indices_of_any_integer_dtype(dtype: str, engine: str) -> None:
    x = array(np.arange(300), np.int32)
    top = np.iinfo(dtype).max
    indices = array([[top], [1]], dtype)
    with override(engine=engine):
        clipped = ops.gather(x, indices, POINTS, (1,), mode="clip")
        filled = ops.gather(x, indices, POINTS, (1,), mode="fill", fill_value=-7)
        written = ops.scatter(x, indices, array([-1, -2], np.int32), POINT_UPDATES, mode="clip")
    np.testing.assert_array_equal(clipped, [min(top, 299), 1])
    np.testing.assert_array_equal(filled, [top if top < 300 else -7, 1])
    assert np.asarray(written)[min(top, 299)] == -1


@pytest.mark.parametrize("engine", ENGINES)
def test_the_last_of_several_updates_stays(engine: str) -> None:
    with override(engine=engine):
        out = ops.scatter(
            array([0.0, 0.0]), array([[1], [0], [1]]), array([1.0, 2.0, 3.0]), POINT_UPDATES
        )
    np.testing.assert_array_equal(out, [2, 3])


@pytest.mark.parametrize("engine", ENGINES)
def test_bools_and_nans_are_joined_as_compiled(engine: str) -> None:
    twice = array([[0], [0]])
    with override(engine=engine):
        either = ops.scatter_add(array([False]), twice, array([True, False]), POINT_UPDATES)
        both = ops.scatter_mul(array([True]), twice, array([True, False]), POINT_UPDATES)
        most = ops.scatter_max(
            array([0], np.float32), twice, array([np.nan, 1], np.float32), POINT_UPDATES
        )
    assert np.asarray(either)[0] and not np.asarray(both)[0] and np.isnan(np.asarray(most)[0])


def test_only_the_update_that_stays_gets_a_cotangent() -> None:
    def fun(x: Any, u: Any) -> Any:
        return ops.scatter(x, array([[1], [1], [7]]), u, POINT_UPDATES)

    x, u = jnp.array([1.0, 2.0, 3.0]), jnp.array([4.0, 5.0, 6.0])
    _, pull = kiln.vjp(fun, x, u)
    to_x, to_u = pull(jnp.array([10.0, 20.0, 30.0]))
    np.testing.assert_array_equal(to_x, [10, 0, 30])
    np.testing.assert_array_equal(to_u, [0, 20, 0])


def test_extrema_share_the_cotangent_among_equals() -> None:
    def fun(x: Any, u: Any) -> Any:
        return ops.scatter_max(x, array([[1], [1], [2]]), u, POINT_UPDATES)

    x, u = jnp.array([0.0, 2.0, 2.0]), jnp.array([2.0, 2.0, 5.0])
    to_x, to_u = kiln.vjp(fun, x, u)[1](jnp.array([1.0, 3.0, 4.0]))
    np.testing.assert_allclose(to_x, [1, 1, 0], rtol=1e-6)
    np.testing.assert_allclose(to_u, [1, 1, 4], rtol=1e-6)


def test_products_need_unique_indices_for_the_derivative_by_updates() -> None:
    def fun(u: Any, unique: bool) -> Any:
        out = ops.scatter_mul(
            jnp.array([2.0, 3.0]),
            array([[1], [0]]),
            u,
            POINT_UPDATES,
            unique_indices=unique,
        )
        return ops.gather(out, array([[0]]), POINTS, (1,))[0]

    with pytest.raises(MissingRule, match="unique_indices=True"):
        kiln.grad(lambda u: fun(u, False))(jnp.array([5.0, 7.0]))
    found = kiln.grad(lambda u: fun(u, True))(jnp.array([5.0, 7.0]))
    np.testing.assert_array_equal(found, [0, 2])


def test_modes_are_known_by_name() -> None:
    from_any = GatherScatterMode.from_any
    assert from_any(None) is from_any("fill") is from_any("drop") is FILL_OR_DROP
    assert from_any("clip") is CLIP and from_any(CLIP) is CLIP
    assert from_any("promise_in_bounds") is PROMISE_IN_BOUNDS
    with pytest.raises(ValueError, match='Unknown gather mode "foo"'):
        from_any("foo")


@pytest.mark.parametrize(
    ("numbers", "sizes", "indices", "phrase"),
    [
        (
            GatherDimensionNumbers((1,), (0,), (0,)),
            (1,),
            [[0]],
            "one slice size for every input dim",
        ),
        (GatherDimensionNumbers((0, 1), (), (0,)), (1, 9), [[0]], "Slice size at index 1"),
        (
            GatherDimensionNumbers((0,), (0,), (0,)),
            (2, 1),
            [[0]],
            "collapse slice dims with bound 1, but bound is 2",
        ),
        (
            GatherDimensionNumbers((0,), (0, 1), (0,)),
            (1, 1),
            [[0]],
            "All components of the offset index",
        ),
        (
            GatherDimensionNumbers((1,), (0,), (0, 0)),
            (1, 4),
            [[0, 0]],
            "start_index_map in gather op must not repeat",
        ),
        (
            GatherDimensionNumbers((1,), (0,), (0, 1)),
            (1, 4),
            [[0]],
            "has 2 elements in start_index_map",
        ),
        (GatherDimensionNumbers((1,), (0,), (0,)), (1, 4), [[0.5]], "must have an integer dtype"),
        (
            GatherDimensionNumbers((5,), (0,), (0,)),
            (1, 4),
            [[0]],
            "Offset dimension 0 in gather op is out of bounds",
        ),
        (
            GatherDimensionNumbers((1, 0), (), (0,)),
            (1, 4),
            [[0]],
            "offset_dims in gather op must be sorted",
        ),
        (
            GatherDimensionNumbers((1,), (), (1,), (0,), ()),
            (1, 4),
            [[0]],
            "requires equal numbers of operand_batching_dims",
        ),
        (
            GatherDimensionNumbers((1,), (), (1,), (0,), (0,)),
            (1, 4),
            [[0]],
            "to have the same shape",
        ),
    ],
)
def test_dimension_numbers_that_do_not_fit(
    numbers: Any, sizes: Any, indices: Any, phrase: str
) -> None:
    with pytest.raises(TypeError, match=phrase):
        ops.gather(jnp.zeros((3, 4)), jnp.array(indices), numbers, sizes)


def test_updates_that_do_not_fit() -> None:
    x, one = jnp.zeros(3), jnp.array([[0]])
    with pytest.raises(TypeError, match="same dtypes, got float32, int32"):
        ops.scatter(x, one, jnp.array([1]), POINT_UPDATES)
    with pytest.raises(TypeError, match="updates bound is 2, scatter_indices bound is 1"):
        ops.scatter_add(x, one, jnp.ones(2), POINT_UPDATES)
    with pytest.raises(TypeError, match="Updates tensor must be of rank 1; got 2"):
        ops.scatter_add(x, one, jnp.ones((1, 1)), POINT_UPDATES)
    with pytest.raises(TypeError, match="updates bound is 4, operand bound is 3"):
        numbers = ScatterDimensionNumbers((1,), (), (0,))
        ops.scatter_add(x, one, jnp.ones((1, 4)), numbers)
