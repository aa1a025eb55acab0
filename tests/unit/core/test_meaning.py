"""What programs mean, and how somebody sees all values on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.core.meaning import begin_iteration, meaning, observed
from kiln.ir.jaxpr import Eqn

ONE = np.ones((), np.float32)


class Recorder:
    """Notes the operations it evaluates, and the steps of loops."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def begin_iteration(self, step: int) -> None:
        self.seen.append(step)

    def evaluate(self, eqn: Eqn, values: Sequence[np.ndarray]) -> Any:
        self.seen.append(eqn.primitive.name)
        return eqn.primitive.numpy(*values, **eqn.params)


def program(fun: Any, *args: Any) -> Any:
    return kiln.make_jaxpr(fun)(*args).jaxpr


def test_results_are_read_only_arrays_of_the_types_of_the_program() -> None:
    (out,) = meaning(program(lambda x: jnp.sin(x) * 2, 1.0), [ONE])
    assert out.dtype == np.float32 and out.shape == () and not out.flags.writeable
    assert float(out) == np.float32(2 * np.sin(np.float32(1)))


def test_an_observer_evaluates_equations_at_every_depth() -> None:
    jaxpr = program(lambda x: kiln.jit(lambda y: jnp.sin(y) + 1)(x), 1.0)
    recorder = Recorder()
    with observed(recorder):
        meaning(jaxpr, [ONE])
        with observed(None):
            meaning(jaxpr, [ONE])
    meaning(jaxpr, [ONE])
    assert recorder.seen == ["jit", "sin", "add"]


def test_loops_say_which_step_begins() -> None:
    recorder = Recorder()

    def loops(x: Any) -> Any:
        y, _ = lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=2, reverse=True)
        return lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, jnp.cos(c[1])), (0, y))[1]

    with observed(recorder):
        meaning(program(loops, 1.0), [ONE])
    steps = recorder.seen
    assert steps == ["scan", 1, "sin", 0, "sin", "while", 0, "lt", "add", "cos", 1, "lt"]
    begin_iteration(7)
    assert recorder.seen[-1] == "lt"
