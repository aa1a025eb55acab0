"""Checks as values: a program that returns which of its checks failed first.

The checks of a program are numbered from 1, by message. A *state* is threaded through the program
and the programs within it: the number of the check that failed, 0 if none did, and what it reports,
in slots that are shared by checks with values of equal types. Later failures leave the state
unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import CheckifyError, DivisionByZeroError, NaNError, OOBError, three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.records import Record
from kiln.base.source import place_of
from kiln.control.effects.check import (
    DivisionMessage,
    IndexMessage,
    Message,
    NaNMessage,
    check_p,
)
from kiln.control.regions.region import jaxprs_of, memoized
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of, state
from kiln.ir.jaxpr import Eqn, Jaxpr
from kiln.ir.sizes.decisions import is_surely
from kiln.ir.sizes.size import product
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import and_p, eq, gt, le, lt, ne, or_p, select
from kiln.ops.indexing.dimension_numbers import LEAVE_OUT, Window
from kiln.ops.indexing.slicing import dynamic_index_in_dim
from kiln.ops.reductions.reduction import argmax, reduce_or
from kiln.ops.shape import broadcast_in_dim, full, reshape

Categories = frozenset[type[CheckifyError]]
Types = tuple[ShapedArray, ...]

CODE = ShapedArray((), np.dtype(np.int32))
INDEX_REPORT = (ShapedArray((3,), np.dtype(np.int32)),)

NEVER_MAKE_NAN = frozenset(
    [
        *("abs", "all_gather", "all_to_all", "broadcast_in_dim", "complex", "concatenate"),
        *("conj", "copy", "dynamic_slice", "dynamic_update_slice", "imag", "name", "neg"),
        *("optimization_barrier", "pad", "ppermute", "pvary", "real", "reshape", "rev"),
        *("select_n", "sharding_constraint", "slice", "sort", "split", "squeeze"),
        *("stop_gradient", "top_k", "transpose", "ceil", "clamp", "cummax", "cummin", "floor"),
        *("max", "mesh_cast", "min", "reduce_max", "reduce_min", "reshard", "round"),
        *("scatter", "scatter-max", "scatter-min"),
    ]
)
"""Operations whose nans come from their operands."""


class CheckSite(NamedTuple):
    """A place in a program with a check: its message, the types it reports, how it is computed."""

    message: Message
    types: Types
    failure: Callable[[Sequence[Any], Sequence[Any]], tuple[Any, Sequence[Any]]]
    """From operands and results: whether it failed, and what to report."""


class Report(Record):
    """The checks of a program in order, and the slots of its state."""

    checks: tuple[tuple[Message, Types], ...]

    @property
    def slots(self) -> list[Types]:
        """The types that checks report, each once."""
        return list(dict.fromkeys(types for _, types in self.checks if types))

    @property
    def avals(self) -> list[ShapedArray]:
        """The types of a state."""
        return [CODE, *[aval for types in self.slots for aval in types]]

    def passed(self) -> list[Any]:
        """Return the state in which no check has failed."""
        return [full(aval.shape, 0, aval.dtype) for aval in self.avals]

    def place(self, types: Types) -> slice:
        """Return the slots of a state in which values of these types are reported."""
        begin = 1
        for slot in self.slots:
            if slot == types:
                break
            begin += len(slot)
        return slice(begin, begin + len(types))


def report_of(jaxpr: Jaxpr, categories: Categories) -> Report:
    """Number the checks of a program, and of the programs within it.

    Raises: NotImplementedError for user-defined checks within a region that does not thread a
    state.
    """
    found: dict[tuple[Message, Types], None] = {}
    for eqn in _equations(jaxpr, categories):
        found.update(((site.message, site.types), None) for site in check_sites(eqn, categories))
    return Report(tuple(found))


def _equations(jaxpr: Jaxpr, categories: Categories) -> Iterator[Eqn]:
    for eqn in jaxpr.eqns:
        if _passes_on(eqn, categories):
            for inner in jaxprs_of(eqn.params):
                yield from _equations(inner, categories)
        else:
            yield eqn


def _passes_on(eqn: Eqn, categories: Categories) -> bool:
    """Tell whether checks within an equation's programs are considered."""
    if not eqn.primitive.region:
        return False
    if eqn.primitive.thread_state is not None:
        return True
    if any(_has_checks(jaxpr) for jaxpr in jaxprs_of(eqn.params)):
        raise NotImplementedError(
            three_lines(
                f"checkify of {eqn.primitive} at {place_of(eqn.source)}",
                f"{eqn.primitive} does not pass the errors of the checks within it on",
                "move the check out of it",
            )
        )
    return False


