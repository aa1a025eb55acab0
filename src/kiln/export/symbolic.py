"""Types with named sizes, to export functions for: `symbolic_shape`, `symbolic_args_specs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import broadcast_prefix, tree_flatten, tree_unflatten
from kiln.core.trace import aval_of
from kiln.export.constraints import facts_of_text
from kiln.export.size_expressions import shape_of_text
from kiln.ir.sizes.size import Dim, Size
from kiln.jit.signatures.struct import ShapeDtypeStruct, type_of_struct


class SymbolicScope:
    """A set of constraints on named sizes, such as `b >= 2`.

    A constraint compares two sizes by `>=`, `<=` or `==`. In kiln equal names are the same size, in
    all scopes, and must satisfy the constraints of all of them.

    Raises: ValueError for other text, and for constraints that no sizes fulfill.

    Example:
        >>> scope = kiln.export.SymbolicScope(["b >= 2", "mod(b, 2) == 0"])
        >>> (b,) = kiln.export.symbolic_shape("b", scope=scope)
        >>> b > 1, b // 2 * 2 == b
        (True, True)
    """

    def __init__(self, constraints_str: Sequence[str] = ()) -> None:
        self._facts = facts_of_text(constraints_str)

    def __repr__(self) -> str:
        texts = [] if self._facts is None else [fact.text for fact in self._facts.facts]
        return f"SymbolicScope({texts or ''})"


def is_symbolic_dim(p: Any) -> bool:
    """Tell whether a size depends on a name.

    Example:
        >>> [kiln.export.is_symbolic_dim(d) for d in kiln.export.symbolic_shape("b, 3")]
        [True, False]
    """
    return type(p) is Size


@api_boundary
def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[Dim | None] | None = None,
) -> tuple[Dim, ...]:
    """Parse a shape from text; None means `...`, the shape `like`.

    `_` stands for the size of `like` at that axis, `...` for all remaining ones. The names are
    subject to the constraints of `scope`, or to `constraints` (see `SymbolicScope`).

    Raises: ValueError for other text, and for constraints that no sizes fulfill.

    Example:
        >>> kiln.export.symbolic_shape("b, 2*b + 1, ...", like=(4, 9, 3))
        (b, 2*b+1, 3)
    """
    facts = _scope(constraints, scope)._facts
    if shape_spec is not None and not isinstance(shape_spec, str):
        raise ValueError(
            three_lines(
                f"symbolic_shape({shape_spec!r:.100}) at {current_source()}",
                "polymorphic shape spec should be None or a string",
                "write symbolic_shape('b, 4')",
            )
        )
    spec = "..." if shape_spec is None else shape_spec
    return shape_of_text(spec, like, f"symbolic_shape({shape_spec!r:.100}, like={like})", facts)


@api_boundary
def symbolic_args_specs(
    args: Any,
    shapes_specs: Any,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """Return ShapeDtypeStructs for arguments, with shapes given as text.

    `shapes_specs` is a string, None, or a tree prefix of these; the constraints apply to the names.

    Raises: ValueError for text that is not a shape, or specs that are not a prefix of the
        arguments.

    Example:
        >>> kiln.export.symbolic_args_specs((jnp.ones((3, 4)), jnp.ones(3)), ("b, _", "b"))
        (ShapeDtypeStruct(shape=(b, 4), dtype=float32), ShapeDtypeStruct(shape=(b,), dtype=float32))
    """
    scope = _scope(constraints, scope)
    leaves, tree = tree_flatten(args)
    if isinstance(args, tuple) and isinstance(shapes_specs, list):
        shapes_specs = tuple(shapes_specs)
    specs = broadcast_prefix(shapes_specs, args, lambda x: x is None)
    types = [type_of_struct(x) or aval_of(x) for x in leaves]
    made = [
        ShapeDtypeStruct(symbolic_shape(spec, like=aval.shape, scope=scope), aval.dtype)
        for spec, aval in zip(specs, types, strict=True)
    ]
    return tree_unflatten(tree, made)


def _scope(constraints: Sequence[str], scope: SymbolicScope | None) -> SymbolicScope:
    if scope is None:
        return SymbolicScope(constraints)
    if constraints:
        raise ValueError(
            three_lines(
                f"a symbolic shape with a scope and constraints at {current_source()}",
                "Cannot specify both a `scope` and `constraints`",
                "pass the constraints to the scope: SymbolicScope(constraints)",
            )
        )
    return scope
