"""Rows that permute axes, and rows that address elements by number."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.suite.row import Row, Work, integers, normal, shared


def transpose_add(n: int) -> Work:
    """Transpose and add one."""
    return shared(lambda np, x: x.T + 1, normal(n, n), numba="transpose_add")


def transpose(n: int, dtype: str = "float32") -> Work:
    """Transpose into new memory."""
    return Work(
        (normal(n, n, dtype=dtype),),
        lambda lib, x: lib.np.transpose(x),
        lambda x: x.T.copy(),
        lambda torch, x: x.T.contiguous(),
    )


def transpose_f64(n: int) -> Work:
    """Transpose float64 into new memory."""
    return transpose(n, "float64")


def permuted(order: tuple[int, int, int], n: int) -> Work:
    """Permute three axes and double."""
    return Work(
        (normal(n, n, n),),
        lambda lib, x: lib.np.transpose(x, order) * 2,
        lambda x: numpy.ascontiguousarray(x.transpose(order)) * 2,
        lambda torch, x: x.permute(order).contiguous() * 2,
    )


def outer_first(n: int) -> Work:
    """Permute axes as (1, 0, 2): whole rows move."""
    return permuted((1, 0, 2), n)


def inner_swap(n: int) -> Work:
    """Permute axes as (0, 2, 1): a batch of transposes."""
    return permuted((0, 2, 1), n)


def reversed_axes(n: int) -> Work:
    """Permute axes as (2, 1, 0)."""
    return permuted((2, 1, 0), n)


def heads(batch: int, n: int, width: int) -> Work:
    """Bring the heads of an attention to the front."""

    def program(lib: Any, x: Any) -> Any:
        return x.reshape(batch, n, 8, width).transpose(0, 2, 1, 3) * 0.125

    def torch_of(torch: Any, x: Any) -> Any:
        return x.reshape(batch, n, 8, width).permute(0, 2, 1, 3) * 0.125

    x = normal(batch, n, 8 * width)
    return Work((x,), program, lambda x: numpy.ascontiguousarray(program(None, x)), torch_of)


def gather_rows(table: int, width: int, n: int) -> Work:
    """Look up rows of a table."""

    def program(lib: Any, x: Any, rows: Any) -> Any:
        return x[rows]

    return Work(
        (normal(table, width), integers(n, high=table)),
        program,
        lambda x, rows: x[rows],
        lambda torch, x, rows: torch.index_select(x, 0, rows),
        "gather_rows",
    )


def segment_sum(n: int, segments: int) -> Work:
    """Add numbers by the segment they belong to."""

    def program(lib: Any, x: Any, of: Any) -> Any:
        return lib.np.zeros(segments, x.dtype).at[of].add(x)

    def torch_of(torch: Any, x: Any, of: Any) -> Any:
        return torch.zeros(segments).index_add(0, of, x)

    return Work(
        (normal(n), integers(n, high=segments)),
        program,
        lambda x, of: numpy.bincount(of, x, segments).astype("float32"),
        torch_of,
        "segment_sum" if segments == 1000 else None,
    )


def embedding_gradient(table: int, width: int, n: int) -> Work:
    """Add rows into a table at given places."""

    def program(lib: Any, x: Any, rows: Any, update: Any) -> Any:
        return x.at[rows].add(update)

    def plain(x: Any, rows: Any, update: Any) -> Any:
        out = x.copy()
        numpy.add.at(out, rows, update)
        return out

    def torch_of(torch: Any, x: Any, rows: Any, update: Any) -> Any:
        return x.index_add(0, rows, update)

    arguments = (normal(table, width), integers(n, high=table), normal(n, width, seed=1))
    return Work(arguments, program, plain, torch_of)


def take_along(n: int, width: int) -> Work:
    """Take one number of each row."""

    def torch_of(torch: Any, x: Any, at: Any) -> Any:
        return torch.gather(x, 1, at.long())

    return Work(
        (normal(n, width), integers(n, 1, high=width)),
        lambda lib, x, at: lib.np.take_along_axis(x, at, 1),
        lambda x, at: numpy.take_along_axis(x, at, 1),
        torch_of,
    )


def interpolate(n: int, points: int) -> Work:
    """Interpolate in a table, linearly."""
    nodes = numpy.linspace(-4, 4, points, dtype="float32")
    return Work(
        (numpy.clip(normal(n), -3.9, 3.9), nodes, numpy.sin(nodes)),
        lambda lib, x, nodes, values: lib.np.interp(x, nodes, values),
        lambda x, nodes, values: numpy.interp(x, nodes, values).astype("float32"),
    )


ROWS = [
    Row("transpose + 1, 2048^2", "transposes", transpose_add, (2048,), (7,), compiled=True),
    Row("transpose 2048^2", "transposes", transpose, (2048,), (7,)),
    Row("transpose 64^2", "transposes", transpose, (64,), (7,)),
    Row("transpose f64 1024^2", "transposes", transpose_f64, (1024,), (7,), x64=True),
    Row("axes (1, 0, 2), 128^3", "transposes", outer_first, (128,), (5,)),
    Row("axes (0, 2, 1), 128^3", "transposes", inner_swap, (128,), (5,)),
    Row("axes (2, 1, 0), 128^3", "transposes", reversed_axes, (128,), (5,), compiled=True),
    Row("heads to the front, 8 x 256 x 512", "transposes", heads, (8, 256, 64), (2, 3, 4)),
    Row("gather 10,000 rows of 128", "indexing", gather_rows, (10_000, 128, 10_000), (9, 4, 6)),
    Row(
        "segment sum 1e6 into 1000",
        "indexing",
        segment_sum,
        (1_000_000, 1000),
        (40, 7),
        tolerance=1e-4,
        compiled=True,
    ),
    Row("segment sum 1e5 into 1e5", "indexing", segment_sum, (100_000, 100_000), (9, 9), 1e-4),
    Row(
        "add 4096 rows into 10,000 x 128",
        "indexing",
        embedding_gradient,
        (10_000, 128, 4096),
        (7, 4, 9),
    ),
    Row("take along axis 1, 1e5 x 10", "indexing", take_along, (100_000, 10), (7, 3)),
    Row("interpolate 1e5 in 1000", "indexing", interpolate, (100_000, 1000), (9, 5), 1e-4),
]
