"""What `checkpoint` may store in the forward pass instead of recomputing it.

A policy is called for each equation, `policy(primitive, *operand_types, **params)`, and tells
whether its results may be stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln.ops.identity import name_p
from kiln.ops.linear.contraction import dot_general_p

Policy = Callable[..., bool]


def everything_saveable(*_: Any, **__: Any) -> bool:
    """Store everything that the backward pass needs."""
    return True


def nothing_saveable(*_: Any, **__: Any) -> bool:
    """Store only the operands of the function, as without a policy."""
    return False


def dots_saveable(primitive: Any, *_: Any, **__: Any) -> bool:
    """Store results of matrix products."""
    return primitive is dot_general_p


def dots_with_no_batch_dims_saveable(primitive: Any, *_: Any, **params: Any) -> bool:
    """Store results of matrix products without batch dimensions."""
    if primitive is not dot_general_p:
        return False
    _, (lhs_batch, rhs_batch) = params["dimension_numbers"]
    return not lhs_batch and not rhs_batch


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Store everything except values with these names."""

    def policy(primitive: Any, *_: Any, **params: Any) -> bool:
        return primitive is not name_p or params["name"] not in names_not_to_save

    return policy


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Store all named values except those with these names."""

    def policy(primitive: Any, *_: Any, **params: Any) -> bool:
        return primitive is name_p and params["name"] not in names_not_to_save

    return policy


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Store the values with these names."""

    def policy(primitive: Any, *_: Any, **params: Any) -> bool:
        return primitive is name_p and params["name"] in names_which_can_be_saved

    return policy


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Store what either of two policies stores."""

    def policy(primitive: Any, *avals: Any, **params: Any) -> bool:
        return policy_1(primitive, *avals, **params) or policy_2(primitive, *avals, **params)

    return policy
