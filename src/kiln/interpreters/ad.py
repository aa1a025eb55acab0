"""Rules for derivatives: `primitive_jvps`, `primitive_transposes`, and ways to define them.

The names are those of `jax.interpreters.ad`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.absent import Linear as UndefinedPrimal
from kiln.core.absent import Zero as Zero
from kiln.core.absent import is_linear as is_undefined_primal
from kiln.core.absent import is_zero
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.interpreters.rule_tables import Rule, RuleTable
from kiln.ops.elements.families import add, add_p
from kiln.ops.shape import filled, zeros_of
from kiln.transforms import jvp as _forward
from kiln.transforms.jvp import JVPTrace as JVPTrace
from kiln.transforms.jvp import JVPTracer as JVPTracer

add_jaxvals = add
add_jaxvals_p = add_p
instantiate_zeros = filled
zeros_like_aval = zeros_of


def _jvp_rule(primitive: Primitive, rule: Rule) -> Rule:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any) -> Any:
        out, moved = rule(tuple(primals), tuple(tangents), **params)
        if not primitive.multiple:
            return out, _tangent(out, moved)
        return out, [_tangent(x, t) for x, t in zip(out, moved, strict=True)]

    return jvp


def _tangent(out: Any, tangent: Any) -> Any:
    aval = aval_of(out).tangent()
    return Zero(aval) if is_zero(tangent) or aval.dtype == dtypes.float0 else tangent


def _transpose_rule(primitive: Primitive, rule: Rule) -> Rule:
    def transpose(cotangent: Any, /, *operands: Any, **params: Any) -> Any:
        found = rule(cotangent, *operands, **params)
        if found is Zero or is_zero(found):
            found = [None] * len(operands)
        if len(found) != len(operands):
            raise TypeError(
                three_lines(
                    f"transpose of {primitive.name!r} at {current_source()}",
                    f"the rule returned {len(found)} cotangents for {len(operands)} operands",
                    "return a list with a cotangent, or None, for each operand",
                )
            )
        return [_cotangent(x, ct) for x, ct in zip(operands, found, strict=True)]

    return transpose


def _cotangent(operand: Any, cotangent: Any) -> Any:
    if not is_undefined_primal(operand):
        return None
    return Zero(operand.aval) if cotangent is None or cotangent is Zero else cotangent


primitive_jvps = RuleTable("jvp", _jvp_rule, lambda primitive: primitive.jvp)
"""`rule(primals, tangents, **params) -> (result, tangent)`, both lists if there are several."""

primitive_transposes = RuleTable(
    "transpose", _transpose_rule, lambda primitive: primitive.transpose
)
"""`rule(cotangent, *operands, **params)`: one cotangent, or None, for each operand."""


def get_primitive_transpose(primitive: Primitive) -> Rule:
    """Return the transpose rule of a primitive.

    Raises: NotImplementedError if it has none.
    """
    if primitive not in primitive_transposes:
        raise primitive._missing("transpose", "it is not linear")
    return primitive_transposes[primitive]


def defjvp(primitive: Primitive, *rules: Callable[..., Any] | None) -> None:
    """Set one rule for each operand: `rule(tangent, *operands, **params)`, or None.

    An operand without a rule has no tangent. The `rules` replace those that `primitive` had.
    """

    def with_result(rule: Callable[..., Any] | None) -> Callable[..., Any] | None:
        if rule is None:
            return None
        return lambda tangent, out, /, *operands, **params: rule(tangent, *operands, **params)

    defjvp2(primitive, *map(with_result, rules))


def defjvp2(primitive: Primitive, *rules: Callable[..., Any] | None) -> None:
    """Set one rule for each operand: `rule(tangent, result, *operands, **params)`, or None.

    An operand without a rule has no tangent. The `rules` replace those that `primitive` had.
    Raises: ValueError, as it is differentiated, for another number of operands than `rules`.
    """

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        terms = [
            rule(t, out, *primals, **params)
            for rule, t in zip(rules, tangents, strict=True)
            if rule is not None and not is_zero(t)
        ]
        nothing: Any = Zero(aval_of(out).tangent())
        return out, functools.reduce(add_tangents, terms, nothing)

    primitive_jvps[primitive] = jvp


def add_tangents(x: Any, y: Any) -> Any:
    """Return the sum of two tangents, each an array or `Zero`."""
    if is_zero(x):
        return y
    return x if is_zero(y) else add(x, y)


def deflinear(primitive: Primitive, transpose_rule: Rule) -> None:
    """Make a primitive linear in all its operands; `transpose_rule(ct, **params)` -> cotangents."""
    deflinear2(primitive, lambda ct, /, *operands, **params: transpose_rule(ct, **params))


def deflinear2(primitive: Primitive, transpose_rule: Rule) -> None:
    """Make a primitive linear in all its operands: `transpose_rule(ct, *operands, **params)`."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], /, **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        return out, primitive.bind(*map(filled, tangents), **params)

    def transpose(ct: Any, /, *operands: Any, **params: Any) -> Any:
        return Zero if _nothing(ct) else transpose_rule(ct, *operands, **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = transpose


def _nothing(ct: Any) -> bool:
    return all(map(is_zero, ct)) if isinstance(ct, (list, tuple)) else is_zero(ct)


def defbilinear(primitive: Primitive, lhs_rule: Rule, rhs_rule: Rule) -> None:
    """Make a primitive linear in each of two operands; rules are `rule(ct, x, y, **params)`.

    `lhs_rule` returns the cotangent of the first operand, `rhs_rule` that of the second; the
    operand that it is for is an UndefinedPrimal.
    """
    defjvp(
        primitive,
        lambda t, x, y, /, **params: primitive.bind(t, y, **params),
        lambda t, x, y, /, **params: primitive.bind(x, t, **params),
    )

    def transpose(ct: Any, x: Any, y: Any, /, **params: Any) -> Any:
        if is_undefined_primal(x):
            return [lhs_rule(ct, x, y, **params), None]
        return [None, rhs_rule(ct, x, y, **params)]

    primitive_transposes[primitive] = transpose


def jvp(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    instantiate: bool = True,
) -> tuple[list[Any], list[Any]]:
    """Return the results of `fun(*primals) -> list` and their tangents, which may be `Zero`.

    With `instantiate` the tangents are arrays.
    """
    given = [t if is_zero(t) else _tangent(p, t) for p, t in zip(primals, tangents, strict=True)]
    outs, moved = _forward.jvp(fun, primals, given)
    return outs, list(map(filled, moved)) if instantiate else moved


__all__ = [
    "JVPTrace",
    "JVPTracer",
    "UndefinedPrimal",
    "Zero",
    "add_jaxvals",
    "add_jaxvals_p",
    "add_tangents",
    "defbilinear",
    "defjvp",
    "defjvp2",
    "deflinear",
    "deflinear2",
    "get_primitive_transpose",
    "instantiate_zeros",
    "is_undefined_primal",
    "jvp",
    "primitive_jvps",
    "primitive_transposes",
    "zeros_like_aval",
]
