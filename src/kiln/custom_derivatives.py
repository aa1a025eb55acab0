"""Functions with custom derivatives, and the arguments of their rules with symbolic zeros."""

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.control.custom_rules.closure import closure_convert, custom_gradient
from kiln.control.custom_rules.jvp import custom_jvp, custom_jvp_call_p
from kiln.control.custom_rules.linear_call import linear_call
from kiln.control.custom_rules.vjp import custom_vjp, custom_vjp_call_p
from kiln.control.custom_rules.vjp_rules import (
    CustomVJPPrimal,
    custom_vjp_primal_tree_values,
    zero_from_primal,
)
from kiln.core.absent import Zero as SymbolicZero

__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_jvp_call_p",
    "custom_vjp",
    "custom_vjp_call_p",
    "custom_vjp_primal_tree_values",
    "linear_call",
    "zero_from_primal",
]

_suggest_names(globals())
