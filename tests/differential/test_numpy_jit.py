"""The same answers from compiled programs: one program per group, all its cases inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from tests.differential import (
    test_dtypes,
    test_numpy_arrangement,
    test_numpy_creation,
    test_numpy_fft,
    test_numpy_linalg,
    test_numpy_order,
    test_numpy_products,
    test_numpy_reductions,
    test_numpy_ufuncs,
    test_x64,
)
from tests.differential.oracle import Answer, Topic, compare

TOPICS: dict[str, Topic] = {
    module.TOPIC.name: module.TOPIC
    for module in (
        test_dtypes,
        test_numpy_arrangement,
        test_numpy_creation,
        test_numpy_fft,
        test_numpy_linalg,
        test_numpy_order,
        test_numpy_products,
        test_numpy_reductions,
        test_numpy_ufuncs,
        test_x64,
    )
}
# jax's own compiled answer is this one too: XLA makes a select of a product with a converted bool.
LEFT_OUT = {"multiply/bool,float32"}
# Traced arrays print what they are, not what they hold.
UNTRACED = {"text"}
QUICK = {
    "dtypes": ("loops",),
    "numpy_arrangement": ("axes", "join"),
    "numpy_creation": ("ranges", "matrices"),
    "numpy_fft": ("rfft",),
    "numpy_linalg": ("inv", "qr"),
    "x64": (),
    "numpy_order": ("argsort", "interp"),
    "numpy_products": ("matmul", "einsum"),
    "numpy_reductions": ("sum",),
    "numpy_ufuncs": ("add", "power", "frexp"),
}
GROUPS = [
    pytest.param(name, group, marks=() if group in QUICK[name] else pytest.mark.full)
    for name, topic in TOPICS.items()
    for group in topic.groups
    if group not in UNTRACED
]


@pytest.mark.parametrize(("name", "group"), GROUPS)
def test_compiled_as_jax(name: str, group: str) -> None:
    topic = TOPICS[name]
    answers = topic.answers()
    cases = [
        case
        for case in topic.cases
        if case.group == group and not answers[case.id].error and case.id not in LEFT_OUT
    ]
    ran: list[Any] = []

    def program() -> Any:
        ran.clear()
        outs = []
        for case in cases:
            try:
                out = case.run(kiln)
            except (TypeError, IndexError) as error:
                # What depends on values has no place in a program; all else must work.
                if not isinstance(error, kiln.errors.JAXTypeError | kiln.errors.JAXIndexError):
                    raise
                continue
            ran.append(case)
            outs.append([x for x in _flat(out) if hasattr(x, "dtype")])
        return outs

    with np.errstate(all="ignore"), kiln.enable_x64(name == "x64"):
        results = kiln.jit(program)()
    assert ran or not cases
    wrong = []
    for case, outs in zip(ran, results, strict=True):
        expected = answers[case.id]
        if any(text.startswith("python") for text in expected.types):
            continue
        found = Answer(tuple(_type(x) for x in outs), tuple(np.asarray(x) for x in outs))
        difference = compare(found, expected, case.tolerance)
        if difference:
            wrong.append(f"{case.name}: {difference}")
    assert not wrong, f"{group}: {len(wrong)} compiled cases differ\n" + "\n".join(wrong[:40])


def _flat(out: Any) -> list[Any]:
    if isinstance(out, (list, tuple)):
        return [x for item in out for x in _flat(item)]
    return [] if out is None else [out]


def _type(x: Any) -> str:
    weak = "~" if x.weak_type and str(x.dtype) != "bool" else ""
    return f"{x.dtype}[{','.join(map(str, x.shape))}]{weak}"
