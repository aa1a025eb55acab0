"""The annotations of classes, with and without those of their bases."""

import dataclasses
import sys
from typing import Any

import pytest

from kiln import linen
from kiln.base.class_annotations import own_annotations
from kiln.linen.kw_only_dataclasses import dataclass, field


class Base:
    width: int


class Derived(Base):
    height: float = 1.0


class Plain(Base):
    pass


def test_only_those_of_the_own_body_are_returned() -> None:
    assert own_annotations(Base) == {"width": int}
    assert own_annotations(Derived) == {"height": float}
    assert own_annotations(Plain) == {}


@pytest.mark.skipif(sys.version_info < (3, 14), reason="names were looked up by the class body")
def test_names_that_are_defined_later() -> None:
    class Later(linen.Module):
        inner: Defined | None = None  # type: ignore[name-defined] # noqa: F821
        size: int = 2

    @dataclass
    class Fields:
        inner: Defined  # type: ignore[name-defined] # noqa: F821
        size: int = field(default=2, kw_only=True)

    made: Any = Fields(1)
    assert Later().size == made.size == 2
    assert [each.name for each in dataclasses.fields(Fields)] == ["inner", "size"]
