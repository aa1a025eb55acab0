"""Reports about operations on whole arrays: sums, counts, scatters, indices."""

from __future__ import annotations

from typing import Any

import numpy
import scipy.ndimage

from benchmarks.reports.tracker import JAX, SGKIT, reported
from benchmarks.suite.row import Row, Work, integers, normal, shared, uniform


def cumulative(*shape: int) -> Work:
    """Add cumulatively along the first axis."""
    return shared(lambda np, x: np.cumsum(x, 0), uniform(*shape, dtype="float64"))


def cumulative_whole(rows: int, columns: int) -> Work:
    """Add whole numbers cumulatively along the first axis."""
    return Work(
        (integers(rows, columns, high=1000, dtype="uint32"),),
        lambda lib, x: lib.np.cumsum(x, 0),
        lambda x: numpy.cumsum(x, 0, dtype="uint32"),
    )


def cumulative_xor(rows: int, columns: int) -> Work:
    """Combine whole numbers cumulatively by exclusive or."""
    return Work(
        (integers(rows, columns, high=1 << 30, dtype="uint32"),),
        lambda lib, x: lib.root.lax.associative_scan(lib.np.bitwise_xor, x),
        numpy.bitwise_xor.accumulate,
    )


def differences(n: int, gradient: bool) -> Work:
    """Add the squared differences of neighbors along three axes of a volume."""

    def program(lib: Any, x: Any) -> Any:
        def total(x: Any) -> Any:
            return sum(lib.np.sum(lib.np.diff(x, axis=axis) ** 2) for axis in range(3))

        return lib.root.grad(total)(x) if gradient else total(x)

    return Work((normal(n, n, n),), program)


def allele_counts(variants: int, samples: int) -> Work:
    """Count, for each variant and sample, how often each of three alleles was called."""
    alleles = 3

    def program(lib: Any, calls: Any) -> Any:
        def counts(pair: Any) -> Any:
            known = lib.np.where(pair < 0, alleles, pair)
            return lib.np.bincount(known, length=alleles + 1)[:alleles]

        return lib.root.vmap(lib.root.vmap(counts))(calls).astype(lib.np.uint8)

    calls = (integers(variants, samples, 2, high=alleles + 1, dtype="int64") - 1).astype("int8")
    return Work((calls,), program, numba="allele_counts")


def triangles(batch: int, n: int) -> Work:
    """Scatter vectors into the lower triangles of matrices."""
    rows, columns = numpy.tril_indices(n)
    places = (rows * n + columns).astype("int32")

    def program(lib: Any, x: Any) -> Any:
        return lib.np.zeros((batch, n * n), x.dtype).at[:, places].add(x).reshape(batch, n, n)

    def plain(x: Any) -> Any:
        out = numpy.zeros((batch, n * n), x.dtype)
        out[:, places] = x
        return out.reshape(batch, n, n)

    return Work((normal(batch, len(places)),), program, plain)


def histogram(n: int, edges: int) -> Work:
    """Count numbers between edges."""
    return Work(
        (uniform(n, high=float(edges)), numpy.arange(edges, dtype="float32")),
        lambda lib, x, edges: lib.np.histogram(x, edges)[0].astype(lib.np.int32),
        lambda x, edges: numpy.histogram(x, edges)[0].astype("int32"),
    )


def pair_counts(n: int) -> Work:
    """Add the weights of pairs of points that are within each of several radii."""

    def program(lib: Any, one: Any, other: Any, weights: Any, radii: Any) -> Any:
        apart = one[:, None] - other[None]
        distances = lib.np.sum(apart * apart, -1)
        both = weights[:, None] * weights[None]
        return lib.root.vmap(lambda r: lib.np.sum(lib.np.where(distances <= r, both, 0)))(radii)

    radii = numpy.linspace(0.01, 0.3, 10).astype("float32")
    points = [uniform(n, 3, seed=i) for i in range(2)]
    return Work((*points, uniform(n, seed=3), radii), program, numba="pair_counts")


def sampled(side: int) -> Work:
    """Read an image at moved places, by linear interpolation."""
    where = numpy.stack(numpy.meshgrid(*2 * [numpy.arange(side)], indexing="ij"))
    where = (where + 2 * normal(2, side, side, seed=1)).astype("float32")
    return Work(
        (normal(side, side), where),
        lambda lib, x, at: lib.root.scipy.ndimage.map_coordinates(x, list(at), 1, "nearest"),
        lambda x, at: scipy.ndimage.map_coordinates(x, list(at), order=1, mode="nearest"),
    )


def rows_set(rows: int, columns: int, count: int) -> Work:
    """Set a few rows of an array."""

    def plain(x: Any, at: Any, y: Any) -> Any:
        out = x.copy()
        out[at] = y
        return out

    at = numpy.arange(count, dtype="int32") * (rows // count)
    return Work(
        (normal(rows, columns), at, normal(columns, seed=1)),
        lambda lib, x, at, y: x.at[at].set(y),
        plain,
    )


ROWS: list[Row] = [
    reported("cumsum, 120 x 80 x 60 x 3, f64", f"{JAX}/4135", "array", cumulative,
             (120, 80, 60, 3), (4, 3, 2, 3), x64=True),
    reported("cumsum of whole numbers, 8192 x 512", f"{JAX}/28097", "array", cumulative_whole,
             (8192, 512), (5, 3)),
    reported("cumulative xor, 2048 x 512", f"{JAX}/28097", "array", cumulative_xor,
             (2048, 512), (5, 3)),
    reported("squared differences of a volume", f"{JAX}/37465", "array", differences,
             (128, False), (4, False), tolerance=1e-4),
    reported("gradient of squared differences", f"{JAX}/37465", "array", differences,
             (128, True), (4, True)),
    reported("allele counts, 2000 x 500", SGKIT, "array", allele_counts, (2000, 500), (3, 4)),
    reported("scatter into triangles, 400 x 79", f"{JAX}/695", "array", triangles, (400, 79),
             (2, 4)),
    reported("histogram of 1e6", f"{JAX}/12774", "array", histogram, (1_000_000, 70), (20, 5)),
    reported("weighted pair counts, 1000 x 1000", f"{JAX}/3002", "array", pair_counts, (1000,),
             (6,), tolerance=1e-4),
    reported("map_coordinates, 256 x 256", f"{JAX}/26152", "array", sampled, (256,), (6,),
             tolerance=1e-4),
    reported("rows set, 20000 x 300", f"{JAX}/15684", "array", rows_set, (20_000, 300, 100),
             (8, 3, 2)),
]  # fmt: skip
