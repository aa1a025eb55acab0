"""Every primitive has cases for its rules and code on every engine, or a reason why not."""

from __future__ import annotations

import pytest

from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings import LOWERINGS
from kiln.ops.elements.families import Elementwise
from tests.cases.collection import CASES, PRIMITIVES
from tests.cases.known_gaps import KNOWN_GAPS, RULES

OF = {p: [case for case in CASES if case.primitive is p] for p in PRIMITIVES}
EACH = pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda p: p.name)


def gap(primitive: Primitive, rule: str) -> bool:
    return (primitive.name, rule) in KNOWN_GAPS


def test_gaps_name_primitives_and_rules() -> None:
    names = {primitive.name for primitive in PRIMITIVES}
    for (name, rule), reason in KNOWN_GAPS.items():
        assert name in names, f"{name} is not a primitive"
        assert rule in RULES, f"{rule} is not a rule"
        assert len(reason.split()) >= 3, f"the gap {name}, {rule} needs a reason"


def test_names_are_unique() -> None:
    names = [primitive.name for primitive in PRIMITIVES]
    assert len(names) == len(set(names)), {n for n in names if names.count(n) > 1}


@EACH
def test_every_primitive_has_a_case(primitive: Primitive) -> None:
    assert OF[primitive] or gap(primitive, "case")


@EACH
def test_every_primitive_has_the_rules_always_needed(primitive: Primitive) -> None:
    assert primitive.has("infer")
    assert primitive.has("numpy") or gap(primitive, "numpy")
    nullary = OF[primitive] and not any(case.operands for case in OF[primitive])
    assert (
        primitive.has("batch") or primitive.has("batch_over") or nullary or gap(primitive, "batch")
    )


def differentiable(primitive: Primitive) -> bool:
    if isinstance(primitive, Elementwise) and type(primitive).jvp is Elementwise.jvp:
        return any(primitive.partials)
    return primitive.has("jvp")


@EACH
def test_every_derivative_has_a_case(primitive: Primitive) -> None:
    if differentiable(primitive) and OF[primitive]:
        checked = any(case.differentiable for case in OF[primitive])
        assert checked or gap(primitive, "jvp")


@EACH
def test_every_primitive_meets_a_named_dimension(primitive: Primitive) -> None:
    if any(case.operands for case in OF[primitive]):
        assert any(case.named for case in OF[primitive]) or gap(primitive, "named")


@EACH
def test_every_primitive_has_code_on_xla(primitive: Primitive) -> None:
    assert primitive in LOWERINGS or primitive.has("expand") or gap(primitive, "engines")
