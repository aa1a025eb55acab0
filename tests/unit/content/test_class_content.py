"""Contents of classes and immutable instances; tokens of objects."""

from __future__ import annotations

import dataclasses
import gc
from typing import Any, NamedTuple

import pytest

from kiln.content.class_content import Unreadable, read_class, read_instance, token_of
from kiln.content.fingerprint import Reading


class Thing:
    """Something with an identity."""


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    """Its state is in slots."""

    a: Any
    b: Any = 2


class Point(NamedTuple):
    """A named tuple."""

    x: Any


@dataclasses.dataclass
class Changeable:
    """A dataclass that is not frozen."""

    a: Any = 1


class Derived(Slotted):
    """A plain class below a frozen one: its instances take attributes."""


def test_tokens_tell_objects_apart_for_good() -> None:
    seen = set()
    for _ in range(100):
        # Ids are used again at once; tokens never.
        thing = Thing()
        assert token_of(thing) == token_of(thing)
        seen.add(token_of(thing))
        del thing
        gc.collect(0)
    assert len(seen) == 100
    with pytest.raises(Unreadable):
        token_of(1)


def test_instances() -> None:
    def key(value: Any) -> Any:
        return read_instance(Reading(), value)

    assert key(Slotted(1)) == key(Slotted(1, 2))
    assert key(Slotted(1)) != key(Slotted(1.0))
    assert key(Point(1)) == key(Point(1))
    assert key(Point(1)) != key(Point(True))
    for value in (Changeable(), Derived(1), Thing(), Slotted([])):
        with pytest.raises(Unreadable):
            key(value)


def test_classes_are_read_with_their_methods() -> None:
    def make(n: Any) -> Any:
        class Local:
            def f(self) -> Any:
                return n

            @classmethod
            def g(cls) -> Any:
                return cls

            @property
            def h(self) -> Any:
                return n

        return Local

    cls = make(1)
    before = read_class(Reading(), cls)
    assert read_class(Reading(), cls) == before
    assert read_class(Reading(), make(1)) != before
    cls.f = lambda self: 2
    assert read_class(Reading(), cls) != before
    cls.table = []
    with pytest.raises(Unreadable):
        read_class(Reading(), cls)
