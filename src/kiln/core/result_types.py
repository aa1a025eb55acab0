"""The types of results when types say how arrays are sharded: each primitive's rule, applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from kiln.base.config import options
from kiln.base.errors import ShardingTypeError, three_lines
from kiln.base.source import current_source
from kiln.ir.operation import Operation
from kiln.ir.sharded_type import compiler_decides, is_same_mesh, is_told, mesh_of, plain, with_split


def types_of_results(primitive: Operation, avals: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return what `infer` does, with the shardings that follow from those of the operands.

    Raises: ShardingTypeError if the primitive has no rule, or they do not determine the result's;
        ValueError if they are over another mesh than the one in force.
    """
    if primitive.tells_shardings:
        return primitive.infer(*avals, **params)
    found = primitive.infer(*map(plain, avals), **params)
    if not is_told(avals) or compiler_decides():
        return found
    mesh = mesh_of(avals)
    in_force = options().mesh
    if in_force is not None and not is_same_mesh(mesh, in_force):
        raise ValueError(
            three_lines(
                asked(primitive.name, avals),
                f"For primitive {primitive.name}, context mesh {in_force} should match the aval "
                f"mesh {mesh}",
                "set the mesh of the operands: kiln.set_mesh(mesh), or bring them to the one set",
            )
        )
    results = found if primitive.multiple else [found]
    splits = primitive.splits(avals, results, params)
    try:
        typed = [
            with_split(aval, mesh, split)
            for aval, split in zip(results, splits if primitive.multiple else [splits], strict=True)
        ]
    except ShardingTypeError as error:
        result, wrong, remedy = str(error).splitlines()
        given = ", ".join(aval.str_short() for aval in avals)
        raise ShardingTypeError(
            three_lines(
                asked(primitive.name, avals),
                f"{primitive.name} operation with inputs: {given} produces an illegally sharded "
                f"result: {result}: {wrong}",
                remedy,
            )
        ) from None
    return typed if primitive.multiple else typed[0]


def asked(name: str, avals: Sequence[Any]) -> str:
    """Say for messages which operation was applied to operands of which types."""
    return f"{name}: operands {', '.join(map(str, avals))} at {current_source()}"


def refuse(name: str, avals: Sequence[Any], wrong: str, remedy: str = "") -> NoReturn:
    """Raise the ShardingTypeError of an operation."""
    remedy = remedy or "reshard an operand: kiln.reshard(x, P(...))"
    raise ShardingTypeError(three_lines(asked(name, avals), wrong, remedy))
