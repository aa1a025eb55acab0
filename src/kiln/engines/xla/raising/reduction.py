"""Reductions: by an operation if the region applies a single one, else by the region itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.core.trace import aval_of
from kiln.engines.xla.raising.bodies import Tree, expressions
from kiln.engines.xla.raising.raiser import Missing, Raiser, Raising, known
from kiln.engines.xla.stablehlo.operations import Operation
from kiln.ops.reductions import reduction as ops
from kiln.ops.reductions.generic_reduction import reduce


def _reduce(r: Raiser, operation: Operation, *operands: Any) -> Any:
    count = len(operands) // 2
    arrays, starts = list(operands[:count]), list(operands[count:])
    dimensions = tuple(operation.attributes["dimensions"])
    if count == 2 and len(dimensions) == 1:
        primitive = _position_of(r, operation, starts, dimensions[0])
        if primitive is not None:
            dtype = aval_of(arrays[1]).dtype
            at = primitive.bind(arrays[0], axes=dimensions, index_dtype=dtype)
            return [Missing("stablehlo.reduce returns an extreme beside its position"), at]
    body = r.body(operation.regions[0])

    def combined(accumulated: Sequence[Any], elements: Sequence[Any]) -> list[Any]:
        return body(*accumulated, *elements)

    return reduce(arrays, starts, combined, dimensions)


def _position_of(
    r: Raiser, operation: Operation, starts: Sequence[Any], axis: int
) -> ops.ArgExtreme | None:
    """Return the primitive that finds the position that a reduction does, if it finds one."""
    counted = r.operation_of(operation.operands[1])
    if operation.results[0] in r.used or counted is None or counted.name != "stablehlo.iota":
        return None
    start, first = map(known, starts)
    if counted.attributes["iota_dimension"] != axis or start is None or first != 0:
        return None
    found = expressions(operation.regions[0], r.operation_of)
    for direction, primitive, worst in (
        ("GT", ops.argmax_p, ops.lowest),
        ("LT", ops.argmin_p, ops.highest),
    ):
        if start == worst(start.dtype) and _is_search(found, direction):
            return primitive
    return None


def _is_search(found: Sequence[Tree] | None, direction: str) -> bool:
    """Tell whether a region keeps the first of the best elements, and nan above all."""
    best, at, element, place = [("argument", i) for i in range(4)]

    def compared(direction: str, x: Tree, y: Tree) -> Tree:
        return (direction, False, x, y)

    def logic(name: str, x: Tree, y: Tree) -> Tree:
        return (name, _FLAG, x, y)

    if found is None or any(tree[0] != "select" for tree in found):
        return False
    better = compared(direction, best, element)
    is_nan = compared("NE", best, best)
    tie = logic("and", compared("EQ", best, element), compared("LT", at, place))
    for wins in (better, logic("or", better, is_nan)):
        chosen, kept = found[0][2:], found[1][2:]
        if chosen == (wins, best, element) and kept == (logic("or", wins, tie), at, place):
            return True
    return False


_FLAG = "bool[]"
RAISINGS: dict[str, Raising] = {"stablehlo.reduce": _reduce}
