"""A program with a named axis means, for each size, what it means without the name."""

from __future__ import annotations

from typing import Any

import numpy as np

import kiln
from kiln.base.errors import InconclusiveSizeError
from kiln.base.options.config import override
from kiln.ir.sizes.size import Size
from tests.properties.agreement import agree, by_meaning
from tests.properties.exploring import explored
from tests.properties.programs import ANY, SMOOTH, Program, programs

REFUSED = (InconclusiveSizeError, TypeError, ValueError, IndexError, NotImplementedError)
"""What a program may raise that holds for some sizes only."""


def _resized(args: list[Any], size: int) -> list[Any]:
    first = np.resize(np.asarray(args[0]), (size, *args[0].shape[1:]))
    return [kiln.numpy.asarray(first), *args[1:]]


def _compare(function: Any, program: Program) -> bool:
    """Tell whether the program could be traced for all sizes of the first axis."""
    traces: list[Any] = []

    def counted(*args: Any) -> Any:
        traces.append(args[0].shape)
        return function(*args)

    axes = ({0: "n"}, *[None] * (len(program.shapes) - 1))
    named, plain = kiln.jit(counted, abstracted_axes=axes), kiln.jit(function)
    # Squeezing drops an axis where its size happens to be 1: a name has none.
    sizes = {program.shapes[0][0], 2, 4, 1} - ({1} if "squeeze(" in program.source else set())
    for size in sorted(sizes):
        args = _resized(program.inputs(), size)
        try:
            found = named(*args)
        except REFUSED:
            return False
        agree(found, plain(*args), 1e-5)
    # What a size decides has a program of its own, as the largest element of what may be empty.
    assert type(traces[0][0]) is Size
    assert all(type(shape[0]) is int for shape in traces[1:])
    return True


@explored(programs(ANY, steps=3), few=80, many=2500)
def test_named_sizes_mean_what_sizes_mean(program: Program) -> None:
    if program.shapes[0]:
        with by_meaning():
            _compare(program.function, program)


@explored(programs(ANY, steps=3), few=40, many=2500)
def test_named_sizes_are_compiled_once(program: Program) -> None:
    if program.shapes[0]:
        with override(engine="native", check=True):
            _compare(program.function, program)


@explored(programs(SMOOTH, steps=2), few=30, many=1000)
def test_gradients_with_named_sizes(program: Program) -> None:
    if program.shapes[0]:
        with by_meaning():
            _compare(kiln.grad(program.scalar()), program)
