"""The residuals that a function keeps between its value and its derivative."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from kiln.api.derivatives.arguments import require_callable
from kiln.api.derivatives.linear import vjp
from kiln.api.jit import wrap
from kiln.base.source import Source, api_boundary
from kiln.base.tree import tree_flatten, tree_leaves, tree_unflatten
from kiln.base.wrapping import wraps
from kiln.control.call import jit_p
from kiln.control.checkpoint import checkpoint_p
from kiln.ir.jaxpr import Atom, Eqn, Jaxpr
from kiln.ir.types import ShapedArray
from kiln.ops.identity import name_p


@api_boundary
def saved_residuals(
    f: Callable[..., Any], *args: Any, **kwargs: Any
) -> list[tuple[ShapedArray, str]]:
    """Return the type of each array kept for `vjp(f, *args, **kwargs)`, and what computes it.

    Constants come first, then arguments, then results of operations in the order of the program.
    Nothing is computed.
    """
    require_callable(f, "saved_residuals")

    @wraps(f)
    def kept(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs))

        def flat(*leaves: Any) -> Any:
            args, kwargs = tree_unflatten(tree, leaves)
            return f(*args, **kwargs)

        return tree_leaves(vjp(flat, *leaves)[1])

    traced = wrap(kept).trace(*args, **kwargs)
    program = traced.jaxpr.jaxpr
    names = traced.arg_names
    made: dict[Any, Origin] = dict.fromkeys(program.constvars, _CONSTANT)
    for place, (v, name) in enumerate(zip(program.invars, names, strict=True)):
        made[v] = (place, f"from the argument {name}")
    _add_origins(program, made)
    found = [(v.aval, *_origin(v, made)) for v in program.outvars]
    return [(aval, text) for aval, _, text in sorted(found, key=lambda each: each[1])]


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print the type of each array kept for `vjp(f, *args, **kwargs)`, and what computes it.

    Example:
        >>> kiln.ad_checkpoint.print_saved_residuals(lambda x: x * x, 3.0)
        f32[] from the argument x
    """
    for aval, text in saved_residuals(f, *args, **kwargs):
        sys.stdout.write(f"{aval.str_short(short_dtypes=True)} {text}\n")


Origin = tuple[int, str]
"""The position in the list, and the text."""

_LITERAL: Origin = (-2, "from a literal")
_CONSTANT: Origin = (-1, "from a constant")


def _origin(atom: Atom, made: dict[Any, Origin]) -> Origin:
    return _LITERAL if atom.is_literal else made[atom]


def _add_origins(program: Jaxpr, made: dict[Any, Origin]) -> None:
    """Add the origins of the results of a program's equations to those of its inputs."""
    for eqn in program.eqns:
        inner: Jaxpr | None = eqn.params["jaxpr"] if eqn.primitive in _SEEN_THROUGH else None
        if inner is not None:
            made |= {v: _origin(x, made) for v, x in zip(inner.invars, eqn.invars, strict=True)}
            if eqn.primitive is checkpoint_p:
                _add_origins(inner, made)
        for place, v in enumerate(eqn.outvars):
            out = v if inner is None else inner.outvars[place]
            known = out.is_literal or out in made
            made[v] = _origin(out, made) if known else (len(made), _text(eqn))


_SEEN_THROUGH = (jit_p, checkpoint_p)
"""A result of these that is an operand has its origin; those of the second have inner origins."""


def _text(eqn: Eqn) -> str:
    where = _place(eqn.source)
    if eqn.primitive is name_p:
        return f"named '{eqn.params['name']}' from {where}"
    if eqn.primitive is jit_p:
        return f"output of jitted function '{eqn.params['name']}' from {where}"
    return f"output of {eqn.primitive.name} from {where}"


def _place(source: Source | None) -> str:
    return f"{source} ({source.function})" if source is not None else "unknown"
