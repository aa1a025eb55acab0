"""Which programs multiply matrices, whose operands engines bring into a layout of their own."""

from __future__ import annotations

from kiln.ir.jaxpr import ClosedJaxpr, Jaxpr

_PRODUCTS = ("dot_general", "conv_general_dilated", "call_exported")
"""Stored programs may have some, which is known when they are compiled."""


def has_products(jaxpr: Jaxpr) -> bool:
    """Tell whether a program, or one inside, has products of matrices or convolutions."""
    found: bool | None = jaxpr.memo.get(has_products)
    if found is None:
        found = jaxpr.memo[has_products] = any(
            eqn.primitive.name in _PRODUCTS or any(map(_has, eqn.params.values()))
            for eqn in jaxpr.eqns
        )
    return found


def _has(value: object) -> bool:
    if isinstance(value, ClosedJaxpr):
        return has_products(value.jaxpr)
    if isinstance(value, (tuple, list)):
        return any(map(_has, value))
    return isinstance(value, Jaxpr) and has_products(value)
