"""A program has one meaning: run by Python, by the reference engine, and compiled by each other."""

from __future__ import annotations

import numpy as np

import kiln
from kiln.base.options.config import override
from tests.properties.agreement import agree, by_meaning
from tests.properties.exploring import explored
from tests.properties.programs import ANY, SMOOTH, Program, programs


@explored(programs(ANY), few=20, many=1500)
def test_jit_is_eager(program: Program) -> None:
    with by_meaning():
        x = program.inputs()
        expected = program.function(*x)
        assert tuple(a.shape for a in kiln.tree.leaves(expected)) == program.results
        agree(kiln.jit(program.function)(*x), expected, 1e-6)


@explored(programs(ANY, steps=10), few=6, many=500)
def test_xla_is_the_reference_engine(program: Program) -> None:
    with by_meaning():
        expected = program.function(*program.inputs())
    with override(engine="xla"):
        agree(kiln.jit(program.function)(*program.inputs()), expected)


@explored(programs(ANY, steps=10), few=15, many=14000)
def test_native_is_the_reference_engine(program: Program) -> None:
    """With all checks of loops, after each pass."""
    with by_meaning():
        expected = program.function(*program.inputs())
    with override(engine="native", check=True):
        agree(kiln.jit(program.function)(*program.inputs()), expected)


@explored(programs(ANY, steps=4), few=4, many=100)
def test_eager_on_each_engine(program: Program) -> None:
    with by_meaning():
        expected = program.function(*program.inputs())
    agree(program.function(*program.inputs()), expected)
    with kiln.disable_jit():
        agree(program.function(*program.inputs()), expected)


@explored(programs(SMOOTH | {"grad", "custom_vjp"}), few=6, many=6000)
def test_gradients_on_native(program: Program) -> None:
    every = tuple(range(len(program.shapes)))
    with by_meaning():
        expected = kiln.grad(program.scalar(), every)(*program.inputs())
    with override(engine="native", check=True):
        agree(kiln.jit(kiln.grad(program.scalar(), every))(*program.inputs()), expected, 1e-3)


@explored(programs(SMOOTH | {"grad", "custom_vjp"}), few=4, many=300)
def test_gradients_on_xla(program: Program) -> None:
    every = tuple(range(len(program.shapes)))
    with by_meaning():
        expected = kiln.grad(program.scalar(), every)(*program.inputs())
    with override(engine="xla"):
        agree(kiln.jit(kiln.grad(program.scalar(), every))(*program.inputs()), expected, 1e-3)


@explored(programs(ANY, steps=10), few=10, many=2000)
def test_code_generators_give_the_same_bits(program: Program) -> None:
    """But for which nan a nan is."""
    found = []
    for generator in ("kiln", "llvm"):
        with override(engine="native", code_generator=generator):
            found.append(kiln.tree.leaves(kiln.jit(program.function)(*program.inputs())))
    for x, y in zip(*found, strict=True):
        a, b = np.asarray(x), np.asarray(y)
        np.testing.assert_array_equal(a, b)
        if a.dtype.kind == "f":
            there = ~np.isnan(a)
            np.testing.assert_array_equal(np.signbit(a[there]), np.signbit(b[there]))
