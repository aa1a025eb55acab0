"""Kernels that sort and select: they agree with the NumPy meanings bit by bit."""

from __future__ import annotations

import functools
import signal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kiln
from kiln.base import dtypes
from kiln.engines.native.building.kernel_calls import ELEMENTS
from kiln.ops.reductions.sorting import sort_p, top_k_p
from tests.unit._runtime.kernels.running import call, meaning, run, same_bits, sample

BFLOAT = dtypes.bfloat16
REAL = [np.bool_, *"bhilBHILefd", BFLOAT]
ALL = [*REAL, "F", "D"]
SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((0,), 0),
    ((1,), 0),
    ((7,), 0),
    ((300,), 0),
    ((5000,), 0),
    ((3, 0, 2), 1),
    ((3, 0, 2), 0),
    ((4, 50, 19), 1),
    ((45, 37), 0),
    ((30, 41), 1),
]


def same_sort(*operands: np.ndarray, num_keys: int = 1, axis: int = 0, parts: int = 1) -> None:
    params = {"dimension": axis, "is_stable": True, "num_keys": num_keys}
    got = run(sort_p, *operands, parts=parts, **params)
    # Stable and by keys, which the meaning of a single operand need not be.
    place = np.indices(operands[0].shape)[axis].astype(np.int32)
    expected = meaning(sort_p, *operands, place, **params)
    for g, e in zip(got, expected[:-1], strict=True):
        same_bits(g, e)


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", ALL)
def test_one_operand(dtype: Any, shape: tuple[int, ...], axis: int, few: bool) -> None:
    same_sort(sample(dtype, shape, 1, few), axis=axis, parts=3)


