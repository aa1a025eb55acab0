"""Cases with a named dimension, compiled once by the native engine, mean what they mean without."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage_pure
from kiln.execution.compilation import compile_jaxpr
from kiln.execution.sized_programs import compile_for_sizes
from kiln.ir.specialize import specialize
from tests.cases.case import Case
from tests.cases.collection import applied, assert_close, drawn
from tests.rules.support import unsupported
from tests.rules.test_engines import COMPARED
from tests.rules.test_infer import NAMED, with_names

TOGETHER = 20
COMPILED = [case for case in COMPARED if case in NAMED]
GROUPS = [COMPILED[i : i + TOGETHER] for i in range(0, len(COMPILED), TOGETHER)]
OTHER_SIZES = (1, 2, 17, 130)


def operands(case: Case, n: int) -> list[Any]:
    """Return the operands of a case with the named axes of another size."""
    rng = np.random.default_rng(0)
    found = []
    for i, operand in enumerate(case.operands):
        shape = list(operand.shape)
        for number, axis in case.named:
            if number == i:
                shape[int(axis)] = n
        found.append(dataclasses.replace(operand, shape=tuple(shape)).make(rng))
    return found


def disagreements(case: Case, sizes: tuple[int, ...]) -> list[str]:
    """Compile a case once, and return for which sizes it differs from the meaning."""
    if unsupported(case, "native") is not None:
        return []
    types, own = with_names(case)
    jaxpr = stage_pure(lambda *xs: applied(case, xs), types)
    wrong = []
    for n in sizes or (own,):
        arrays = list(map(from_host, operands(case, n) if sizes else drawn(case)))
        plain = specialize(jaxpr, {"n": n})
        with override(engine="reference"), np.errstate(all="ignore"):
            expected = compile_jaxpr(plain, "case")(arrays)
        with override(engine="native", check=True):
            program = compile_for_sizes(jaxpr, "case", {"n": n}, plain.out_avals)
            if isinstance(program, str):
                return [f"{case.id}: {program}"]
            found = program(arrays)
        for a, b in zip(found, expected, strict=True):
            try:
                assert_close(a, b, case.tolerance * max(1, n / 5), f"{case.id}, n = {n}")
            except AssertionError as error:
                wrong.append(str(error))
    return wrong


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_named_sizes_agree_with_the_meaning(group: int) -> None:
    wrong = [text for case in GROUPS[group] for text in disagreements(case, ())]
    assert not wrong, "\n".join(wrong)


@pytest.mark.full
@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_other_sizes_agree_with_the_meaning(group: int) -> None:
    # Operands with values of their own (indices, permutations) keep their sizes.
    cases = [
        case
        for case in GROUPS[group]
        if all(case.operands[int(i)].values is None for i, _ in case.named)
    ]
    wrong = [text for case in cases for text in disagreements(case, OTHER_SIZES)]
    assert not wrong, "\n".join(wrong)
