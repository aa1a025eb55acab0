"""Reports about single kernels: convolutions, products, sorting, transforms, random numbers."""

from __future__ import annotations

from typing import Any

import numpy
import scipy.fft

from benchmarks.reports.tracker import JAX, reported
from benchmarks.suite.row import Row, Work, normal, shared, uniform


def depthwise(side: int, channels: int) -> Work:
    """Convolve each feature by itself, features last."""

    def program(lib: Any, x: Any, w: Any) -> Any:
        return lib.root.lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
            feature_group_count=channels,
        )  # fmt: skip

    def torch_of(torch: Any, x: Any, w: Any) -> Any:
        kernel, image = w.permute(3, 2, 0, 1), x.permute(0, 3, 1, 2)
        y = torch.nn.functional.conv2d(image, kernel, padding=1, groups=channels)
        return y.permute(0, 2, 3, 1)

    arguments = (normal(1, side, side, channels), normal(3, 3, 1, channels, seed=1))
    return Work(arguments, program, torch=torch_of)


def looped_convolution(channels: int, length: int) -> Work:
    """Convolve twice along one axis, in a loop."""

    def program(lib: Any, x: Any, w: Any) -> Any:
        def body(_: Any, x: Any) -> Any:
            return lib.root.lax.conv(x, w, (1,), "VALID")

        return lib.root.lax.fori_loop(0, 2, body, x)

    def torch_of(torch: Any, x: Any, w: Any) -> Any:
        return torch.nn.functional.conv1d(torch.nn.functional.conv1d(x, w), w)

    w = normal(channels, channels, 1, seed=1) / numpy.float32(channels**0.5)
    return Work((normal(1, channels, length), w), program, torch=torch_of)


def transposed_convolution(batch: int, channels: int, length: int, size: int, stride: int) -> Work:
    """Apply the transpose of a strided convolution along one axis."""

    def program(lib: Any, x: Any, w: Any) -> Any:
        return lib.root.lax.conv_general_dilated(
            x, w[:, :, ::-1], (1,), [(size - 1, size - 1)], lhs_dilation=(stride,),
            dimension_numbers=("NCH", "IOH", "NCH"),
        )  # fmt: skip

    arguments = (normal(batch, channels, length), normal(channels, channels, size, seed=1))
    return Work(
        arguments,
        program,
        torch=lambda torch, x, w: torch.nn.functional.conv_transpose1d(x, w, stride=stride),
    )


def product(n: int, dtype: str) -> Work:
    """Multiply two matrices."""
    a, b = (normal(n, n, dtype=dtype, seed=i) for i in range(2))
    return shared(lambda np, a, b: a @ b, a, b)


def half_product(n: int) -> Work:
    """Multiply two matrices of half-precision numbers."""
    a, b = normal(n, n, dtype="float16"), normal(n, n, dtype="float16", seed=1)
    return Work((a, b), lambda lib, a, b: a @ b, torch=lambda torch, a, b: a @ b)


def solves(count: int, n: int) -> Work:
    """Solve many small systems."""
    a = normal(count, n, n) + 3 * numpy.eye(n, dtype="float32")
    return shared(lambda np, a, b: np.linalg.solve(a, b), a, normal(count, n, 1, seed=1))


def transform(n: int) -> Work:
    """Transform a volume of complex numbers."""
    x = (normal(n, n, n) + 1j * normal(n, n, n, seed=1)).astype("complex64")
    return Work(
        (x,),
        lambda lib, x: lib.np.fft.fftn(x),
        scipy.fft.fftn,
        lambda torch, x: torch.fft.fftn(x),
    )


def order(rows: int, columns: int) -> Work:
    """Return the order of the numbers of each column."""
    return Work(
        (uniform(rows, columns, dtype="float64").astype("float32"),),
        lambda lib, x: lib.np.argsort(x, 0).astype(lib.np.int32),
        lambda x: numpy.argsort(x, 0, kind="stable").astype("int32"),
        lambda torch, x: torch.argsort(x, dim=0, stable=True).int(),
    )


def some_of(n: int, count: int) -> Work:
    """Draw a few of many numbers, without repetition."""
    return Work(
        (numpy.uint32([0, 5]),),
        lambda lib, key: lib.root.random.permutation(key, n)[:count],
        lambda key: numpy.random.default_rng(0).permutation(n)[:count],
        lambda torch, key: torch.randperm(n)[:count],
    )


def shuffle(n: int) -> Work:
    """Shuffle numbers."""
    return Work(
        (numpy.uint32([0, 5]), normal(n)),
        lambda lib, key, x: lib.root.random.permutation(key, x),
        lambda key, x: numpy.random.default_rng(0).permutation(x),
        lambda torch, key, x: x[torch.randperm(n)],
    )


DRAWN = ("numpy", "torch")
ROWS: list[Row] = [
    reported("depthwise 3x3, 62 x 62 x 256", f"{JAX}/23713", "kernel", depthwise, (62, 256),
             (4, 3), tolerance=1e-4),
    reported("convolution in a loop, 400 features", f"{JAX}/12868", "kernel",
             looped_convolution, (400, 512), (3, 5), tolerance=1e-4),
    reported("transposed convolution, stride 8", f"{JAX}/23783", "kernel",
             transposed_convolution, (4, 64, 256, 16, 8), (2, 3, 4, 4, 2), tolerance=1e-4),
    reported("product of 256, f64", f"{JAX}/3832", "kernel", product, (256, "float64"),
             (4, "float64"), x64=True, tolerance=1e-12),
    reported("product of 512, f16", f"{JAX}/7431", "kernel", half_product, (512,), (4,),
             tolerance=1e-2),
    reported("2000 systems of 6", f"{JAX}/36799", "kernel", solves, (2000, 6), (3, 2),
             tolerance=1e-3),
    reported("fftn of 96^3", f"{JAX}/25808", "kernel", transform, (96,), (4,), tolerance=1e-4),
    reported("argsort of columns, 100 x 1e4", f"{JAX}/10434", "kernel", order, (100, 10_000),
             (5, 3)),
    reported("500 of 1e4 by permutation", f"{JAX}/5328", "kernel", some_of, (10_000, 500),
             (9, 4), by_shape=DRAWN),
    reported("shuffle of 3e5", f"{JAX}/2301", "kernel", shuffle, (300_000,), (9,),
             by_shape=DRAWN),
]  # fmt: skip
