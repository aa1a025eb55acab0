"""Products of stacks of matrices, against NumPy."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from kiln.engines.native.executables import openblas
from tests.unit._runtime.linear.kernel_calls import run_kernel

FLOATS = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
INTEGERS = {f"{s}{b}": np.dtype(f"{s}{b // 8}") for s in "iu" for b in (16, 32, 64)}
SIZES = [
    (1, 1, 1),
    (2, 3, 4),
    (16, 16, 16),
    (5, 17, 33),
    (31, 1, 70),
    (1, 65, 40),
    (64, 64, 64),
    (97, 130, 200),
    (0, 3, 2),
    (3, 0, 2),
    (3, 2, 0),
]
LARGE = [(500, 300, 200), (100, 900, 300), (2000, 1, 300), (1, 3000, 200)]


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    openblas.load()


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    x = rng.standard_normal(shape)
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def multiply(
    kind: str,
    a: np.ndarray,
    b: np.ndarray,
    trans: tuple[bool, bool],
    out: np.ndarray | None = None,
    dtype: Any = None,
) -> np.ndarray:
    """Multiply stacks of one axis; a stack of one matrix is used for all."""
    batch = max(len(a), len(b))
    m, k = a.shape[:0:-1] if trans[0] else a.shape[1:]
    n = b.shape[1] if trans[1] else b.shape[2]
    accumulate = out is not None
    if out is None:
        out = np.full((batch, m, n), 7, dtype or a.dtype)
    steps = [0 if len(x) == 1 < batch else x[0].size if len(x) else 0 for x in (a, b)]
    run_kernel(
        f"kiln_gemm_{kind}", [a, b, out], [batch, m, n, k, *trans, *steps, m * n, accumulate]
    )
    return out


def close(found: np.ndarray, expected: np.ndarray, k: int) -> None:
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    double = found.dtype in (np.float64, np.complex128)
    np.testing.assert_allclose(
        found.astype(wide), expected, rtol=1e-12 if double else 1e-4,
        atol=(1e-13 if double else 1e-5) * (k + 1),
    )  # fmt: skip


@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("kind", FLOATS)
def test_floats(kind: str, trans: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(0)
    for m, n, k in SIZES + LARGE:
        for batches in [(1, 1), (3, 3), (3, 1), (1, 3)]:
            if (m, n, k) in LARGE and batches != (1, 1):
                continue
            a = random(rng, (batches[0], *((k, m) if trans[0] else (m, k))), FLOATS[kind])
            b = random(rng, (batches[1], *((n, k) if trans[1] else (k, n))), FLOATS[kind])
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            left = (a.swapaxes(1, 2) if trans[0] else a).astype(wide)
            right = (b.swapaxes(1, 2) if trans[1] else b).astype(wide)
            expected = left @ right
            out = multiply(kind, a, b, trans)
            close(out, expected, k)
            close(multiply(kind, a, b, trans, out.copy()), 2 * expected, 2 * k)


@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_every_rest_of_a_tile(kind: str, trans: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(2)
    for i, (m, n) in enumerate(
        [*((m, 40) for m in range(4, 40)), *((30, n) for n in range(8, 70)), (150, 45), (47, 530)]
    ):
        k = (5, 70, 256, 257, 600)[i % 5]
        a = random(rng, (1, *((k, m) if trans[0] else (m, k))), FLOATS[kind])
        b = random(rng, (1, *((n, k) if trans[1] else (k, n))), FLOATS[kind])
        left = (a.swapaxes(1, 2) if trans[0] else a).astype(np.float64)
        right = (b.swapaxes(1, 2) if trans[1] else b).astype(np.float64)
        out = multiply(kind, a, b, trans)
        close(out, left @ right, k)
        # An element has the same bits wherever its tile begins.
        some = multiply(kind, *(np.ascontiguousarray(x) for x in (
            a[:, :, 3:] if trans[0] else a[:, 3:], b[:, 2:] if trans[1] else b[:, :, 2:]
        )), trans)  # fmt: skip
        if m >= 8 and n >= 18:
            np.testing.assert_array_equal(some, out[:, 3:, 2:])
        close(multiply(kind, a, b, trans, out.copy()), 2 * (left @ right), 2 * k)


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_wrap_around(kind: str) -> None:
    rng = np.random.default_rng(2)
    for trans in [(False, False), (True, False), (False, True)]:
        for m, n, k in [*SIZES, (70, 150, 300)]:
            a = random(rng, (2, *((k, m) if trans[0] else (m, k))), INTEGERS[kind])
            b = random(rng, (1, *((n, k) if trans[1] else (k, n))), INTEGERS[kind])
            left = a.swapaxes(1, 2) if trans[0] else a
            right = b.swapaxes(1, 2) if trans[1] else b
            expected = np.matmul(left, right)
            out = multiply(kind, a, b, trans)
            np.testing.assert_array_equal(out, expected)
            np.testing.assert_array_equal(multiply(kind, a, b, trans, out.copy()), 2 * expected)


def test_truth_values() -> None:
    rng = np.random.default_rng(3)
    for m, n, k in [*SIZES, (20, 70, 200)]:
        a, b = (rng.random(shape) < 0.2 for shape in [(2, m, k), (2, k, n)])
        np.testing.assert_array_equal(multiply("bool", a, b, (False, False)), a @ b)


def test_special_values() -> None:
    a = np.array([[[np.inf, 0], [np.nan, 1]]], np.float32)
    b = np.array([[[0, 1], [1, 1]]], np.float32)
    np.testing.assert_array_equal(
        multiply("f32", a, b, (False, False)), [[[np.nan, np.inf], [np.nan, np.nan]]]
    )
    # An earlier result is not read, not even to be multiplied with zero.
    for size in (4, 40, 300):
        out = np.full((1, size, size), np.nan, np.float32)
        ones = np.ones((1, size, size), np.float32)
        run_kernel("kiln_gemm_f32", [ones, ones, out], [1, size, size, size, 0, 0, 0, 0, 0, 0])
        assert (out == size).all()


@pytest.mark.parametrize("kind", FLOATS)
def test_blocks_of_rows_have_the_same_bits(kind: str) -> None:
    # Threads may split the rows of a product between any two of its blocks.
    rng = np.random.default_rng(4)
    for m, n, k in [(432, 333, 401), (480, 200, 700)]:
        a, b = (random(rng, (1, *shape), FLOATS[kind]) for shape in [(m, k), (k, n)])
        whole = multiply(kind, a, b, (False, False))
        for cut in (192, 240):
            parts = [
                multiply(kind, np.ascontiguousarray(part), b, (False, False))
                for part in (a[:, :cut], a[:, cut:])
            ]
            np.testing.assert_array_equal(np.concatenate(parts, 1), whole)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_bits_do_not_depend_on_where_b_is_packed(kind: str) -> None:
    # In place, by each block of columns, as a whole, or transposed.
    rng = np.random.default_rng(6)
    for n, k in [(257, 1030), (640, 420), (100, 520)]:
        a, b = (random(rng, (1, *shape), FLOATS[kind]) for shape in [(292, k), (k, n)])
        whole = multiply(kind, a, b, (False, False))
        transposed = np.ascontiguousarray(b.swapaxes(1, 2))
        for m in (4, 7, 8, 31, 32, 145, 288):
            part, expected = a[:, :m].copy(), whole[:, :m].tobytes()
            assert multiply(kind, part, b, (False, False)).tobytes() == expected
            assert multiply(kind, part, transposed, (False, True)).tobytes() == expected


@pytest.mark.parametrize("column", [False, True])
@pytest.mark.parametrize("combined", [False, True])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_vectors(kind: str, combined: bool, column: bool) -> None:
    # Integers whose sums are exact in any order: a term too many, or too few, is seen.
    rng = np.random.default_rng(8)
    sizes = [(n, k) for n in (17, 63, 64, 65, 130) for k in (1, 7, 8, 9, 33, 255, 257, 600)]
    for n, k in [*sizes, (1, 5000), (3, 9000), (20, 4097), (1030, 40), (2100, 300)]:
        for batch in (1, 3):
            matrix = rng.integers(-8, 9, (batch, n, k)).astype(FLOATS[kind])
            x = rng.integers(-8, 9, (batch, 1, k)).astype(FLOATS[kind])
            expected = np.matmul(x, matrix.swapaxes(1, 2))
            given = np.ascontiguousarray(matrix.swapaxes(1, 2)) if combined else matrix
            if column:
                operands, trans = (given, x.swapaxes(1, 2)), (combined, False)
                expected = expected.swapaxes(1, 2)
            else:
                operands, trans = (x, given), (False, not combined)
            out = multiply(kind, *operands, trans)
            np.testing.assert_array_equal(out, expected)
            np.testing.assert_array_equal(multiply(kind, *operands, trans, out), 2 * expected)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_a_row_has_the_bits_that_it_has_among_others(kind: str) -> None:
    rng = np.random.default_rng(9)
    for n, k in [(64, 40), (100, 1030), (700, 520), (2050, 257)]:
        a, b = (random(rng, (1, *shape), FLOATS[kind]) for shape in [(9, k), (k, n)])
        whole = multiply(kind, a, b, (False, False))
        more = multiply(kind, a, b, (False, False), whole.copy())
        for i in (0, 8):
            row, out = a[:, i : i + 1].copy(), whole[:, i : i + 1].copy()
            assert multiply(kind, row, b, (False, False)).tobytes() == out.tobytes()
            found = multiply(kind, row, b, (False, False), out)
            assert found.tobytes() == more[:, i : i + 1].tobytes()


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_a_packed_matrix_gives_the_same_bits(kind: str, trans: bool) -> None:
    rng = np.random.default_rng(7)
    for n, k in [(8, 4), (31, 257), (32, 40), (100, 300), (257, 513)]:
        b = random(rng, (1, *((n, k) if trans else (k, n))), FLOATS[kind])
        packed = np.full(-(-n // 32) * 32 * k, np.nan, FLOATS[kind])
        run_kernel(f"kiln_gemm_pack_{kind}", [b, packed], [n, k, trans])
        for batch, m in [(1, 2), (1, 4), (1, 13), (1, 145), (1, 289), (3, 5)]:
            for trans_a in (False, True):
                a = random(rng, (batch, *((k, m) if trans_a else (m, k))), FLOATS[kind])
                expected = multiply(kind, a, b, (trans_a, trans))
                found = np.full((batch, m, n), 7, FLOATS[kind])
                a_step = m * k if batch > 1 else 0
                numbers = [batch, m, n, k, trans_a, trans, a_step, 0, m * n, 4]
                run_kernel(f"kiln_gemm_{kind}", [a, packed, found], numbers)
                assert found.tobytes() == expected.tobytes(), (n, k, batch, m, trans_a)


def test_a_packed_matrix_without_terms() -> None:
    b, out = np.zeros((1, 0, 40), np.float32), np.full((1, 3, 40), 7, np.float32)
    packed = np.zeros(0, np.float32)
    run_kernel("kiln_gemm_pack_f32", [b, packed], [40, 0, 0])
    run_kernel("kiln_gemm_f32", [b, packed, out], [1, 3, 40, 0, 0, 0, 0, 0, 120, 4])
    assert (out == 0).all()


BOUNDARIES = [
    *((m, 40, 60) for m in (3, 4, 11, 12, 13, 24, 25, 31, 32, 33, 143, 144, 145, 288, 289)),
    *((50, n, 60) for n in (7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 47, 48, 49, 63, 64, 65, 80, 81)),
    *((70, 48, k) for k in (4, 31, 255, 256, 257, 512, 513)),
    *((288, n, 255) for n in (255, 256, 257)),
    *((289, 33, k) for k in (256, 300)),
    (40, 600, 256), (40, 600, 257), (128, 128, 128), (129, 128, 129),
    *((m, 513, 520) for m in (4, 7, 8)), *((m, 260, 520) for m in (31, 32)),
]  # fmt: skip


@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_both_sides_of_each_boundary(kind: str, trans: tuple[bool, bool]) -> None:
    # Integers whose sums are exact in any order: a term too many, or too few, is seen.
    rng = np.random.default_rng(5)
    for m, n, k in BOUNDARIES:
        a = rng.integers(-8, 9, (1, *((k, m) if trans[0] else (m, k)))).astype(FLOATS[kind])
        b = rng.integers(-8, 9, (1, *((n, k) if trans[1] else (k, n)))).astype(FLOATS[kind])
        left, right = a.swapaxes(1, 2) if trans[0] else a, b.swapaxes(1, 2) if trans[1] else b
        expected = np.matmul(left.astype(np.int64), right.astype(np.int64))
        out = multiply(kind, a, b, trans)
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(multiply(kind, a, b, trans, out.copy()), 2 * expected)


@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_nan_and_infinity_propagate(kind: str, trans: tuple[bool, bool]) -> None:
    for m, n, k in [(13, 17, 20), (64, 48, 64), (150, 100, 300), (300, 270, 257)]:
        for value in (np.nan, np.inf):
            a, b = np.ones((m, k), FLOATS[kind]), np.ones((k, n), FLOATS[kind])
            a[m - 1, k - 1], b[0, n - 1] = value, value
            with np.errstate(invalid="ignore"):
                expected = a @ b
            a, b = (x.T if t else x for x, t in zip((a, b), trans, strict=True))
            a, b = (np.ascontiguousarray(x)[None] for x in (a, b))
            np.testing.assert_array_equal(multiply(kind, a, b, trans)[0], expected)


# Operands that end where memory ends, and a result between two numbers that must stay.
AT_THE_END_OF_MEMORY = """
import ctypes, mmap
import numpy as np
from kiln.engines.native.executables import openblas
from tests.unit._runtime.linear.kernel_calls import run_kernel

