"""Rows of Fourier transforms, convolutions and windows."""

from __future__ import annotations

from typing import Any

import numpy
import scipy.fft
import scipy.signal

from benchmarks.suite.row import Row, Work, normal

WORKERS = 2


def _complex(*shape: int) -> numpy.ndarray:
    return (normal(*shape) + 1j * normal(*shape, seed=1)).astype("complex64")


def fft(*shape: int) -> Work:
    """Transform the last axis."""
    return Work(
        (_complex(*shape),),
        lambda lib, x: lib.np.fft.fft(x),
        lambda x: scipy.fft.fft(x, workers=WORKERS),
        lambda torch, x: torch.fft.fft(x),
    )


def fft2(n: int) -> Work:
    """Transform two axes."""
    return Work(
        (_complex(n, n),),
        lambda lib, x: lib.np.fft.fft2(x),
        lambda x: scipy.fft.fft2(x, workers=WORKERS),
        lambda torch, x: torch.fft.fft2(x),
    )


def filtered(n: int) -> Work:
    """Filter a real signal in the frequency domain."""
    kept = n // 2 + 1

    def program(lib: Any, x: Any, gain: Any) -> Any:
        return lib.np.fft.irfft(lib.np.fft.rfft(x) * gain, n)

    def plain(x: Any, gain: Any) -> Any:
        return scipy.fft.irfft(scipy.fft.rfft(x) * gain, n)

    def torch_of(torch: Any, x: Any, gain: Any) -> Any:
        return torch.fft.irfft(torch.fft.rfft(x) * gain, n)

    gain = numpy.exp(-numpy.linspace(0, 5, kept)).astype("float32")
    return Work((normal(n), gain), program, plain, torch_of)


def conv(batch: int, channels: int, n: int, out: int, window: int, stride: int) -> Work:
    """Convolve images whose channels come first."""
    pad = window // 2

    def program(lib: Any, x: Any, w: Any) -> Any:
        padding = [(pad, pad), (pad, pad)]
        return lib.root.lax.conv_general_dilated(x, w, (stride, stride), padding)

    def torch_of(torch: Any, x: Any, w: Any) -> Any:
        return torch.nn.functional.conv2d(x, w, stride=stride, padding=pad)

    x, w = normal(batch, channels, n, n), normal(out, channels, window, window, seed=1)
    return Work((x, w), program, torch=torch_of)


def conv_last(batch: int, channels: int, n: int, out: int) -> Work:
    """Convolve images whose channels come last, 3 x 3."""
    numbers = ("NHWC", "HWIO", "NHWC")

    def program(lib: Any, x: Any, w: Any) -> Any:
        return lib.root.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers)

    def torch_of(torch: Any, x: Any, w: Any) -> Any:
        # A view: torch keeps the memory format of its argument.
        y = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1)
        return y.permute(0, 2, 3, 1)

    x, w = normal(batch, n, n, channels), normal(3, 3, channels, out, seed=1)
    return Work((x, w), program, torch=torch_of)


def depthwise(batch: int, channels: int, n: int) -> Work:
    """Convolve each channel with a window of its own."""

    def program(lib: Any, x: Any, w: Any) -> Any:
        return lib.root.lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=channels)

    def torch_of(torch: Any, x: Any, w: Any) -> Any:
        return torch.nn.functional.conv2d(x, w, padding=1, groups=channels)

    x, w = normal(batch, channels, n, n), normal(channels, 1, 3, 3, seed=1)
    return Work((x, w), program, torch=torch_of)


def convolve(n: int, window: int) -> Work:
    """Convolve a vector with a short one."""

    def torch_of(torch: Any, x: Any, w: Any) -> Any:
        y = torch.nn.functional.conv1d(x[None, None], w.flip(0)[None, None], padding="same")
        return y[0, 0]

    return Work(
        (normal(n), normal(window, seed=1)),
        lambda lib, x, w: lib.np.convolve(x, w, mode="same"),
        lambda x, w: numpy.convolve(x, w, mode="same"),
        torch_of,
    )


def pooled(batch: int, channels: int, n: int) -> Work:
    """Take the greatest number of every 2 x 2 window."""

    def program(lib: Any, x: Any) -> Any:
        window = (1, 1, 2, 2)
        return lib.root.lax.reduce_window(x, -lib.np.inf, lib.root.lax.max, window, window, "VALID")

    def plain(x: Any) -> Any:
        return x.reshape(batch, channels, n // 2, 2, n // 2, 2).max((3, 5))

    def torch_of(torch: Any, x: Any) -> Any:
        return torch.nn.functional.max_pool2d(x, 2)

    return Work((normal(batch, channels, n, n),), program, plain, torch_of)


ROWS = [
    Row("fft 1024", "fft", fft, (1024,), (16,)),
    Row("fft 2^20", "fft", fft, (1 << 20,), (16,)),
    Row("fft 1e6", "fft", fft, (1_000_000,), (30,)),
    Row("10,000 ffts of 64", "fft", fft, (10_000, 64), (3, 8)),
    Row("fft2 512^2", "fft", fft2, (512,), (8,)),
    Row("filter by rfft 2^18", "fft", filtered, (1 << 18,), (16,)),
    Row("conv 3x3, 8 x 64 x 56^2", "conv", conv, (8, 64, 56, 64, 3, 1), (1, 2, 5, 3, 3, 1), 1e-4),
    Row("conv 7x7 / 2, 3 x 224^2", "conv", conv, (1, 3, 224, 64, 7, 2), (1, 2, 9, 3, 7, 2), 1e-4),
    Row(
        "conv 1x1, 8 x 256 x 14^2", "conv", conv, (8, 256, 14, 256, 1, 1), (1, 2, 4, 3, 1, 1), 1e-4
    ),
    Row("conv 3x3 channels last, 56^2", "conv", conv_last, (8, 64, 56, 64), (1, 2, 5, 3), 1e-4),
    Row("depthwise conv 8 x 64 x 56^2", "conv", depthwise, (8, 64, 56), (1, 2, 5), 1e-4),
    Row("convolve 1e5 with 31", "conv", convolve, (100_000, 31), (17, 3), 1e-4),
    Row("max of 2x2, 8 x 64 x 56^2", "conv", pooled, (8, 64, 56), (1, 2, 6)),
]
