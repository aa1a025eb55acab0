"""Products of bf16, f16 and 8-bit integers, by each instruction set that the host CPU has."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit._runtime.linear.kernel_calls import run_kernel

DTYPES: dict[str, Any] = {
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "f16": np.float16,
    "i8": np.int8,
    "u8": np.uint8,
}
PAIRS = [(a, b) for a in DTYPES for b in DTYPES if (a, b) != ("f32", "f32")]
BY_ALL, IN_ORDER, WITHOUT_AMX, BY_LEVEL = 0, 2, 4, 12
SIZES = [
    *((1, 1, 1), (2, 3, 4), (16, 16, 16), (5, 17, 33), (1, 65, 40), (33, 31, 70)),
    *((31, 1, 65), (129, 33, 6), (150, 70, 130)),
]
# Both sides of the sizes of tiles, words, depths and blocks.
BOUNDARIES = [
    *((m, 40, 70) for m in (12, 13, 15, 16, 17, 31, 32, 33, 128, 129, 144, 145)),
    *((20, n, 70) for n in (15, 16, 17, 31, 32, 33, 255, 256, 257, 513)),
    *((17, 33, k) for k in (2, 3, 5, 63, 64, 65, 255, 256, 257, 511, 513, 1023, 1025)),
    *((150, 33, k) for k in (1025, 2049, 4097)),
    *((m, 600, 258) for m in (1, 3, 7, 8, 9)),
    *((2, n, 5) for n in (511, 512, 513, 1024, 1025)),
    (150, 513, 257),
]
TRANS = [(False, False), (True, False), (False, True), (True, True)]


def drawn(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    dtype = np.dtype(DTYPES[kind])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return rng.standard_normal(shape).astype(dtype)


def multiply(
    kinds: tuple[str, str],
    a: np.ndarray,
    b: np.ndarray,
    trans: tuple[bool, bool] = (False, False),
    flags: int = BY_ALL,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """Multiply batches of matrices, or add their products to `out`."""
    batch = max(len(a), len(b))
    m, k = a.shape[:0:-1] if trans[0] else a.shape[1:]
    n = b.shape[1] if trans[1] else b.shape[2]
    accumulate = out is not None
    if out is None:
        integers = all(kind in ("i8", "u8") for kind in kinds)
        out = np.full((batch, m, n), 7, np.int32 if integers else np.float32)
    steps = [0 if len(x) == 1 < batch else x[0].size for x in (a, b)]
    numbers = [batch, m, n, k, *trans, *steps, m * n, accumulate + flags]
    run_kernel(f"kiln_gemm_{kinds[0]}_{kinds[1]}", [a, b, out], numbers)
    return out


def assert_product(
    kinds: tuple[str, str], shape: tuple[int, int, int], trans: tuple[bool, bool], flags: int
) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m + n + k)
    for batches in [(1, 1), (2, 2), (2, 1)] if m * n * k < 10_000 else [(1, 1)]:
        a = drawn(rng, (batches[0], *((k, m) if trans[0] else (m, k))), kinds[0])
        b = drawn(rng, (batches[1], *((n, k) if trans[1] else (k, n))), kinds[1])
        left = (a.swapaxes(1, 2) if trans[0] else a).astype(np.float64)
        right = (b.swapaxes(1, 2) if trans[1] else b).astype(np.float64)
        expected = left @ right
        out = multiply(kinds, a, b, trans, flags)
        twice = multiply(kinds, a, b, trans, flags, out.copy())
        if out.dtype == np.int32:
            np.testing.assert_array_equal(out, expected)
            np.testing.assert_array_equal(twice, 2 * expected)
        else:
            # Each of k additions rounds a partial sum, which is at most the sum of magnitudes.
            bound = k * 2.0**-24 * (abs(left) @ abs(right)) * 1.01
            assert (abs(out - expected) <= bound).all()
            assert (abs(twice - 2 * expected) <= 4 * bound).all()


@pytest.mark.parametrize("flags", [BY_ALL, WITHOUT_AMX, BY_LEVEL])
@pytest.mark.parametrize("trans", TRANS)
def test_every_pair_of_dtypes(trans: tuple[bool, bool], flags: int) -> None:
    for kinds in PAIRS[TRANS.index(trans) % 2 :: 2]:
        for shape in SIZES:
            assert_product(kinds, shape, trans, flags)


@pytest.mark.parametrize("flags", [BY_ALL, WITHOUT_AMX, BY_LEVEL])
@pytest.mark.parametrize("trans", TRANS)
@pytest.mark.parametrize("kinds", [("bf16", "bf16"), ("i8", "u8"), ("f32", "i8"), ("u8", "i8")])
def test_both_sides_of_each_boundary(
    kinds: tuple[str, str], trans: tuple[bool, bool], flags: int
) -> None:
    for i, shape in enumerate(BOUNDARIES):
        if i % len(TRANS) == TRANS.index(trans) or max(shape) < 70:
            assert_product(kinds, shape, trans, flags)


@pytest.mark.full
@pytest.mark.parametrize("flags", [BY_ALL, WITHOUT_AMX, BY_LEVEL])
@pytest.mark.parametrize("trans", TRANS)
@pytest.mark.parametrize("kinds", PAIRS)
def test_boundaries_of_every_pair(
    kinds: tuple[str, str], trans: tuple[bool, bool], flags: int
) -> None:
    for shape in BOUNDARIES:
        assert_product(kinds, shape, trans, flags)


@pytest.mark.parametrize("flags", [BY_ALL, WITHOUT_AMX, BY_LEVEL])
def test_sums_of_integers_wrap_around(flags: int) -> None:
    k = 140_000
    for kinds, a, b in [(("i8", "i8"), -128, -128), (("u8", "u8"), 255, 255)]:
        left = np.full((1, 2, k), a, DTYPES[kinds[0]])
        right = np.full((1, k, 3), b, DTYPES[kinds[1]])
        found = multiply(kinds, left, right, flags=flags)
        assert (found == np.array(a * b * k).astype(np.int32)).all()
        assert a * b * k > np.iinfo(np.int32).max


@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_every_value(kind: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(DTYPES[kind]).reshape((1, -1, 1))
    with np.errstate(invalid="ignore"):
        wide = every.astype(np.float32)
    one = np.ones((1, 1, 1), DTYPES[kind])
    for flags in (BY_ALL, IN_ORDER, BY_LEVEL):
        found = multiply((kind, kind), every, one, flags=flags)
        same = np.array_equal(found, wide, equal_nan=True)
        # AMX takes subnormal bf16 for zero.
        flushed = np.where(abs(wide) < 2.0**-126, 0, wide) if kind == "bf16" else wide
        assert same or (flags != BY_LEVEL and np.array_equal(found, flushed, equal_nan=True))


@pytest.mark.parametrize("flags", [BY_ALL, WITHOUT_AMX])
@pytest.mark.parametrize("kinds", [("bf16", "bf16"), ("f16", "f16"), ("f32", "i8"), ("i8", "bf16")])
def test_nan_and_infinity_propagate(kinds: tuple[str, str], flags: int) -> None:
    for m, n, k in [(13, 17, 20), (64, 48, 65), (150, 300, 130)]:
        for value in (np.nan, np.inf, -np.inf):
            a, b = np.ones((1, m, k), DTYPES[kinds[0]]), np.ones((1, k, n), DTYPES[kinds[1]])
            for x, place in ((a, (0, m - 1, k - 1)), (b, (0, 0, n - 1))):
                if x.dtype.kind not in "iu":
                    x[place] = value
            with np.errstate(invalid="ignore"):
                expected = a.astype(np.float32) @ b.astype(np.float32)
            np.testing.assert_array_equal(multiply(kinds, a, b, flags=flags), expected)


@pytest.mark.parametrize("flags", [BY_ALL, WITHOUT_AMX])
def test_an_earlier_result_is_not_read(flags: int) -> None:
    for size in (4, 40, 200):
        for kinds in (("bf16", "bf16"), ("f32", "i8")):
            out = np.full((1, size, size), np.nan, np.float32)
            a, b = (np.ones((1, size, size), DTYPES[kind]) for kind in kinds)
            numbers = [1, size, size, size, 0, 0, 0, 0, 0, flags]
            run_kernel(f"kiln_gemm_{kinds[0]}_{kinds[1]}", [a, b, out], numbers)
            assert (out == size).all()


@pytest.mark.parametrize("kinds", [("bf16", "bf16"), ("f16", "f16"), ("f32", "i8")])
def test_an_element_has_the_same_bits_in_every_product(kinds: tuple[str, str]) -> None:
    # So a row is the same in a batch and alone.
    rng = np.random.default_rng(4)
    for m, n, k in [(200, 333, 700), (33, 70, 2100)]:
        a, b = drawn(rng, (1, m, k), kinds[0]), drawn(rng, (1, k, n), kinds[1])
        whole = multiply(kinds, a, b, flags=IN_ORDER)
        for rows, columns in [(slice(0, 1), slice(None)), (slice(7, 40), slice(3, 36))]:
            parts = [np.ascontiguousarray(x) for x in (a[:, rows], b[:, :, columns])]
            some = multiply(kinds, *parts, flags=IN_ORDER)
            np.testing.assert_array_equal(some, whole[:, rows, columns])


# Operands that end where memory ends, and a result after a number that must stay.
AT_THE_END_OF_MEMORY = """
import ctypes, mmap
import numpy as np
from tests.unit._runtime.linear.kernel_calls import run_kernel
from tests.unit._runtime.linear.test_narrow_products import DTYPES

