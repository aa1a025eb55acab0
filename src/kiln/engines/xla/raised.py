"""Portable artifacts as kiln's own programs, which every engine compiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kiln.base.errors import UnsupportedPrimitive, one_line, three_lines
from kiln.base.source import current_source
from kiln.core.engines.artifacts import LARGE
from kiln.engines.xla.raising import OF_SIZES, RAISINGS
from kiln.engines.xla.raising.raiser import (
    NotRaised,
    Raiser,
    Sizes,
    content_of,
    is_repeated,
)
from kiln.engines.xla.stablehlo.imported import static_module
from kiln.engines.xla.stablehlo.mlir import bindings, from_artifact
from kiln.engines.xla.stablehlo.operations import Function, Region, Unreadable, functions_of
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray

_MAIN = "main"


def raised(
    name: str,
    stored: bytes,
    types: Sequence[ShapedArray],
    results: Sequence[ShapedArray],
    number: int | None,
    is_refined: bool,
    constants: Sequence[np.ndarray] = (),
) -> Jaxpr:
    """Return an artifact as a jaxpr, for operands and results of given types.

    Constants of the artifact that are among `constants` are further inputs, in their order.

    Raises: UnsupportedPrimitive, naming an operation that kiln has no counterpart for; ValueError
        for an artifact that cannot be read, or is not one for these types.
    """
    asked = f"call of the exported function {name} at {current_source()}"
    try:
        functions = _functions(asked, stored, types, results, number, is_refined)
        raiser = Raiser(functions, RAISINGS, OF_SIZES)
        # Refinement has removed the number of the platform otherwise.
        first = [Sizes(number, np.int32)] if raiser.is_sized and number is not None else []
        found = raiser.program(_MAIN, constants, types=types, first=first)
    except (NotRaised, Unreadable) as reason:
        raise UnsupportedPrimitive(
            three_lines(
                asked,
                f"the exported function {name} is StableHLO that only XLA runs: {reason}",
                "leave the operation out of what is exported, or run the function by XLA, where "
                "kiln needs no counterpart",
            )
        ) from None
    for what, declared, avals in (
        ("takes", types, found.in_avals[: len(found.in_avals) - len(constants)]),
        ("returns", results, found.out_avals),
    ):
        if [(a.shape, a.dtype) for a in declared] != [(a.shape, a.dtype) for a in avals]:
            wrong = f"it {what} {', '.join(map(str, avals))}, not {', '.join(map(str, declared))}"
            raise _unusable(asked, wrong)
    return found


def large_constants(stored: bytes) -> list[np.ndarray]:
    """Return the constants of an artifact that have at least `LARGE` bytes, each once.

    Raises: ValueError for an artifact that cannot be read.
    """
    asked = f"an artifact of {len(stored)} bytes at {current_source()}"
    try:
        with bindings() as ir:
            functions = functions_of(ir, from_artifact(stored))
    except Unreadable:
        # It is not raised either.
        return []
    except Exception as error:  # noqa: BLE001, jaxlib raises what it likes for other modules
        raise _unusable(asked, one_line(error)) from None
    found = {
        content_of(value): value
        for function in functions.values()
        for value in _constants(function.body)
        if value.nbytes >= LARGE and not is_repeated(value)
    }
    return list(found.values())


def _constants(region: Region) -> Iterator[np.ndarray]:
    for operation in region.operations:
        value = operation.attributes.get("value")
        if operation.name == "stablehlo.constant" and value is not None:
            yield value
        for inner in operation.regions:
            yield from _constants(inner)


def _functions(
    asked: str,
    stored: bytes,
    types: Sequence[ShapedArray],
    results: Sequence[ShapedArray],
    number: int | None,
    is_refined: bool,
) -> dict[str, Function]:
    try:
        with bindings() as ir:
            module = static_module(ir, stored, types, results, number, is_refined)
            return functions_of(ir, module)
    except Unreadable:
        raise
    except Exception as error:  # noqa: BLE001, jaxlib raises what it likes for other modules
        raise _unusable(asked, one_line(error)) from None


def _unusable(asked: str, wrong: str) -> ValueError:
    return ValueError(
        three_lines(asked, f"its StableHLO cannot be used: {wrong}", "export it again")
    )