@pytest.mark.parametrize("payload", [np.int8, np.int32, np.float64, np.complex128])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", ALL)
def test_a_key_and_a_payload(dtype: Any, shape: tuple[int, ...], axis: int, payload: Any) -> None:
    moved = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(payload)
    same_sort(sample(dtype, shape, 2, True), moved, axis=axis, parts=2)
    same_sort(sample(dtype, shape, 3), moved, axis=axis)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_several_keys(shape: tuple[int, ...], axis: int) -> None:
    xs = [sample(d, shape, k, True) for k, d in enumerate(["f", "b", "F", BFLOAT, "d"])]
    for keys in range(1, 6):
        same_sort(*xs, sample("h", shape), num_keys=keys, axis=axis)
        same_sort(*xs[::-1], num_keys=keys, axis=axis)


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", REAL)
def test_top_k(dtype: Any, shape: tuple[int, ...], axis: int, few: bool) -> None:
    x = sample(dtype, shape, 5, few)
    for k in {0, 1, 3, shape[axis] // 2, shape[axis]}:
        if k <= shape[axis]:
            same_top_k(x, k, axis)


def same_top_k(x: np.ndarray, k: int, axis: int = 0) -> None:
    got = run(top_k_p, x, k=k, axis=axis, parts=2)
    for g, e in zip(got, meaning(top_k_p, x, k=k, axis=axis), strict=True):
        same_bits(g, e)


def test_top_k_of_ordered_numbers() -> None:
    x = np.arange(30_000, dtype=np.float32) - 15_000
    for ordered in (x, x[::-1].copy(), np.abs(x), -np.abs(x), np.zeros_like(x)):
        for k in (1, 100, 20_000):
            same_top_k(ordered, k)


@pytest.mark.parametrize("k", [1, 16, 17, 96, 97])
@pytest.mark.parametrize("dtype", REAL)
def test_top_k_from_a_first_bound(dtype: Any, k: int) -> None:
    # Rows on both sides of the shortest one that has a bound, and with a rest after its groups.
    shortest = 4 * 64 * (-(-k // 16))
    for size in (shortest - 1, shortest, shortest + 63, 2 * shortest + 65):
        same_top_k(sample(dtype, (2, size), 5), k, 1)
        same_top_k(sample(dtype, (2, size), 6, few=True), k, 1)
    # The least number bounds nothing: some rows have fewer others than `k`.
    kind = np.dtype(dtype).kind
    low = 0 if kind == "b" else np.iinfo(dtype).min if kind in "iu" else -np.inf
    least = np.full((3, 1500), low, dtype)
    least[1, 7::400] = least[2, 1499] = 1
    same_top_k(least, k, 1)


def test_large_rows() -> None:
    for dtype in ("f", "d", "i", "L", "e"):
        x = sample(dtype, (200_000,), 4)
        same_sort(x)
        same_sort(x, np.arange(x.size, dtype=np.int32))
        same_sort(x, np.arange(x.size, dtype=np.int64))
    ordered = np.arange(100_000, dtype=np.float32) - 50_000
    same_sort(ordered)
    same_sort(ordered[::-1].copy())
    same_sort(np.full(5000, np.nan, np.float32))
    same_sort(np.zeros(5000, np.float64))


@pytest.mark.parametrize("dtype", ["f", "i", "d", "L"])
def test_every_number_of_keys_of_a_network(dtype: str) -> None:
    rng = np.random.default_rng(5)
    for n in range(1, 600):
        for x in (rng.integers(0, 1 << 20, n), rng.integers(0, 9, n), np.arange(n)[::-1]):
            given = x.astype(dtype)
            (got,) = run(sort_p, given, dimension=0, is_stable=True, num_keys=1)
            same_bits(got, np.sort(given))


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_the_least_pivot_of_floats(dtype: str) -> None:
    # The keys after it are those after the next float, also below zero, and there is none after
    # infinity.
    least = np.finfo(dtype).smallest_subnormal
    for pivot in (-np.inf, -1.0, -least, 0.0, least, 1.0, np.inf):
        given = np.full(3000, pivot, dtype)
        given[::701] = np.nextafter(given.dtype.type(pivot), given.dtype.type(np.inf))
        given[given == 0] = 0  # without a sign
        (got,) = run(sort_p, given, dimension=0, is_stable=True, num_keys=1)
        same_bits(got, np.sort(given))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["f", "i", "d", "L", "e"])
def test_large_rows_on_threads(threads: int, dtype: str) -> None:
    rng = np.random.default_rng(3)
    top = np.iinfo(dtype).max if dtype in "iL" else np.inf
    for x in (
        rng.integers(0, 1 << 15, 300_000),
        rng.integers(0, 3, 100_000),
        np.arange(150_000)[::-1] % 60_000,
        np.zeros(100_000),
        np.where(rng.random(100_000) < 0.7, float(0), 1),
    ):
        given = x.astype(dtype)
        given[::1000] = top
        with kiln.enable_x64(True), kiln.num_threads(threads):
            got = np.asarray(kiln.jit(kiln.numpy.sort)(given))
            order = np.asarray(kiln.jit(kiln.numpy.argsort)(given))
        same_bits(got, np.sort(given))
        np.testing.assert_array_equal(order, np.argsort(given, kind="stable"))


@pytest.mark.parametrize("threads", [2, 3])
def test_large_rows_with_others_on_threads(threads: int) -> None:
    rng = np.random.default_rng(6)
    n = 150_000
    numbers = rng.standard_normal(n).astype(np.float32)
    special = np.where(rng.random(n) < 0.1, np.float32(np.nan), np.round(numbers))
    special[:2] = -np.nan, -0.0
    most_equal = np.where(rng.random(n) < 0.9, 1, numbers).astype(np.float32)
    for keys in ([numbers], [special], [most_equal], [most_equal, special]):
        for payload in (np.arange(n, dtype=np.int32), np.arange(n, dtype=np.int8)):
            params = {"dimension": 0, "is_stable": True, "num_keys": len(keys)}
            with kiln.num_threads(threads):
                got = kiln.jit(functools.partial(kiln.lax.sort, **params))((*keys, payload))
            for g, e in zip(got, meaning(sort_p, *keys, payload, **params), strict=True):
                same_bits(np.asarray(g), e)


def test_nans_keep_their_bits() -> None:
    bits = np.array([0x7FC00001, 0xFFC00002, 0x3F800000, 0x7F800003, 0x80000000], np.uint32)
    (got,) = run(sort_p, bits.view(np.float32), dimension=0, is_stable=True, num_keys=1)
    assert got.view(np.uint32).tolist() == [bits[4], bits[2], bits[0], bits[1], bits[3]]


def test_what_is_not_supported() -> None:
    x = np.zeros(3, np.float32)
    assert call("sort", [x, x.copy()], [0, 1, 3, 1, 1, 1, len(ELEMENTS)]) == 2
    assert call("sort", [x] * 2, [0, 1, 3, 1, 65, 1, *[ELEMENTS["float32"]] * 65]) == 2


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.floats(width=32) | st.sampled_from([0.0, -0.0, float("nan")]), min_size=0, max_size=120
    ),
    st.lists(st.integers(-2, 2), min_size=120, max_size=120),
)
def test_any_numbers(values: list[float], more: list[int]) -> None:
    x = np.array(values, np.float32)
    other = np.array(more[: len(values)], np.int16)
    same_sort(x)
    same_sort(other, x, num_keys=2)


class Struck(Exception):
    pass


def test_signals_end_sorts() -> None:
    """They arrive in each of the passes: while keys are copied, divided and sorted."""

    def strike(*_: Any) -> None:
        raise Struck

    @functools.partial(kiln.jit, threads=2)
    def sorts(x: Any, count: Any) -> Any:
        return kiln.lax.fori_loop(0, count, lambda _, c: kiln.numpy.sort(c)[::-1], x)

    x = np.random.default_rng(7).random(1 << 19).astype(np.float32)
    sorts(x, 1)
    before = signal.signal(signal.SIGVTALRM, strike)
    try:
        for _ in range(12):
            # Of the time that the process computes.
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.02)
            with pytest.raises(Struck):
                sorts(x, 1 << 30)
    finally:
        signal.signal(signal.SIGVTALRM, before)