openblas.load()
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

for dtype, kind in ((np.float32, "f32"), (np.float64, "f64")):
    for m, n, k in [(4, 9, 5), (13, 17, 20), (20, 33, 31), (48, 48, 48), (70, 45, 64),
                    (300, 70, 20), (9, 530, 257), (300, 530, 9)]:
        for trans in ((0, 0), (1, 0), (0, 1), (1, 1)):
            a = at_the_end(np.ones((k, m) if trans[0] else (m, k), dtype))
            b = at_the_end(np.ones((n, k) if trans[1] else (k, n), dtype))
            guarded = at_the_end(np.full(m * n + 1, -1, dtype))
            out = guarded[1:]
            numbers = [1, m, n, k, *trans, 0, 0, 0, 0]
            run_kernel(f"kiln_gemm_{kind}", [a, b, out], numbers)
            panels = at_the_end(np.zeros(-(-n // 32) * 32 * k, dtype))
            run_kernel(f"kiln_gemm_pack_{kind}", [b, panels], [n, k, trans[1]])
            assert (out == k).all() and guarded[0] == -1, (m, n, k, trans)
            out[...] = -2
            run_kernel(f"kiln_gemm_{kind}", [a, panels, out], [*numbers[:9], 4])
            assert (out == k).all() and guarded[0] == -1, (m, n, k, trans)
print("done")
"""


def test_nothing_beyond_the_operands_is_read() -> None:
    run = subprocess.run(
        [sys.executable, "-c", AT_THE_END_OF_MEMORY], capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "done", (run.returncode, run.stderr)
