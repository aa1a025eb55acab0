"""Expansion of elementary functions into basic operations."""

from __future__ import annotations

from collections import Counter

from kiln.engines.native.elementary import EXPANSIONS, expand
from kiln.engines.native.loop_ir.buffers import nodes, roots_of
from kiln.engines.native.loop_ir.scalars import BASIC, Scope, Value, is_float
from kiln.engines.native.loop_ir.statements import Function, Nest, Statement
from kiln.engines.native.loop_ir.substitution import moved
from kiln.engines.native.passes.rebuilding import with_roots

MOST_REPEATED = 3
"""A function that occurs more often in a program is emitted once and called."""
OTHERS = frozenset(("constant", "size", "load", "index", "rare", "of_runtime", "checked", "within"))
"""Nodes that are neither basic operations nor functions."""


def missing(scope: Scope) -> str | None:
    """Return a function among the nodes of a scope that has no expansion, or None."""
    for x in scope.all():
        if x.op not in BASIC and x.op not in OTHERS and x.op not in EXPANSIONS:
            return x.op
    return None


def called(function: Function) -> frozenset[str]:
    """Return the functions that are frequent enough to be called instead of inlined."""
    uses: Counter[str] = Counter()
    _count(function.body, uses)
    return frozenset(op for op, count in uses.items() if count > MOST_REPEATED)


def _count(statements: list[Statement], uses: Counter[str]) -> None:
    for statement in statements:
        if isinstance(statement, Nest):
            uses.update(x.op for x in nodes(statement) if x.op in EXPANSIONS and x.op not in BASIC)
        for block in statement.blocks:
            _count(block, uses)


def expanded(nest: Nest, but: frozenset[str] = frozenset()) -> Nest:
    """Return a nest of basic operations only, except for some functions."""
    values = nodes(nest)
    if not any(_is_function(x) and x.op not in but for x in values):
        return nest
    found: dict[Value, Value] = {}
    for x in values:
        made = moved(x, {}, found)
        found[x] = expand(made) if _is_function(made) and x.op not in but else made
    return with_roots(nest, [found[x] for x in roots_of(nest)])


def _is_function(x: Value) -> bool:
    """Tell whether a node is not a basic operation: the remainder is basic for integers only."""
    return x.op in EXPANSIONS and (x.op not in BASIC or is_float(x.dtype))
