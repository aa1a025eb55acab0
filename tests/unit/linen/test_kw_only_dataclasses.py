"""Keyword-only fields of dataclasses."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from kiln.linen import kw_only_dataclasses
from kiln.linen.kw_only_dataclasses import dataclass, field


def _names(cls: type) -> list[str]:
    return list(inspect.signature(cls).parameters)


@dataclass
class Base:
    x: int = field(default=1, kw_only=True)


def test_a_subclass_may_have_required_fields_and_other_defaults():
    @dataclass
    class Child(Base):
        size: float
        x: int = 2

    assert _names(Child) == ["size", "x"]
    assert dataclasses.asdict(Child(4.0)) == {"x": 2, "size": 4.0}
    assert Child(4.0, x=5).x == 5


def test_a_field_may_be_given_anew():
    @dataclass
    class Child(Base):
        x: int = field(default=3)
        y: int = 0

    assert _names(Child) == ["y", "x"] and Child().x == 3


def test_the_marker():
    @dataclass
    class Marked:
        x: float
        _: kw_only_dataclasses.KW_ONLY
        a: int = 5

    assert _names(Marked) == ["x", "a"]


def test_extra_fields_and_options():
    @dataclass(extra_fields=[("z", int, field(default=7, kw_only=True))], eq=False)
    class Extended:
        a: int = 0

    assert Extended().z == 7 and Extended() != Extended()


def test_a_default_is_required():
    with pytest.raises(ValueError, match="no default"):
        field(kw_only=True)
