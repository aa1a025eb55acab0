"""Checks for nan that one check can make on behalf of others.

Most operations propagate nan. A value whose nan certainly makes another checked value of the nest
nan need not be checked: only if the last of them is nan are all checked, to find the first.
"""

from __future__ import annotations

from kiln.engines.native.elementary import EXPANSIONS
from kiln.engines.native.loop_ir.buffers import nodes, roots_of
from kiln.engines.native.loop_ir.checks import CHECKED
from kiln.engines.native.loop_ir.scalars import Value, is_float, rebuilt
from kiln.engines.native.loop_ir.statements import Function, Nest, Statement
from kiln.engines.native.loop_ir.substitution import moved
from kiln.engines.native.passes.rebuilding import with_roots

MOST_COVERED = 8
"""Values that are checked later must be kept until then."""
_PASSING = frozenset(
    ("add", "sub", "mul", "div", "neg", "abs", "fma", "muladd", "min", "max", "sqrt", "floor")
    + ("ceil", "trunc", "rint", CHECKED, *(EXPANSIONS.keys() - {"pow"}))
)
"""Operations on floats whose result is a nan if any operand is."""


def merge_checks(function: Function) -> None:
    """Let checks for nan cover those of values whose nan propagates to them."""
    if function.sites:
        _merge(function.body)


def _merge(statements: list[Statement]) -> None:
    for i, statement in enumerate(statements):
        if isinstance(statement, Nest):
            statements[i] = _merged(statement)
        for block in statement.blocks:
            _merge(block)


def _merged(nest: Nest) -> Nest:
    values = nodes(nest)
    covering: dict[Value, list[Value]] = {}
    covered: set[Value] = set()
    for x in reversed(values):
        if x.op == CHECKED and x not in covered:
            covering[x] = _below(x, covered)
            covered.update(covering[x])
    if not covered:
        return nest
    found: dict[Value, Value] = {}
    for x in values:
        if x in covered:
            found[x] = found[x.operands[0]]
        elif covering.get(x):
            below = covering[x]
            sites = tuple([site for y in (x, *below) for site in y.attr])
            looked_at = tuple([found[y.operands[0]] for y in (x, *below)])
            found[x] = x.scope.node(CHECKED, x.dtype, looked_at, sites)
        else:
            found[x] = moved(x, {}, found) if x.op in ("load", "index") else _rebuilt(x, found)
    return with_roots(nest, [found[x] for x in roots_of(nest)])


def _rebuilt(x: Value, found: dict[Value, Value]) -> Value:
    return rebuilt(x, tuple([found[y] for y in x.operands]))


def _below(x: Value, covered: set[Value]) -> list[Value]:
    """Return checked values whose nan makes this one nan."""
    below: dict[Value, None] = {}
    seen: set[Value] = set()
    stack = list(x.operands)
    while stack and len(below) < MOST_COVERED:
        y = stack.pop()
        if y in seen or not is_float(y.dtype):
            continue
        seen.add(y)
        if y.op == CHECKED and y not in covered:
            below[y] = None
        if y.op in _PASSING or (y.op == "convert" and is_float(y.operands[0].dtype)):
            stack.extend(y.operands)
    return list(below)
