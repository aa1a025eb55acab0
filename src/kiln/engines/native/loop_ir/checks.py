"""Checks in compiled code: what is checked, and the errors that are raised.

With `jit(f, check="nan")` each operation's result passes through a node `checked`, with
`check="index"` each computed index through a node `within`. These return their operand; if it is
nan, or out of bounds, the code records the number of the site. Sites are numbered in program order,
and of all that fail before the code examines its records, the first is reported: at the end of each
iteration of a loop, before loops, and at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import Source, place_of
from kiln.core.engines.engine import Program
from kiln.core.remedies import REMEDIES
from kiln.engines.native.loop_ir.buffers import nodes
from kiln.engines.native.loop_ir.statements import Nest, Statement
from kiln.ir.sizes.size import Dim
from kiln.ir.sizes.values import evaluate
from kiln.ir.specialize import types_for

KINDS = ("index", "nan")
FAULTED = -2
"""The status of a program that a failed check has stopped: `kFaulted` of `native_call.h`."""
CHECKED, WITHIN = "checked", "within"


class Around(Record):
    """A loop around a site: its name, and its source line."""

    name: str
    source: Source | None


class Site(Record):
    """A checked equation. For an index, also the axis, its size and the greatest valid index."""

    kind: str
    operation: str
    operands: Sequence[Any]
    result: Any
    source: Source | None
    around: Sequence[Around]
    axis: Dim = 0
    size: Dim = 0
    last: Dim = 0


def kinds_of(program: Program) -> frozenset[str]:
    """Return which checks a program requests.

    Raises: ValueError for checks other than nan and index.
    """
    kinds = [kind.strip() for kind in program.checks.split(",") if kind.strip()]
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(
                three_lines(
                    f"compiling {program.name} with check={program.checks!r}",
                    f"there is no check of {kind!r}",
                    "use 'nan', 'index', or both: 'nan,index'",
                )
            )
    return frozenset(kinds)


def has_checks(statements: Sequence[Statement]) -> bool:
    """Tell whether statements, or those inside them, contain checks."""
    return any(
        (isinstance(each, Nest) and any(x.op in (CHECKED, WITHIN) for x in nodes(each)))
        or any(map(has_checks, each.blocks))
        for each in statements
    )


def raise_fault(
    name: str,
    sites: Sequence[Site],
    sizes: Mapping[str, int],
    status: int,
    number: int,
    index: int,
    iteration: int,
) -> None:
    """Raise the error of a check that failed; do nothing for the status of a kernel.

    `sizes` are those of the named axes in the call.

    Raises: FloatingPointError for a nan, IndexError for an index out of bounds.
    """
    if status != FAULTED:
        return
    site = sites[len(sites) - number]
    source = site.source
    where = place_of(source)
    around = list(reversed(site.around))
    inside = ""
    for depth, loop in enumerate(around):
        step = f"iteration {iteration} of" if depth == 0 and iteration >= 0 else "in"
        at = f" at {loop.source}" if loop.source and str(loop.source) != str(source) else ""
        inside += f", {step} {loop.name}{at}"
    types = ", ".join(map(str, types_for(site.operands, sizes)))
    (result,) = types_for([site.result], sizes)
    asked = f"`{site.operation}` of {types or 'nothing'} at {where}{inside}"
    off = f"compile {name} without check={site.kind!r}"
    if site.kind == "nan":
        remedy = REMEDIES.get(site.operation, "look at the operands with kiln.debug.print")
        raise FloatingPointError(
            three_lines(
                asked,
                f"invalid value (nan) encountered in {site.operation}: the result, {result}, "
                f"has nan; found by the checks that {name} was compiled with",
                f"{remedy}; or {off}",
            )
        )
    size, last = evaluate(site.size, sizes), evaluate(site.last, sizes)
    bounds = f"from 0 to {last}"
    raise IndexError(
        three_lines(
            asked,
            f"index {index} is out of bounds for axis {site.axis} with size {size}: "
            f"{site.operation} may begin {bounds} there",
            f"keep the index {bounds}, for example by jnp.clip; or {off}",
        )
    )
