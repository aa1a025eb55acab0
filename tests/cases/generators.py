"""Cases of generators that keep their own state, and of the product behind one of them."""

from __future__ import annotations

from typing import Any

from kiln.ops.elements.wide_product import mulhi, mulhi_p
from kiln.ops.random.generators import (
    RandomAlgorithm,
    rng_bit_generator,
    rng_bit_generator_p,
    rng_uniform,
    rng_uniform_p,
)
from tests.cases.case import Case, Operand

MANY = 4294967295
STATE = Operand((4,), "uint32", 0, MANY)
# Two steps before the counter overflows into its high half.
FULL = Operand((4,), "uint32", values=[1, 2, MANY - 2, MANY])
SHAPES: tuple[tuple[int, ...], ...] = ((), (5,), (3, 4), (3, 5), (5, 3), (2, 3, 3), (0, 2))


def _bits(algorithm: RandomAlgorithm, shape: tuple[int, ...], dtype: str, state: Operand) -> Case:
    def apply(key: Any) -> Any:
        return rng_bit_generator(key, shape, dtype, algorithm)

    named = "the state has a size of its own"
    return Case(rng_bit_generator_p, apply, (state,), f"{algorithm} {shape} {dtype} ", named=named)


CASES = [
    *[
        _bits(algorithm, shape, "uint32", STATE)
        for algorithm in RandomAlgorithm
        for shape in SHAPES
    ],
    *[
        _bits(algorithm, (3, 5), dtype, FULL)
        for algorithm in RandomAlgorithm
        for dtype in ("uint8", "uint16", "uint32")
    ],
    *[
        Case(
            rng_uniform_p,
            lambda a, b: rng_uniform(a, b, (2, 3)),
            (Operand((), dtype, -2, -1), Operand((), dtype, 3, 4)),
            batch=False,
            named="the bounds are scalars",
        )
        for dtype in ("float32", "float16", "int32")
    ],
    *[
        Case(
            mulhi_p,
            mulhi,
            (Operand((4, 5), dtype, low, high), Operand((4, 5), dtype, low, high)),
            named=((0, 0), (1, 0)),
        )
        for dtype, low, high in (
            ("int32", -(2**31), 2**31 - 1),
            ("uint32", 0, MANY),
            ("int8", -128, 127),
            ("uint16", 0, 65535),
        )
    ],
]
