"""`batch` is a loop over stacked operands, whichever are stacked, along whichever axis."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from kiln.core.arrays.array import from_host, host_value
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import symbol
from kiln.ir.sizes.values import substitute
from kiln.ops.shape import mapped_at
from kiln.transforms.batching import MappedAxis, batch
from tests.cases.case import Case
from tests.cases.collection import CASES, applied, assert_close, drawn, each

EXAMPLES = 2
MOST_OPERANDS = 3
"""Beyond this many operands not every subset of them is tried."""
BATCHED = [case for case in CASES if case.operands and case.batch]


def subsets(count: int) -> Iterator[tuple[int, ...]]:
    """Yield which operands are stacked."""
    if count <= MOST_OPERANDS:
        for size in range(1, count + 1):
            yield from itertools.combinations(range(count), size)
    else:
        yield from ((i,) for i in range(count))
        yield tuple(range(count))


def stacked(case: Case, mapped: tuple[int, ...], last: bool) -> tuple[list[Any], list[int | None]]:
    """Return operands, those in `mapped` stacked along their first or last axis, and the axes."""
    examples = [drawn(case, seed) for seed in range(EXAMPLES)]
    args: list[Any] = []
    axes: list[int | None] = []
    for i, first in enumerate(examples[0]):
        if i in mapped:
            axis = first.ndim if last else 0
            args.append(np.stack([example[i] for example in examples], axis))
            axes.append(axis)
        else:
            args.append(first)
            axes.append(None)
    return args, axes


@each(BATCHED, "batch")
def test_batch_is_a_loop(case: Case) -> None:
    for mapped in subsets(len(case.operands)):
        for last in (False, True):
            args, axes = stacked(case, mapped, last)
            arrays = list(map(from_host, args))
            outs, at = batch(lambda *xs: applied(case, xs), MappedAxis(EXAMPLES), arrays, axes)
            outs = [mapped_at(x, EXAMPLES, a, 0) for x, a in zip(outs, at, strict=True)]
            for e in range(EXAMPLES):
                example = [
                    x if a is None else np.take(x, e, a) for x, a in zip(args, axes, strict=True)
                ]
                expected = applied(case, example)
                for out, one in zip(outs, expected, strict=True):
                    what = f"operands {mapped} stacked at {axes}, example {e}"
                    assert_close(host_value(out)[e], one, case.tolerance, what)
                    assert out.weak_type == one.weak_type, what


@each(BATCHED, "named")
def test_batch_over_a_named_axis(case: Case) -> None:
    args, axes = stacked(case, tuple(range(len(case.operands))), last=False)
    types = [aval_of(x) for x in args]

    def staged(size: Any) -> list[Any]:
        over = [t.with_(shape=(size, *t.shape[1:])) for t in types]

        def fun(*xs: Any) -> list[Any]:
            outs, at = batch(lambda *ys: applied(case, ys), MappedAxis(size), xs, axes)
            return [mapped_at(x, size, a, 0) for x, a in zip(outs, at, strict=True)]

        return stage_pure(fun, over).out_avals

    for a, b in zip(staged(symbol("n")), staged(EXAMPLES), strict=True):
        assert tuple(substitute(d, {"n": EXAMPLES}) for d in a.shape) == b.shape
        assert a.dtype == b.dtype