libc, held = ctypes.CDLL(None, use_errno=True), []

def at_the_end(x):
    size = -(-x.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    held.append(memory)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert libc.mprotect(ctypes.c_void_p(start + size), mmap.PAGESIZE, 0) == 0
    made = np.frombuffer(memory, x.dtype, x.size, size - x.nbytes).reshape(x.shape)
    made[...] = x
    return made

for kinds in (("bf16", "bf16"), ("i8", "u8"), ("f32", "i8"), ("f16", "f16")):
    for m, n, k in [(4, 9, 5), (1, 70, 33), (48, 48, 48), (150, 45, 64), (9, 530, 257)]:
        for trans in ((0, 0), (1, 0), (0, 1), (1, 1)):
            for flags in (0, 4, 12):
                a = at_the_end(np.ones((k, m) if trans[0] else (m, k), DTYPES[kinds[0]]))
                b = at_the_end(np.ones((n, k) if trans[1] else (k, n), DTYPES[kinds[1]]))
                integers = a.dtype.kind in "iu" and b.dtype.kind in "iu"
                guarded = at_the_end(np.full(m * n + 1, -1, np.int32 if integers else np.float32))
                out = guarded[1:]
                numbers = [1, m, n, k, *trans, 0, 0, 0, flags]
                run_kernel(f"kiln_gemm_{kinds[0]}_{kinds[1]}", [a, b, out], numbers)
                assert (out == k).all() and guarded[0] == -1, (kinds, m, n, k, trans, flags)
print("done")
"""


def test_nothing_beyond_the_operands_is_read() -> None:
    run = subprocess.run(
        [sys.executable, "-c", AT_THE_END_OF_MEMORY], capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "done", (run.returncode, run.stderr)
