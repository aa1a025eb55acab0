"""Checks for nan, on each primitive: a nan that it makes is reported, and nothing else ever is.

No operand is nan. What is expected is what the meaning of each equation gives; an engine may add in
another order, so what its own results say counts as well.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base import dtypes
from kiln.base.options.config import override
from kiln.control.loops.while_loop import while_p
from kiln.control.sharded_regions.shard_map import shard_map_p
from kiln.core.arrays.array import from_host
from kiln.core.meaning import meaning, observed
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.experimental import checkify
from kiln.ir.effects import must_keep
from kiln.ir.jaxpr import Eqn, Jaxpr
from kiln.ops.sharding import mesh_cast_p, reshard_p, sharding_constraint_p
from tests.cases.case import Case
from tests.cases.collection import CASES, applied, as_numpy, drawn
from tests.cases.known_gaps import KNOWN_GAPS
from tests.rules.support import unsupported

SPECIAL = (0.0, -3.5, np.inf, -np.inf)
TOGETHER = 30
LEFT_OUT = (while_p, shard_map_p, sharding_constraint_p, reshard_p, mesh_cast_p)
"""A loop that an infinity never leaves, and cases of several meshes, which are no one program."""


def is_inexact(x: Any) -> bool:
    return bool(dtypes.issubdtype(x.dtype, np.inexact))


def has(values: Sequence[Any], test: Any) -> bool:
    """Tell whether a test of elements holds anywhere in floats."""
    return any(test(as_numpy(x)).any() for x in values if is_inexact(x))


def operand_lists(case: Case) -> list[list[np.ndarray]]:
    """Return the operands of a case, and what becomes of them with numbers that make nans."""
    base = drawn(case)
    floats = [i for i, x in enumerate(base) if is_inexact(x)]
    found = [base]
    for i in floats:
        x = base[i]
        for value in SPECIAL:
            parts = [value, complex(1, value)] if np.iscomplexobj(x) else [value]
            for part in parts:
                changed = np.full(x.shape, part).astype(x.dtype)
                found.append([*base[:i], changed, *base[i + 1 :]])
        mixed = np.array(x).reshape(-1)
        mixed[::3], mixed[1::3], mixed[2::3] = np.inf, -np.inf, 0
        found.append([*base[:i], mixed.reshape(x.shape), *base[i + 1 :]])
    for values in ((np.inf, -np.inf), (np.inf, 0.0), (0.0, 0.0)) if len(floats) > 1 else ():
        given = itertools.chain(values, itertools.repeat(values[1]))
        found.append(
            [np.full(x.shape, next(given)).astype(x.dtype) if is_inexact(x) else x for x in base]
        )
    return [xs for xs in found if not has(xs, np.isnan)]


class Watch:
    """Notes whether an equation gives a nan."""

    def __init__(self) -> None:
        self.found = False

    def begin_iteration(self, step: int) -> None:
        """Steps are all alike."""

    def evaluate(self, eqn: Eqn, values: Sequence[np.ndarray]) -> Any:
        """Return the result of an equation."""
        result = eqn.primitive.numpy(*values, **eqn.params)
        outs = result if eqn.primitive.multiple else [result]
        self.found = self.found or has([np.asarray(x) for x in outs], np.isnan)
        return result


def by_meaning(jaxpr: Jaxpr, operands: Sequence[np.ndarray]) -> tuple[bool, bool]:
    """Tell whether a result is a nan, and whether anything computed on the way is."""
    watch = Watch()
    with observed(watch), np.errstate(all="ignore"):
        outs = meaning(jaxpr, list(operands))
    return has([np.asarray(x) for x in outs], np.isnan), watch.found


_PROGRAMS: dict[int, Jaxpr] = {}


def program(case: Case) -> Jaxpr:
    """Return a case as a program."""
    if id(case) not in _PROGRAMS:
        types = list(map(aval_of, drawn(case)))
        _PROGRAMS[id(case)] = stage_pure(lambda *xs: applied(case, xs), types)
    return _PROGRAMS[id(case)]


def is_tried(case: Case) -> bool:
    gap = case.primitive in LEFT_OUT or (case.primitive.name, "engines") in KNOWN_GAPS
    jaxpr = None if gap else program(case)
    return (
        jaxpr is not None
        and any(is_inexact(aval) for aval in jaxpr.out_avals)
        and not any(must_keep(eqn.effects) for eqn in jaxpr.eqns)
    )


@functools.cache
def tried() -> list[Case]:
    """Return the cases with floats among their results."""
    return [case for case in CASES if is_tried(case)]


@functools.cache
def one_of_each() -> list[Case]:
    """Return a case for each primitive: of the first few one that makes a nan, if any does."""
    grouped: dict[str, list[Case]] = {}
    for case in tried():
        if not has(drawn(case), np.isnan):
            grouped.setdefault(case.primitive.name, []).append(case)
    return [
        next((x for x in cases[:4] if len(lists_of(x, every=False)) == 2), cases[0])
        for cases in grouped.values()
    ]


def lists_of(case: Case, *, every: bool) -> list[list[np.ndarray]]:
    """Return operands: all, or those drawn and the first that make a nan."""
    lists = operand_lists(case)
    if every:
        return lists
    spoiled = (xs for xs in lists if by_meaning(program(case), xs)[0])
    return [*lists[:1], *itertools.islice(spoiled, 1)]


def complaint(reported: bool, results: Sequence[Any], jaxpr: Jaxpr, xs: Sequence[Any]) -> str:
    """Return what is wrong about a report, or nothing."""
    in_result, anywhere = by_meaning(jaxpr, xs)
    if results:
        in_result = has(results, np.isnan)
        anywhere = anywhere or in_result
    if in_result and not reported:
        return "a nan is not reported"
    return "a nan is reported that is nowhere" if reported and not anywhere else ""


def missed_by_compiled_code(case: Case, *, every: bool) -> list[str]:
    """Return what a program compiled with checks says wrong."""
    if unsupported(case, "native") is not None:
        return []
    f = lambda *xs: applied(case, xs)
    with override(engine=None):
        return _missed_by(kiln.jit(f, check="nan"), kiln.jit(f), case, every=every)


def _missed_by(checked: Any, plain: Any, case: Case, *, every: bool) -> list[str]:
    wrong = []
    for xs in lists_of(case, every=every):
        reported = False
        try:
            checked(*xs)
        except FloatingPointError as error:
            reported = "invalid value (nan)" in str(error)
        if complaint(reported, (), program(case), xs):
            # The engine itself may give an infinity where the meaning gives a nan.
            said = complaint(reported, plain(*xs), program(case), xs)
            wrong += [f"{case.id}: {said} for {xs}"[:300]] if said else []
    return wrong


def missed_by_checkify(cases: Sequence[Case], engine: str | None, *, every: bool) -> list[str]:
    """Return what `checkify` says wrong of cases that are one program."""
    lists = [lists_of(case, every=every) for case in cases]
    cases = [case for case, rows in zip(cases, lists, strict=True) if rows]
    lists = [rows for rows in lists if rows]

    def run(groups: Any) -> Any:
        return [
            checkify.checkify(lambda *xs, case=case: applied(case, xs), checkify.nan_checks)(*xs)
            for case, xs in zip(cases, groups, strict=True)
        ]

    wrong = []
    with override(engine=engine):
        checked = kiln.jit(run)
        for turn in range(max(map(len, lists), default=0)):
            given = [rows[min(turn, len(rows) - 1)] for rows in lists]
            held = [[from_host(x) for x in xs] for xs in given]
            for case, xs, (error, results) in zip(cases, given, checked(held), strict=True):
                said = complaint(error.get() is not None, results, program(case), xs)
                if said:
                    wrong.append(f"{case.id}: {said} for {xs}"[:300])
    return wrong


def missed_by_debug_nans(case: Case) -> list[str]:
    """Return what the options that look at results say wrong."""
    f = kiln.jit(lambda *xs: applied(case, xs))
    lists = lists_of(case, every=True)
    with override(engine=None):
        return _missed_in_results(f, case, lists)


def _missed_in_results(f: Any, case: Case, lists: Sequence[Any]) -> list[str]:
    wrong = []
    for run in (f, lambda *xs: applied(case, xs)):
        expected = [run(*xs) for xs in lists]
        for option, test in ((kiln.debug_nans, np.isnan), (kiln.debug_infs, np.isinf)):
            # One that fails and one that does not.
            picked = {has(outs, test): xs for xs, outs in zip(lists, expected, strict=True)}
            for is_bad, xs in picked.items():
                try:
                    with option(True):
                        run(*xs)
                    reported = False
                except FloatingPointError:
                    reported = True
                # Of eager operations each is looked at.
                if reported < is_bad or (reported and run is f and not is_bad):
                    wrong.append(f"{case.id}: {option.__name__} {reported} for {xs}"[:300])
    return wrong


def test_a_nan_is_made_of_most_primitives() -> None:
    """Else the tests below would prove little."""
    spoiled = [
        case.primitive.name for case in one_of_each() if len(lists_of(case, every=False)) == 2
    ]
    assert len(spoiled) >= 45, spoiled
    assert {"dot_general", "cumsum", "fft", "scatter-add", "scan", "div", "reduce_sum"} <= {
        *spoiled
    }


def test_each_primitive_in_compiled_code() -> None:
    assert [x for case in one_of_each() for x in missed_by_compiled_code(case, every=False)] == []


def test_each_primitive_under_checkify() -> None:
    assert missed_by_checkify(one_of_each(), None, every=False) == []


@pytest.mark.full
@pytest.mark.parametrize("group", range(0, 1300, TOGETHER))
def test_every_case_in_compiled_code(group: int) -> None:
    cases = tried()[group : group + TOGETHER]
    assert [x for case in cases for x in missed_by_compiled_code(case, every=True)] == []


@pytest.mark.full
@pytest.mark.parametrize("engine", ["native", "xla", "reference"])
@pytest.mark.parametrize("group", range(0, 1300, TOGETHER))
def test_every_case_under_checkify(group: int, engine: str) -> None:
    cases = tried()[group : group + TOGETHER]
    if engine == "native":
        cases = [case for case in cases if unsupported(case, "native") is None]
    assert missed_by_checkify(cases, engine, every=True) == []


@pytest.mark.full
@pytest.mark.parametrize("group", range(0, 1300, TOGETHER))
def test_every_case_with_debug_nans(group: int) -> None:
    cases = tried()[group : group + TOGETHER]
    assert [x for case in cases for x in missed_by_debug_nans(case)] == []
