"""Rows that order and select."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.suite.row import Row, Work, integers, normal, shared


def sort(n: int, dtype: str = "float32") -> Work:
    """Sort a vector."""
    x = normal(n) if dtype == "float32" else integers(n, high=1 << 30)
    return Work(
        (x,),
        lambda lib, x: lib.np.sort(x),
        numpy.sort,
        lambda torch, x: torch.sort(x)[0],
        "sort" if n > 100 else None,
    )


def sort_integers(n: int) -> Work:
    """Sort whole numbers."""
    return sort(n, "int32")


def sort_rows(n: int, width: int) -> Work:
    """Sort each row."""
    return Work(
        (normal(n, width),),
        lambda lib, x: lib.np.sort(x, axis=1),
        lambda x: numpy.sort(x, axis=1),
        lambda torch, x: torch.sort(x, dim=1)[0],
    )


def argsort(n: int) -> Work:
    """Return the stable order of a vector."""
    return Work(
        (normal(n),),
        lambda lib, x: lib.np.argsort(x),
        lambda x: numpy.argsort(x, stable=True),
        lambda torch, x: torch.argsort(x, stable=True),
    )


def sort_pairs(n: int) -> Work:
    """Sort values by their keys."""

    def program(lib: Any, keys: Any, values: Any) -> Any:
        return lib.root.lax.sort_key_val(keys, values)

    def plain(keys: Any, values: Any) -> Any:
        order = numpy.argsort(keys, stable=True)
        return keys[order], values[order]

    def torch_of(torch: Any, keys: Any, values: Any) -> Any:
        ordered, order = torch.sort(keys, stable=True)
        return ordered, values[order]

    return Work((integers(n, high=n), normal(n)), program, plain, torch_of)


def top_k(n: int, k: int) -> Work:
    """Return the greatest numbers, in order."""

    def plain(x: Any) -> Any:
        return -numpy.sort(numpy.partition(-x, k)[:k])

    return Work(
        (normal(n),),
        lambda lib, x: lib.root.lax.top_k(x, k)[0],
        plain,
        lambda torch, x: torch.topk(x, k)[0],
    )


def top_k_rows(n: int, width: int, k: int) -> Work:
    """Return the greatest numbers of each row, and where they are."""
    return Work(
        (normal(n, width),),
        lambda lib, x: tuple(lib.root.lax.top_k(x, k)),
        None,
        lambda torch, x: tuple(torch.topk(x, k)),
    )


def median(n: int) -> Work:
    """Return the middle of an odd number of numbers."""
    return shared(lambda np, x: np.median(x), normal(n))


def distinct(n: int, high: int) -> Work:
    """Count distinct whole numbers, and mark where each first stands in their order."""

    def of(np: Any, x: Any) -> Any:
        x = np.sort(x)
        new = x[1:] != x[:-1]
        return 1 + np.sum(new), new

    def torch_of(torch: Any, x: Any) -> Any:
        x = torch.sort(x)[0]
        new = x[1:] != x[:-1]
        return 1 + torch.sum(new), new

    return shared(of, integers(n, high=high), torch=torch_of)


def search(n: int, table: int) -> Work:
    """Find places in a sorted table."""
    return shared(
        lambda np, t, x: np.searchsorted(t, x), numpy.sort(normal(table)), normal(n, seed=1)
    )


MILLION = 1_000_000
ROWS = [
    Row("sort 1e6", "sorting", sort, (MILLION,), (33,), compiled=True),
    Row("sort 1e3", "sorting", sort, (1000,), (33,)),
    Row("sort int32 1e6", "sorting", sort_integers, (MILLION,), (33,)),
    Row("sort 10,000 rows of 100", "sorting", sort_rows, (10_000, 100), (3, 9)),
    Row("argsort 1e5", "sorting", argsort, (100_000,), (33,)),
    Row("argsort 1e6", "sorting", argsort, (MILLION,), (33,)),
    Row("sort pairs 1e6", "sorting", sort_pairs, (MILLION,), (33,)),
    Row("top 100 of 1e6", "sorting", top_k, (MILLION, 100), (33, 4)),
    Row("top 5 of 1000 rows of 1000", "sorting", top_k_rows, (1000, 1000, 5), (3, 9, 2)),
    Row("median 1e6", "sorting", median, (MILLION + 1,), (33,)),
    Row("distinct of 1e6", "sorting", distinct, (MILLION, 50_000), (33, 9)),
    Row("search 1e5 in 1e4", "sorting", search, (100_000, 10_000), (9, 7)),
]
