"""Types of high values: registration, states, what a subclass must define."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln.core.hitypes import MutableQDD, full_type_of, is_high
from kiln.experimental import hijax
from kiln.extend.core import Effect
from tests.unit.control.hi_values import Box, BoxState, BoxTy, Scaled, ScaledTy


def test_types_of_registered_classes() -> None:
    x = Scaled(np.zeros(3, np.int8), 1.0)
    assert kiln.typeof(x) == ScaledTy((3,)) and is_high(x) and not is_high(1.0)
    with kiln.enable_x64(True):
        assert kiln.typeof(x) == ScaledTy((3,))
    for kind in (kiln.typeof(x), kiln.typeof(1.0), BoxTy()):
        assert isinstance(kind, hijax.AbstractValue)
    assert (kiln.typeof(x).is_high, kiln.typeof(1.0).is_high) == (True, False)
    with pytest.raises(TypeError, match="a class and a function") as caught:
        hijax.register_hitype(3, len)
    assert len(str(caught.value).splitlines()) == 3


def test_the_type_of_an_array_is_its_own_part() -> None:
    kind = kiln.typeof(np.ones(2))
    assert kind.lo_ty() == [kind] and kind.normalize() is kind
    assert not kiln.typeof(1.0).normalize().weak_type
    assert kind.lower_val(3) == [3] and kind.raise_val(3) == 3


def test_states() -> None:
    box = Box({"a": 1.0})
    state = kiln.experimental.cur_qdd(box)
    assert state == BoxState((kiln.typeof(1.0),), kiln.tree.structure({"a": 0}))
    full = full_type_of(box)
    assert full == hijax.AvalQDD(BoxTy(), state) and full.has_qdd
    assert full.lo_ty() == [kiln.typeof(1.0)] and full.read_loval(box) == [1.0]
    assert full.new_from_loval(2.0).get() == {"a": 2.0}
    assert full_type_of(1.0) == kiln.typeof(1.0)
    for x in (1.0, Scaled(np.zeros(3, np.int8), 1.0)):
        with pytest.raises(TypeError, match="only values that change have a state"):
            kiln.experimental.cur_qdd(x)


def test_the_state_of_a_value_being_recorded() -> None:
    state = MutableQDD("a")
    kind = hijax.AvalMutableQDD(BoxTy(), state)
    kind.mutable_qdd.update("b")
    assert (state.init_val, state.cur_val) == ("a", "b")


def test_what_a_type_must_define() -> None:
    class Bare(hijax.HiType):
        __hash__ = object.__hash__

    class Changing(hijax.MutableHiType):
        __hash__ = object.__hash__

    calls: list[tuple[Any, str, tuple[Any, ...]]] = [
        (Bare(), "lo_ty", ()),
        (Bare(), "lower_val", (1,)),
        (Bare(), "raise_val", (1,)),
        (Bare(), "to_tangent_aval", ()),
        (Bare(), "to_ct_aval", ()),
        (Changing(), "lo_ty_qdd", (1,)),
        (Changing(), "read_loval", (1, 2)),
        (Changing(), "new_from_loval", (1, 2)),
        (Changing(), "update_from_loval", (1, 2)),
        (Changing(), "to_ct_aval", ()),
        (Changing(), "type_state", ()),
    ]
    for kind, method, arguments in calls:
        with pytest.raises(NotImplementedError, match="does not define") as caught:
            getattr(kind, method)(*arguments)
        assert len(str(caught.value).splitlines()) == 3
    with pytest.raises(NotImplementedError, match="__eq__"):
        Bare() == 1  # noqa: B015 (the comparison raises)


def test_effects_of_libraries() -> None:
    class Mine(Effect):
        """An effect of a library."""

    class Other(Effect):
        """Another one."""

    kinds = type(hijax.control_flow_allowed_effects)()
    kinds.add_type(Mine)
    assert kinds.contains(Mine()) and not kinds.contains(Other())
    assert kinds.filter_in([Mine(), Other()]) == [Mine()]
    assert kinds.filter_not_in([Mine(), Other()]) == [Other()]
    assert repr(kinds) == "EffectTypeSet(['Mine'])"
