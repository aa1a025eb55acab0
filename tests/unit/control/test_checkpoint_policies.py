"""Policies answer for one equation; what follows from that is in test_checkpoint.py."""

from __future__ import annotations

from kiln.control import checkpoint_policies as policies
from kiln.ops.elements.elementwise import sin_p
from kiln.ops.identity import name_p
from kiln.ops.linear.contraction import dot_general_p

PLAIN = {"dimension_numbers": (((1,), (0,)), ((), ()))}
BATCHED = {"dimension_numbers": (((2,), (1,)), ((0,), (0,)))}


def test_policies_on_equations():
    assert policies.everything_saveable(sin_p)
    assert not policies.nothing_saveable(sin_p)
    assert policies.dots_saveable(dot_general_p, **BATCHED)
    assert not policies.dots_saveable(sin_p)
    assert policies.dots_with_no_batch_dims_saveable(dot_general_p, **PLAIN)
    assert not policies.dots_with_no_batch_dims_saveable(dot_general_p, **BATCHED)
    assert policies.save_anything_except_these_names("a")(sin_p)
    assert not policies.save_any_names_but_these("a")(sin_p)
    assert policies.save_only_these_names("a")(name_p, name="a")
    either = policies.save_from_both_policies(policies.dots_saveable, policies.nothing_saveable)
    assert either(dot_general_p, **PLAIN)
    assert not either(sin_p)