def _has_checks(jaxpr: Jaxpr) -> bool:
    return any(
        eqn.primitive is check_p or any(map(_has_checks, jaxprs_of(eqn.params)))
        for eqn in jaxpr.eqns
    )


def run_with_checks(
    jaxpr: Jaxpr, report: Report, categories: Categories, current: Sequence[Any], xs: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Apply a program to values, under the active trace; return the state and the results."""
    env: dict[Any, Any] = dict(zip(jaxpr.invars, xs, strict=True))
    numbers = {check: number for number, check in enumerate(report.checks, 1)}
    now = list(current)

    def read(atom: Any) -> Any:
        return atom.val if atom.is_literal else env[atom]

    def extend(inner: Jaxpr) -> Jaxpr:
        return with_checks(inner, report, categories)

    previous = state.source
    try:
        for eqn in jaxpr.eqns:
            state.source = eqn.source
            operands = [read(v) for v in eqn.invars]
            primitive = eqn.primitive
            if _passes_on(eqn, categories) and primitive.thread_state is not None:
                outs = primitive.thread_state(extend, now, operands, **eqn.params)
                now, outs = outs[: len(now)], outs[len(now) :]
            elif primitive is check_p:
                outs = []
            else:
                result = primitive.bind(*operands, **eqn.params)
                outs = result if primitive.multiple else [result]
            for site in check_sites(eqn, categories):
                failed, values = site.failure(operands, outs)
                number = numbers[site.message, site.types]
                now = _noted(now, report.place(site.types), number, failed, values)
            env.update(zip(eqn.outvars, outs, strict=True))
    finally:
        state.source = previous
    return now, [read(v) for v in jaxpr.outvars]


def with_checks(jaxpr: Jaxpr, report: Report, categories: Categories) -> Jaxpr:
    """Return the program with a state before its inputs, and before its results."""
    count = len(report.avals)

    def run(*args: Any) -> list[Any]:
        now, outs = run_with_checks(jaxpr, report, categories, args[:count], args[count:])
        return [*now, *outs]

    return memoized(
        jaxpr,
        ("checks", report, categories),
        lambda: stage_pure(
            run, [*report.avals, *jaxpr.in_avals], name=jaxpr.name, purpose="checkify"
        ),
    )


def _noted(
    now: Sequence[Any], place: slice, number: int, failed: Any, values: Sequence[Any]
) -> list[Any]:
    first = and_p.bind(failed, eq(now[0], np.int32(0)))
    after = [select(first, np.int32(number), now[0]), *now[1:]]
    after[place] = [
        select(_spread(first, aval_of(before).shape), _as(value, before), before)
        for value, before in zip(values, now[place], strict=True)
    ]
    return after


def _as(value: Any, like: Any) -> Any:
    return convert_element_type(value, aval_of(like).dtype)


def _spread(flag: Any, shape: Sequence[Any]) -> Any:
    return broadcast_in_dim(flag, shape, ())


def _any(flags: Any) -> Any:
    return reduce_or(flags, tuple(range(len(aval_of(flags).shape))))


# What is checked.


def check_sites(eqn: Eqn, categories: Categories) -> list[CheckSite]:
    """Return the checks of an equation: itself if it is one, or those of enabled categories."""
    if eqn.primitive is check_p:
        message: Message = eqn.params["message"]
        if message.category not in categories:
            return []
        types = tuple(v.aval.with_(weak_type=False) for v in eqn.invars[1:])
        return [CheckSite(message, types, lambda xs, _: (xs[0], xs[1:]))]
    if eqn.primitive.region and eqn.primitive.thread_state is not None:
        return []
    where = place_of(eqn.source)
    found: list[CheckSite] = []
    if OOBError in categories:
        found.extend(_index_check(eqn, where))
    if DivisionByZeroError in categories and _divides(eqn):
        found.append(CheckSite(DivisionMessage(where), (), lambda xs, _: (_has_zero(xs[-1]), [])))
    if NaNError in categories and _may_make_nan(eqn):
        inexact = [_may_be_nan(v.aval) for v in eqn.outvars]
        if any(inexact):
            found.append(
                CheckSite(
                    NaNMessage(where, eqn.primitive.name),
                    (),
                    lambda _, outs: (_has_nan(outs, inexact), []),
                )
            )
    return found


def _divides(eqn: Eqn) -> bool:
    """Tell whether an operation divides by its last operand."""
    name = eqn.primitive.name
    return name in ("div", "rem") or (name == "integer_pow" and eqn.params["y"] < 0)


def _may_make_nan(eqn: Eqn) -> bool:
    """Tell whether a result may be nan though no operand is."""
    name = eqn.primitive.name
    if name == "gather":
        return eqn.params["mode"].fills and eqn.params["fill_value"] is None
    if name == "convert_element_type":
        # In formats without infinity, overflow gives nan.
        return not _has_infinity(eqn.outvars[0].aval)
    return name not in NEVER_MAKE_NAN


def _has_infinity(aval: ShapedArray) -> bool:
    return _may_be_nan(aval) and bool(np.isinf(np.asarray(np.inf).astype(aval.dtype)))


def _may_be_nan(aval: ShapedArray) -> bool:
    return bool(dtypes.issubdtype(aval.dtype, np.inexact))


def _has_nan(outs: Sequence[Any], inexact: Sequence[bool]) -> Any:
    flags = [_any(ne(x, x)) for x, i in zip(outs, inexact, strict=True) if i]
    found = flags[0]
    for flag in flags[1:]:
        found = or_p.bind(found, flag)
    return found


def _has_zero(divisor: Any) -> Any:
    aval = aval_of(divisor)
    return _any(eq(divisor, full(aval.shape, 0, aval.dtype)))


def _index_check(eqn: Eqn, where: str) -> list[CheckSite]:
    """Return the check that the windows of an operation are within its operand."""
    name = eqn.primitive.name
    if not name.startswith(("dynamic_", "gather", "scatter")):
        return []
    operand = eqn.invars[0].aval
    message = IndexMessage(where, tuple(operand.shape))
    if name in ("dynamic_slice", "dynamic_update_slice"):
        sizes = eqn.params["slice_sizes"] if name == "dynamic_slice" else eqn.invars[1].aval.shape
        skip = 1 if name == "dynamic_slice" else 2

        def of_starts(xs: Sequence[Any], _: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
            columns = [reshape(x, (1,)) for x in xs[skip:]]
            return _out_of_bounds(columns, range(len(columns)), operand.shape, sizes)

        return [CheckSite(message, INDEX_REPORT, of_starts)] if operand.shape else []
    if name != "gather" and not name.startswith("scatter"):
        return []
    window: Window = eqn.params["dimension_numbers"].window
    places = product(eqn.invars[1].aval.shape[:-1])
    if not window.coordinates or eqn.params["mode"] is LEAVE_OUT or is_surely(places, 0):
        return []
    if name == "gather":
        sizes = eqn.params["slice_sizes"]
    else:
        kept = iter([eqn.invars[2].aval.shape[axis] for axis in window.placed])
        gone = {*window.dropped, *window.batching}
        sizes = [1 if axis in gone else next(kept) for axis in range(len(operand.shape))]

    def of_indices(xs: Sequence[Any], _: Sequence[Any]) -> tuple[Any, Sequence[Any]]:
        indices = xs[1]
        last = len(aval_of(indices).shape) - 1
        columns = [
            reshape(dynamic_index_in_dim(indices, np.int32(i), last, False), (places,))
            for i in range(len(window.coordinates))
        ]
        return _out_of_bounds(columns, window.coordinates, operand.shape, sizes)

    return [CheckSite(message, INDEX_REPORT, of_indices)]


def _out_of_bounds(
    columns: Sequence[Any], axes: Sequence[int], shape: Sequence[Any], sizes: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """Compare where windows start, one column of integers for each axis, with the bounds.

    The report is of the first window that is outside, and of its first axis along which it is.
    """
    failed: Any = np.False_
    found: Any = np.zeros(3, np.int32)
    first: Any = np.int32(np.iinfo(np.int32).max)
    for starts, axis in reversed(list(zip(columns, axes, strict=True))):
        if aval_of(starts).dtype.itemsize < 4:
            # The bounds may not fit in a narrower type.
            starts = convert_element_type(starts, np.int32)
        aval = aval_of(starts)
        last = full((), shape[axis] - sizes[axis], aval.dtype)
        flags = or_p.bind(
            lt(starts, full(aval.shape, 0, aval.dtype)), gt(starts, _spread(last, aval.shape))
        )
        here = _any(flags)
        row = argmax(flags, 0, np.int32)
        earlier = and_p.bind(here, le(row, first))
        index = dynamic_index_in_dim(starts, row, 0, False)
        report = [convert_element_type(x, np.int32) for x in (index, axis, shape[axis])]
        joined = _stacked(report)
        found = select(_spread(earlier, (3,)), joined, found)
        first = select(earlier, row, first)
        failed = or_p.bind(failed, here)
    return failed, [found]


def _stacked(scalars: Sequence[Any]) -> Any:
    total: Any = np.zeros(len(scalars), np.int32)
    for i, x in enumerate(scalars):
        mine = np.arange(len(scalars)) == i
        total = select(mine, _spread(x, (len(scalars),)), total)
    return total


__all__ = ["Categories", "Report", "report_of", "run_with_checks", "with_checks"]
