"""Expansion: elementary functions become the basic operations that compute them."""

from __future__ import annotations

from kiln.engines.native.elementary import EXPANSIONS, expand
from kiln.engines.native.loop_ir import Function, Nest, Statement, blocks
from kiln.engines.native.passes.buffers import nodes
from kiln.engines.native.passes.fusion import roots_of, with_roots
from kiln.engines.native.scalars import BASIC, Scope, Value, rebuilt

OTHERS = frozenset(("constant", "load", "index", "rare"))
"""Nodes that are neither basic operations nor functions."""


def missing(scope: Scope) -> str | None:
    """Return a function among the nodes of a scope that has no expansion, or None."""
    for x in scope.all():
        if x.op not in BASIC and x.op not in OTHERS and x.op not in EXPANSIONS:
            return x.op
    return None


def expand_functions(function: Function) -> None:
    """Expand the functions of all nests."""
    _expand(function.body)


def _expand(statements: list[Statement]) -> None:
    for i, statement in enumerate(statements):
        for block in blocks(statement):
            _expand(block)
        if isinstance(statement, Nest) and any(x.op in EXPANSIONS for x in nodes(statement)):
            found: dict[Value, Value] = {}
            for x in nodes(statement):
                operands = tuple([found[y] for y in x.operands])
                made = rebuilt(x, operands)
                found[x] = expand(made) if x.op in EXPANSIONS else made
            statements[i] = with_roots(statement, [found[x] for x in roots_of(statement)])
