"""Programs that real jax exported run on the native engine, and give its numbers."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export
from kiln.base.options.config import override
from tests.differential.exported_programs import PROGRAMS, Program, exported
from tests.differential.oracle import Answer, Case, Topic, ask, compare

pytest.importorskip("flatbuffers")


def _case(name: str, program: Program) -> Case:
    run = functools.partial(exported, program=program)
    return Case("programs", name, run, program.tolerance)


TOPIC = Topic("exported", [_case(name, program) for name, program in PROGRAMS.items()])


def loaded(name: str) -> tuple[export.Exported, Answer]:
    """Return a program that jax exported, and jax's results."""
    answer = TOPIC.answers()[f"programs/{name}"]
    stored, *results = answer.arrays
    # Stored types are never weak.
    types = tuple([text.rstrip("~") for text in answer.types[1:]])
    return export.deserialize(stored.tobytes()), Answer(types, tuple(results))


@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name: str) -> None:
    program, expected = loaded(name)
    with override(engine="native"):
        case = Case("", name, lambda _: list(program.call(*PROGRAMS[name].args)))
        found = ask(case, kiln, own=True)
    assert compare(found, expected, PROGRAMS[name].tolerance) == ""


@pytest.mark.parametrize("name", ["order", "loops", "reductions", "branches", "writes"])
def test_the_reference_engine_computes_the_meaning(name: str) -> None:
    program, expected = loaded(name)
    with override(engine="reference"):
        case = Case("", name, lambda _: list(program.call(*PROGRAMS[name].args)))
        found = ask(case, kiln, own=True)
    assert compare(found, expected, PROGRAMS[name].tolerance) == ""


def test_other_sizes() -> None:
    program, _ = loaded("sized")
    x = np.linspace(0, 1, 10, dtype=np.float32).reshape(2, 5)
    before = dict(kiln.fallback_counts())
    found = program.call(x, x)
    assert kiln.fallback_counts() == before
    np.testing.assert_allclose(found[2], x.reshape(-1).cumsum(), rtol=1e-6)
    np.testing.assert_array_equal(found[4], np.concatenate([x, x])[:3])
    program, _ = loaded("counted")
    np.testing.assert_allclose(program.call(x)[0], x.sum(0), rtol=1e-6)


@pytest.mark.parametrize("name", ["step", "sized", "chosen"])
def test_derivatives_run_on_the_native_engine(name: str) -> None:
    program, _ = loaded(name)
    args = PROGRAMS[name].args

    def loss(x: Any) -> Any:
        return sum((y * jnp.cos(y)).sum() for y in program.call(x, *args[1:]) if y.dtype == x.dtype)

    with override(engine="native"):
        found = kiln.jit(kiln.grad(loss))(args[0])
    with override(engine="xla"):
        expected = kiln.jit(kiln.grad(loss))(args[0])
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


def test_inside_other_programs() -> None:
    program, expected = loaded("products")
    x, m = PROGRAMS["products"].args
    with override(engine="native"):
        stacked = kiln.vmap(lambda x: program.call(x, m)[0])(np.stack([x, x + 1]))
        joined = kiln.jit(lambda x: program.call(jnp.sin(x) * 0 + x, m)[0] * 2)(x)
    np.testing.assert_allclose(stacked[0], expected.arrays[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(joined, 2 * expected.arrays[0], rtol=1e-5, atol=1e-5)
