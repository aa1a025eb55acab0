"""Sorting, searching, sets, histograms, differences and interpolation give jax's arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy
from tests.differential.operands import DTYPES, smooth
from tests.differential.oracle import Case, Topic

X = smooth("float32", (3, 4))
EDGES = np.array([0.0, np.nan, -0.0, 2.5, -np.inf, 1.0, np.inf, -0.0, 0.0, np.nan], np.float32)
SORTED = np.array([-2.0, -1.0, 0.5, 0.5, 2.0, 3.5], np.float32)
V = np.array([-3.0, 0.5, 0.7, 2.0, 9.0, np.nan], np.float32)
I = np.array([3, 1, 1, 0, 5, 3, 3], np.int32)
J = np.array([0, 3, 7, 7, 5], np.int32)
B = np.array([True, False, True])
Run = Callable[[Any], Any]


def x(n: Any) -> Any:
    return n.asarray(X)


def s(n: Any) -> Any:
    return n.asarray(SORTED)


def v(n: Any) -> Any:
    return n.asarray(V)


def i(n: Any) -> Any:
    return n.asarray(I)


def j(n: Any) -> Any:
    return n.asarray(J)


GROUPS: dict[str, dict[str, Run]] = {
    "sort": {
        "axis": lambda n: n.sort(x(n), 0),
        "flat": lambda n: n.sort(x(n), None),
        "descending": lambda n: n.sort(x(n), descending=True),
        "edges": lambda n: n.sort(n.asarray(EDGES)),
        "weak": lambda n: n.sort(n.full((2,), 2.0)),
        "list": lambda n: n.sort([2, 1]),
        "kind": lambda n: n.sort(x(n), kind="quicksort"),
        "method": lambda n: x(n).sort(),
        "outside": lambda n: n.sort(x(n), 2),
        "sort_complex": lambda n: n.sort_complex(i(n)),
        "partition": lambda n: n.sort(n.partition(i(n), 3)[:3]),
        "argpartition": lambda n: n.sort(i(n)[n.argpartition(i(n), 3)][:3]),
        **{dtype: lambda n, d=dtype: n.sort(n.asarray(smooth(d, (6,)))) for dtype in DTYPES},
    },
    "argsort": {
        "axis": lambda n: n.argsort(x(n), 0),
        "flat": lambda n: n.argsort(x(n), None),
        "descending": lambda n: n.argsort(i(n), descending=True),
        "edges": lambda n: n.argsort(n.asarray(EDGES)),
        "edges descending": lambda n: n.argsort(n.asarray(EDGES), descending=True),
        "weak": lambda n: n.argsort(n.full((2,), 2.0)),
        **{dtype: lambda n, d=dtype: n.argsort(n.asarray(smooth(d, (6,)))) for dtype in DTYPES},
        "lexsort": lambda n: n.lexsort((i(n), n.asarray(I[::-1] % 2))),
        "lexsort matrix": lambda n: n.lexsort(x(n)),
        "lexsort nothing": lambda n: n.lexsort(()),
        "lexsort shapes": lambda n: n.lexsort((i(n), j(n))),
    },
    "search": {
        "left": lambda n: n.searchsorted(s(n), v(n)),
        "right": lambda n: n.searchsorted(s(n), v(n), "right"),
        "scalar": lambda n: n.searchsorted(s(n), 0.5),
        "matrix": lambda n: n.searchsorted(s(n), x(n)),
        "with nans": lambda n: n.searchsorted(n.array([0.0, 1.0, np.nan]), v(n)),
        "with nans right": lambda n: n.searchsorted(n.array([0.0, 1.0, np.nan]), v(n), "right"),
        "long": lambda n: n.searchsorted(n.arange(300) // 2, n.arange(-2, 160, 7)),
        "long right": lambda n: n.searchsorted(n.arange(300) // 2, n.arange(-2, 160, 7), "right"),
        "ints and floats": lambda n: n.searchsorted(n.arange(4), 1.5),
        "sorter": lambda n: n.searchsorted(i(n), 2, sorter=n.argsort(i(n))),
        "empty": lambda n: n.searchsorted(n.zeros(0), v(n)),
        "side": lambda n: n.searchsorted(s(n), 1.0, "middle"),
        "matrix to search": lambda n: n.searchsorted(x(n), 1.0),
        "method": lambda n: s(n).searchsorted(1.0),
        "digitize": lambda n: n.digitize(x(n), s(n)),
        "digitize right": lambda n: n.digitize(s(n), s(n), right=True),
        "digitize falling": lambda n: n.digitize(x(n), s(n)[::-1]),
        "digitize falling right": lambda n: n.digitize(s(n), s(n)[::-1], right=True),
    },
    "count": {
        "bincount": lambda n: n.bincount(i(n)),
        "bincount weights": lambda n: n.bincount(j(n), weights=n.arange(5.0)),
        "bincount minlength": lambda n: n.bincount(i(n), minlength=9),
        "bincount length": lambda n: n.bincount(i(n), length=4),
        "bincount negative": lambda n: n.bincount(n.array([-1, 2])),
        "bincount empty": lambda n: n.bincount(n.zeros(0, int)),
        "bincount floats": lambda n: n.bincount(x(n)),
        "histogram": lambda n: n.histogram(x(n)),
        "histogram ints": lambda n: n.histogram(i(n), 3),
        "histogram range": lambda n: n.histogram(x(n), 4, (-1, 1)),
        "histogram edges": lambda n: n.histogram(x(n), n.array([-3.0, -1.0, 0.0, 3.0])),
        "histogram weights": lambda n: n.histogram(i(n), 3, weights=n.arange(7.0)),
        "histogram density": lambda n: n.histogram(x(n), 4, density=True),
        "histogram constant": lambda n: n.histogram(n.ones(3), 4),
        "edges": lambda n: n.histogram_bin_edges(x(n), 3),
        "histogram2d": lambda n: n.histogram2d(x(n)[0], x(n)[1], 3),
        "histogram2d edges": lambda n: n.histogram2d(
            x(n)[0], x(n)[1], [2, n.array([-3.0, 0.0, 3.0])]
        ),
        "histogramdd": lambda n: n.histogramdd(x(n)[:, :3], 2),
        "histogramdd density": lambda n: n.histogramdd(x(n)[:, :2], 3, density=True),
    },
    "sets": {
        "unique": lambda n: n.unique(i(n)),
        "unique matrix": lambda n: n.unique(n.asarray(I[:6]).reshape(2, 3)),
        "unique all": lambda n: n.unique(i(n), True, True, True),
        "unique size": lambda n: n.unique(i(n), True, True, True, size=6, fill_value=-1),
        "unique size without fill": lambda n: n.unique(i(n), size=6),
        "unique too few": lambda n: n.unique(i(n), size=2),
        "unique axis": lambda n: n.unique(n.array([[1, 2], [0, 1], [1, 2]]), axis=0),
        "unique axis 1": lambda n: n.unique(
            n.array([[1, 0, 1], [2, 1, 2]]), axis=1, return_inverse=True
        ),
        "unique nans": lambda n: n.unique(n.array([1.0, np.nan, np.nan])),
        "unique nans differ": lambda n: n.unique(n.array([1.0, np.nan, np.nan]), equal_nan=False),
        "unique bools": lambda n: n.unique(n.asarray(B)),
        "unique empty": lambda n: n.unique(n.zeros(0)),
        "unique_all": lambda n: n.unique_all(i(n)),
        "unique_counts": lambda n: n.unique_counts(i(n)),
        "unique_inverse": lambda n: n.unique_inverse(i(n)),
        "unique_values": lambda n: n.unique_values(i(n)),
        "union1d": lambda n: n.union1d(i(n), j(n)),
        "union1d size": lambda n: n.union1d(i(n), j(n), size=8),
        "intersect1d": lambda n: n.intersect1d(i(n), j(n)),
        "intersect1d indices": lambda n: n.intersect1d(i(n), j(n), return_indices=True),
        "intersect1d size": lambda n: n.intersect1d(i(n), j(n), size=2),
        "setdiff1d": lambda n: n.setdiff1d(i(n), j(n)),
        "setdiff1d size": lambda n: n.setdiff1d(i(n), j(n), size=3, fill_value=-1),
        "setxor1d": lambda n: n.setxor1d(i(n), j(n)),
        "isin": lambda n: n.isin(i(n), j(n)),
        "isin matrix": lambda n: n.isin(x(n), x(n)[0], invert=True),
        "isin long": lambda n: n.isin(n.arange(10), n.arange(5, 300)),
        "isin nothing": lambda n: n.isin(i(n), n.zeros(0, int)),
    },
    "differences": {
        "diff": lambda n: n.diff(x(n)),
        "diff twice": lambda n: n.diff(x(n), 2, axis=0),
        "diff bools": lambda n: n.diff(n.asarray(B)),
        "diff unsigned": lambda n: n.diff(n.array([3, 1], dtype="uint8")),
        "diff weak": lambda n: n.diff(n.full((3,), 2.0)),
        "diff ends": lambda n: n.diff(i(n), prepend=0, append=n.array([9, 10])),
        "diff none": lambda n: n.diff(i(n), 0),
        "diff scalar": lambda n: n.diff(n.asarray(1)),
        "diff negative": lambda n: n.diff(i(n), -1),
        "ediff1d": lambda n: n.ediff1d(x(n)),
        "ediff1d ends": lambda n: n.ediff1d(i(n), to_end=n.array([9, 10]), to_begin=-5),
        "gradient": lambda n: n.gradient(x(n)),
        "gradient axis": lambda n: n.gradient(x(n), axis=0),
        "gradient step": lambda n: n.gradient(x(n), 2.0, 0.5),
        "gradient coordinates": lambda n: n.gradient(x(n)[0], n.array([0.0, 1.0, 3.0, 4.5])),
        "gradient ints": lambda n: n.gradient(i(n)),
        "gradient short": lambda n: n.gradient(n.ones(1)),
        "trapezoid": lambda n: n.trapezoid(x(n)),
        "trapezoid step": lambda n: n.trapezoid(i(n), dx=0.5),
        "trapezoid points": lambda n: n.trapezoid(x(n), n.array([0.0, 1.0, 3.0]), axis=0),
        "unwrap": lambda n: n.unwrap(n.array([0.0, 3.0, 6.5, -3.0, 2.0])),
        "unwrap period": lambda n: n.unwrap(n.array([0, 3, 1, -3, 2]), period=4),
    },
    "interp": {
        "inside": lambda n: n.interp(
            n.array([0.5, 1.5, 2.0]), n.arange(4), n.array([0.0, 2.0, 1.0, 5.0])
        ),
        "outside": lambda n: n.interp(
            n.array([-1.0, 9.0]), n.arange(4), n.array([1.0, 2.0, 1.0, 5.0])
        ),
        "sides": lambda n: n.interp(n.array([-1.0, 9.0]), n.arange(4), n.arange(4.0), -7, 8.0),
        "extrapolate": lambda n: n.interp(
            n.array([-1.0, 9.0]),
            n.arange(4),
            n.array([1.0, 2.0, 1.0, 5.0]),
            "extrapolate",
            "extrapolate",
        ),
        "period": lambda n: n.interp(
            n.array([-1.0, 3.5, 9.0]),
            n.array([0.0, 1.0, 3.0]),
            n.array([1.0, 2.0, 0.0]),
            period=4.0,
        ),
        "scalar": lambda n: n.interp(1.5, n.arange(4), n.arange(4)),
        "complex": lambda n: n.interp(1.5, n.arange(3), n.array([1j, 2.0, 3.0])),
        "shapes": lambda n: n.interp(1.5, n.arange(3), n.arange(4)),
    },
    "windows": {
        name: lambda n, name=name: getattr(n, name)(5)
        for name in ("bartlett", "blackman", "hamming", "hanning")
    }
    | {"kaiser": lambda n: n.kaiser(5, 2.0)},
}
# Windows come from NumPy in 64 bits; jax computes them in 32.
LOOSE = {"windows": 1e-4}


def cases() -> Iterator[Case]:
    for group, members in GROUPS.items():
        for name, run in members.items():
            yield Case(group, name, lambda lib, run=run: run(lib.numpy), LOOSE.get(group))


TOPIC = Topic("numpy_order", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
