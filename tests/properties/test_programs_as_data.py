"""Transformed programs are well typed; cleaning and identifying programs preserves values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
from kiln.core.staging import eval_jaxpr
from kiln.ir.analysis.checker import check
from kiln.ir.rewrite import canonical, eliminate_dead_code
from tests.properties.agreement import agree, by_meaning, stacked
from tests.properties.exploring import explored
from tests.properties.programs import ANY, SMOOTH, Program, programs


@pytest.fixture(autouse=True)
def _on_the_reference_engine() -> Iterator[None]:
    with by_meaning():
        yield


def _every(program: Program) -> tuple[int, ...]:
    return tuple(range(len(program.shapes)))


@explored(programs(ANY), few=8, many=600)
def test_transformed_forward_programs_are_well_typed(program: Program) -> None:
    f, x = program.function, program.inputs()
    rows = stacked([x, x])
    check(kiln.make_jaxpr(f)(*x).jaxpr)
    check(kiln.make_jaxpr(kiln.vmap(f))(*rows).jaxpr)
    check(kiln.make_jaxpr(kiln.jit(kiln.vmap(kiln.jit(f))))(*rows).jaxpr)
    check(kiln.make_jaxpr(kiln.checkpoint(f))(*x).jaxpr)


@explored(programs(SMOOTH | {"grad"}), few=6, many=500)
def test_differentiated_programs_are_well_typed(program: Program) -> None:
    f, x, every = program.function, program.inputs(), _every(program)
    gradient = kiln.grad(program.scalar(), every)
    rows = stacked([x, x])

    def pushed(*xs: Any) -> Any:
        return kiln.jvp(f, xs, xs)

    for transformed in (pushed, kiln.jit(pushed), gradient, kiln.jit(gradient)):
        check(kiln.make_jaxpr(transformed)(*x).jaxpr)
    check(kiln.make_jaxpr(kiln.vmap(gradient))(*rows).jaxpr)
    check(kiln.make_jaxpr(kiln.vmap(pushed))(*rows).jaxpr)
    check(kiln.make_jaxpr(lambda *xs: kiln.jvp(gradient, xs, xs))(*x).jaxpr)


@explored(programs(ANY), few=10, many=800)
def test_a_jaxpr_means_what_its_function_means(program: Program) -> None:
    x = program.inputs()
    closed, shape = kiln.make_jaxpr(program.function, return_shape=True)(*x)
    expected = kiln.tree.leaves(program.function(*x))
    agree(eval_jaxpr(closed.jaxpr, closed.consts, *x), expected, 1e-6)
    agree(kiln.core.eval_jaxpr(closed.jaxpr, closed.consts, *x), expected, 1e-6)
    types = [(s.shape, s.dtype) for s in kiln.tree.leaves(shape)]
    assert types == [(a.shape, a.dtype) for a in expected]


@explored(programs(ANY), few=10, many=800)
def test_dead_code_elimination_preserves_values(program: Program) -> None:
    x = program.inputs()
    closed = kiln.make_jaxpr(program.function)(*x)
    expected = eval_jaxpr(closed.jaxpr, closed.consts, *x)
    for i in range(len(expected)):
        used = [j == i for j in range(len(expected))]
        clean, needed = eliminate_dead_code(closed.jaxpr, used)
        check(clean)
        assert len(clean.eqns) <= len(closed.eqns)
        # An input said to be unneeded may be anything.
        given = [a if n else a * np.nan for a, n in zip(x, needed, strict=True)]
        agree(eval_jaxpr(clean, closed.consts, *given), [expected[i]], 1e-6)


@explored(programs(ANY), few=10, many=800)
def test_equal_programs_are_recognized(program: Program) -> None:
    x = program.inputs()
    first = kiln.make_jaxpr(program.function)(*x)
    second = kiln.make_jaxpr(program.function)(*x)
    assert str(first) == str(second)
    if not first.jaxpr.constvars:
        assert canonical(first.jaxpr) == canonical(second.jaxpr)
        assert hash(canonical(first.jaxpr)) == hash(canonical(second.jaxpr))


@explored(programs(ANY), few=10, many=800)
def test_programs_with_one_key_are_one_program(program: Program) -> None:
    """A small change of a program changes its key or nothing."""
    x = program.inputs()
    closed = kiln.make_jaxpr(program.function)(*x)
    for old, new in (("0.5", "0.25"), ("jnp.sin", "jnp.cos"), ("axis=0", "axis=-1"), ("+", "-")):
        changed = Program(program.source.replace(old, new), program.shapes, program.seed)
        try:
            variant = kiln.make_jaxpr(changed.function)(*x)
        except (TypeError, ValueError):
            continue
        if canonical(variant.jaxpr) == canonical(closed.jaxpr):
            assert changed.source == program.source or str(variant) == str(closed)
