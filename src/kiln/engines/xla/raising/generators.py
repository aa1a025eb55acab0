"""Random number generators, with a state as an operand or with a hidden one."""

from __future__ import annotations

from typing import Any

from kiln.core.trace import aval_of
from kiln.engines.xla.raising.raiser import NotRaised, Raiser, Raising, typed
from kiln.engines.xla.stablehlo.operations import Operation
from kiln.ops.random import generators as ops


def _rng_bit_generator(r: Raiser, operation: Operation, state: Any) -> Any:
    drawn = typed(operation.name, operation.types[1])
    algorithm = ops.RandomAlgorithm[f"RNG_{operation.attributes['rng_algorithm']}"]
    return ops.rng_bit_generator_p.bind(
        state, shape=drawn.shape, dtype=drawn.dtype, algorithm=algorithm
    )


def _rng(r: Raiser, operation: Operation, low: Any, high: Any, sizes: Any) -> Any:
    aval = typed(operation.name, operation.types[0])
    if operation.attributes["rng_distribution"] != "UNIFORM" or aval_of(low).dtype.kind != "f":
        raise NotRaised(f"{operation.name} of type {aval} has no counterpart in kiln")
    return ops.rng_uniform_p.bind(low, high, shape=aval.shape)


RAISINGS: dict[str, Raising] = {
    "stablehlo.rng_bit_generator": _rng_bit_generator,
    "stablehlo.rng": _rng,
}
