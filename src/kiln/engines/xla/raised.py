"""Portable artifacts as kiln's own programs, which every engine compiles."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.base.errors import UnsupportedPrimitive, one_line, three_lines
from kiln.base.source import current_source
from kiln.engines.xla.raising import RAISINGS
from kiln.engines.xla.raising.raiser import NotRaised, Raiser
from kiln.engines.xla.stablehlo.imported import static_module
from kiln.engines.xla.stablehlo.mlir import bindings
from kiln.engines.xla.stablehlo.operations import Function, Unreadable, functions_of
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
) -> Jaxpr:
    """Return an artifact as a jaxpr, for operands and results of given types.

    Raises: UnsupportedPrimitive, naming an operation that kiln has no counterpart for; ValueError
        for an artifact that cannot be read, or is not one for these types.
    """
    asked = f"call of the exported function {name} at {current_source()}"
    try:
        functions = _functions(asked, stored, types, results, number, is_refined)
        found = Raiser(functions, RAISINGS).jaxpr(_MAIN)
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
        ("takes", types, found.in_avals),
        ("returns", results, found.out_avals),
    ):
        if [(a.shape, a.dtype) for a in declared] != [(a.shape, a.dtype) for a in avals]:
            wrong = f"it {what} {', '.join(map(str, avals))}, not {', '.join(map(str, declared))}"
            raise _unusable(asked, wrong)
    return found


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
