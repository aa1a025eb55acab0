"""All cases: the rows of every module of this folder, and what the generic checks share."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import kiln.control
import kiln.execution.eager
import kiln.ops
import tests.cases
from kiln.base import dtypes
from kiln.core.arrays.array import ConcreteArray, from_host, host_value
from kiln.core.primitive import Primitive
from kiln.core.trace import Tracer
from tests.cases.case import Case
from tests.cases.known_gaps import KNOWN_GAPS


def _modules(package: ModuleType) -> list[ModuleType]:
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return [importlib.import_module(info.name) for info in found]


CASES: list[Case] = [
    case for module in _modules(tests.cases) for case in getattr(module, "CASES", ())
]
# This module has that name too, while it is being imported again by its own listing.
CASES = list({id(case): case for case in CASES}.values())
PRIMITIVES: list[Primitive] = sorted(
    {
        value
        for package in (kiln.ops, kiln.control)
        for module in _modules(package)
        for value in vars(module).values()
        if isinstance(value, Primitive)
    },
    key=lambda primitive: primitive.name,
)


def each(cases: Sequence[Case], rule: str) -> Callable[..., Any]:
    """Return the decorator that runs a check of one rule on each case; known gaps are skipped."""
    rows = []
    for case in cases:
        reason = KNOWN_GAPS.get((case.primitive.name, rule))
        marks = [pytest.mark.skip(reason=reason)] if reason else []
        rows.append(pytest.param(case, id=case.id, marks=marks))
    return pytest.mark.parametrize("case", rows)


def differentiable(cases: Sequence[Case]) -> list[Case]:
    """Return the cases with derivatives."""
    return [case for case in cases if case.differentiable]


def drawn(case: Case, seed: int = 0, *, wide: bool = False) -> list[np.ndarray]:
    """Draw the operands of a case; `wide` ones are in 64 bits where they can be moved."""
    rng = np.random.default_rng(seed)
    made = [operand.make(rng) for operand in case.operands]
    operands = [x.astype(dtypes.canonicalize_dtype(x.dtype)) for x in made]
    if wide:
        operands = [
            x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
            if dtypes.issubdtype(x.dtype, np.inexact)
            else x
            for x in operands
        ]
    return operands


def applied(case: Case, operands: Sequence[Any]) -> list[Any]:
    """Apply a case to arrays or tracers; the results as a list."""
    out = case.apply(*[from_host(x) if isinstance(x, np.ndarray) else x for x in operands])
    return list(out) if isinstance(out, (list, tuple)) else [out]


def moved(case: Case, operands: Sequence[np.ndarray]) -> tuple[Callable[..., list[Any]], list[Any]]:
    """Return the case as a function of its differentiable operands, and these operands."""
    chosen = list(case.differentiable)

    def fun(*xs: Any) -> list[Any]:
        full: list[Any] = list(operands)
        for i, x in zip(chosen, xs, strict=True):
            full[i] = x
        outs = applied(case, full)
        return [x for x in outs if dtypes.issubdtype(x.dtype, np.inexact)]

    return fun, [operands[i] for i in chosen]


def directions(arrays: Sequence[Any], seed: int) -> list[np.ndarray]:
    """Draw a random array of the type of each."""
    rng = np.random.default_rng(seed)
    found = []
    for x in arrays:
        value = rng.uniform(-1, 1, x.shape)
        if x.dtype.kind == "c":
            value = value + 1j * rng.uniform(-1, 1, x.shape)
        found.append(np.asarray(value).astype(x.dtype))
    return found


def as_numpy(x: Any) -> np.ndarray:
    """Return the values of a result."""
    assert not isinstance(x, Tracer)
    return host_value(x) if isinstance(x, ConcreteArray) else np.asarray(x)


def assert_close(found: Any, expected: Any, tolerance: float, what: str = "") -> None:
    """Compare two results: exactly if they are integers or bools, nan equal to nan."""
    a, b = as_numpy(found), as_numpy(expected)
    assert a.dtype == b.dtype, f"{what}: dtype {a.dtype} instead of {b.dtype}"
    assert a.shape == b.shape, f"{what}: shape {a.shape} instead of {b.shape}"
    if a.dtype.kind in "biuSV" and not dtypes.issubdtype(a.dtype, np.inexact):
        np.testing.assert_array_equal(a, b, err_msg=what)
        return
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    tolerance = max(tolerance, 8 * float(dtypes.finfo(a.dtype).eps))
    np.testing.assert_allclose(
        a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance, err_msg=what
    )


def finite_difference(above: Any, below: Any, step: float) -> np.ndarray:
    """Return the slope between two results; 0 where they are equal, infinite ones too."""
    hi, lo = as_numpy(above), as_numpy(below)
    with np.errstate(invalid="ignore"):
        return np.where(hi == lo, 0, (hi - lo) / (2 * step))
