"""Which effects of other libraries may be where."""

from __future__ import annotations

import pytest

from kiln.ir.effects import IO_ORDERED, must_keep
from kiln.ir.own_effects import (
    EffectTypeSet,
    OwnEffect,
    check_allowed,
    check_lowerable,
    lowerable_effects,
    ordered_effects,
)


class Mine(OwnEffect):
    """An effect of no order."""

    def __repr__(self) -> str:
        return "mine"


class Ordered(Mine):
    """An effect that keeps its order, and may be compiled."""


lowerable_effects.add_type(Ordered)
ordered_effects.add_type(Ordered)


def test_classes_say_what_keeps_its_order() -> None:
    assert (Mine().ordered, Ordered().ordered) == (False, True)
    assert must_keep(frozenset((Mine(),)))
    assert Mine() != Mine()


def test_effects_are_allowed_by_class() -> None:
    allowed = EffectTypeSet()
    effects = [Ordered(), Mine(), IO_ORDERED]
    with pytest.raises(NotImplementedError, match=r"not supported in `scan`: \[mine, mine\]"):
        check_allowed("scan", effects, allowed)
    allowed.add_type(Mine)
    check_allowed("scan", effects, allowed)
    assert allowed.filter_in(effects) == effects[:2]
    assert allowed.filter_not_in(effects) == effects[2:]


def test_effects_are_lowered_by_class_and_ordered_ones_on_one_device() -> None:
    with pytest.raises(ValueError, match=r"Cannot lower jaxpr with effects: \[mine\]"):
        check_lowerable("f", [Mine(), Ordered()], 1)
    check_lowerable("f", [Ordered(), IO_ORDERED], 1)
    with pytest.raises(ValueError, match=r"not supported for more than 1 device: \[mine\]"):
        check_lowerable("f", [Ordered(), IO_ORDERED], 2)
