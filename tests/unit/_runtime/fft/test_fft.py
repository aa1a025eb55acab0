"""The kernel of Fourier transforms is as accurate as the meanings' library."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import kiln
from kiln.engines.native.building.kernel_calls import ELEMENTS, kernel_call
from kiln.ir.types import ShapedArray
from kiln.ops.linear.fft import FftType, fft_p
from tests.unit._runtime.kernels.running import call, meaning, run, same_bits

SIZES = [
    *range(1, 34),
    *(49, 60, 61, 64, 67, 81, 97, 100, 121, 125, 128, 134, 210, 256, 343, 360, 509, 512, 600),
    *(720, 1000, 1009, 1024, 2187, 3000, 3721, 4096, 4099, 5000, 8192, 10007, 16384, 19683, 30030),
]


def operand(kind: FftType, dtype: Any, stack: tuple[int, ...], lengths: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(len(lengths) + sum(lengths))
    last = lengths[-1] // 2 + 1 if kind is FftType.IRFFT else lengths[-1]
    shape = (*stack, *lengths[:-1], last)
    x = rng.standard_normal(shape)
    if kind is FftType.RFFT:
        return x.astype(dtype)
    return (x + 1j * rng.standard_normal(shape)).astype(np.result_type(dtype, np.complex64))


def check(kind: FftType, dtype: Any, stack: tuple[int, ...], lengths: tuple[int, ...]) -> None:
    x = operand(kind, dtype, stack, lengths)
    params = {"fft_type": kind, "fft_lengths": lengths}
    (got,) = run(fft_p, x, parts=2, **params)
    wide = x.astype(np.result_type(x.dtype, np.float64))
    (expected,) = meaning(fft_p, wide, **params)
    assert got.dtype.itemsize == expected.dtype.itemsize // (2 if dtype == "f" else 1)
    size = np.linalg.norm(expected)
    error = np.linalg.norm(got.astype(expected.dtype) - expected)
    steps = np.log2(np.prod(lengths, dtype=float) + 2)
    assert error <= 0.6 * float(np.finfo(dtype).eps) * steps * size


@pytest.mark.parametrize("kind", FftType)
@pytest.mark.parametrize("n", SIZES)
def test_sizes(n: int, kind: FftType) -> None:
    for dtype in ("f", "d"):
        check(kind, dtype, (), (n,))
        if n < 5000:
            check(kind, dtype, (19,), (n,))


@pytest.mark.parametrize("kind", FftType)
@pytest.mark.parametrize(
    "lengths", [(4, 6), (1, 5), (17, 1), (64, 33), (3, 4, 5), (67, 2, 7), (20, 16, 30), (5000, 3)]
)
def test_several_axes(lengths: tuple[int, ...], kind: FftType) -> None:
    for dtype in ("f", "d"):
        check(kind, dtype, (), lengths)
        check(kind, dtype, (2, 2), lengths)


def test_a_large_size() -> None:
    for n in (1 << 17, 100_003, 250_000):
        check(FftType.FFT, "d", (), (n,))
        check(FftType.FFT, "f", (), (n,))


def test_single_waves_are_exact_enough() -> None:
    # The error of each number, not of all together: a plan with one bad root shows.
    for n in (512, 1000, 5000):
        k = np.arange(n)
        for wave in (1, n // 3, n - 1):
            x = np.exp(2j * np.pi * (k * wave % n) / n)
            (got,) = run(fft_p, x, fft_type=FftType.FFT, fft_lengths=(n,))
            np.testing.assert_allclose(got, np.where(k == wave, n, 0), atol=n * 1e-15)


def test_threads_share_plans() -> None:
    expected = {n: np.fft.fft(np.arange(n) + 0j) for n in range(100, 260)}
    wrong: list[int] = []

    def work() -> None:
        for n, known in expected.items():
            (got,) = run(fft_p, np.arange(n) + 0j, fft_type=FftType.FFT, fft_lengths=(n,))
            if not np.allclose(got, known):
                wrong.append(n)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_is_not_supported() -> None:
    x = np.zeros(3, np.complex64)
    assert call("fft", [x, x.copy()], [0, 1, 0, ELEMENTS["float32"], 1, 3]) == 2
    assert call("fft", [x, x.copy()], [0, 1, 0, ELEMENTS["complex64"], 4, 3]) == 2
    empty = ShapedArray((0, 3), x.dtype)
    params = {"fft_type": FftType.FFT, "fft_lengths": (3,)}
    assert kernel_call("fft", [empty], [empty], params) is None


@pytest.mark.parametrize(
    ("kind", "shape", "lengths"),
    [
        (FftType.FFT, (1 << 16,), (1 << 16,)),
        (FftType.IFFT, (3, 40_000), (40_000,)),
        (FftType.FFT, (1000, 64), (64,)),
        (FftType.FFT, (100_003,), (100_003,)),
        (FftType.RFFT, (1 << 17,), (1 << 17,)),
        (FftType.IRFFT, (2, 129, 200), (129, 398)),
        (FftType.IFFT, (5, 70, 33, 48), (70, 33, 48)),
        (FftType.FFT, (6000, 20), (6000, 20)),
    ],
)
def test_any_number_of_threads_gives_the_same_bits(
    kind: FftType, shape: tuple[int, ...], lengths: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape)
    x = x if kind is FftType.RFFT else x + 1j * rng.standard_normal(shape)
    for dtype in ("f", "d"):
        given = x.astype(np.result_type(dtype, np.complex64) if np.iscomplexobj(x) else dtype)
        found = []
        for threads in (1, 2, 3):
            with kiln.enable_x64(True), kiln.num_threads(threads):
                compiled = kiln.jit(lambda x: kiln.lax.fft(x, kind.name, lengths))
                found.append(np.asarray(compiled(given)))
        same_bits(found[1], found[0])
        same_bits(found[2], found[0])
