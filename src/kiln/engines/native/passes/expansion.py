"""Expansion: elementary functions become the basic operations that compute them."""

from __future__ import annotations

from kiln.engines.native.elementary import EXPANSIONS, expand
from kiln.engines.native.loop_ir import Nest
from kiln.engines.native.passes.buffers import nodes
from kiln.engines.native.passes.fusion import roots_of, with_roots
from kiln.engines.native.passes.substitution import moved
from kiln.engines.native.scalars import BASIC, Scope, Value, is_float

OTHERS = frozenset(("constant", "load", "index", "rare"))
"""Nodes that are neither basic operations nor functions."""


def missing(scope: Scope) -> str | None:
    """Return a function among the nodes of a scope that has no expansion, or None."""
    for x in scope.all():
        if x.op not in BASIC and x.op not in OTHERS and x.op not in EXPANSIONS:
            return x.op
    return None


def expanded(nest: Nest) -> Nest:
    """Return a nest of basic operations only."""
    values = nodes(nest)
    if not any(map(_is_function, values)):
        return nest
    found: dict[Value, Value] = {}
    for x in values:
        made = moved(x, {}, found)
        found[x] = expand(made) if _is_function(made) else made
    return with_roots(nest, [found[x] for x in roots_of(nest)])


def _is_function(x: Value) -> bool:
    """Tell whether a node is not a basic operation: the remainder is one of integers only."""
    return x.op in EXPANSIONS and (x.op not in BASIC or is_float(x.dtype))
