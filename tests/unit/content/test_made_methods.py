"""Methods the standard library writes are told by their code, on every Python."""

from __future__ import annotations

import collections
import dataclasses
import enum
import types
import typing
from typing import Any

import pytest

from kiln.content.made_methods import is_library, is_made, is_recursive_repr


@dataclasses.dataclass(frozen=True, order=True)
class Ordered:
    """All methods, and all kinds of fields."""

    a: Any
    b: Any = 1
    c: Any = dataclasses.field(default_factory=list)
    d: Any = dataclasses.field(default=3, init=False)
    e: dataclasses.InitVar[Any] = 4
    f: typing.ClassVar[Any] = 5
    g: Any = dataclasses.field(default=6, kw_only=True, repr=False, compare=False)

    def __post_init__(self, e: Any) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    """Fields in slots."""

    a: Any
    b: Any = dataclasses.field(default=2, init=False)


@dataclasses.dataclass(frozen=True)
class Derived(Ordered):
    """Fields of a base, and methods of its own."""

    h: Any = 7

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


@dataclasses.dataclass(unsafe_hash=True)
class Loose:
    """A dataclass that changes."""

    a: Any = 1


Point = collections.namedtuple("Point", "x y")


class Pair(typing.NamedTuple):
    """A named tuple with types."""

    a: Any
    b: Any = 2


class Mode(enum.Enum):
    """An enumeration."""

    A = 1


def functions(cls: type) -> dict[str, types.FunctionType]:
    found = {name: getattr(member, "__func__", member) for name, member in vars(cls).items()}
    return {name: f for name, f in found.items() if isinstance(f, types.FunctionType)}


@pytest.mark.parametrize("cls", [Ordered, Slotted, Derived, Loose, Point, Pair, Mode])
def test_each_method_of_the_library_is_known(cls: type) -> None:
    own = {"__eq__", "__hash__"} if cls is Derived else set()
    own |= {"__post_init__"} if cls is Ordered else set()
    # Evaluated text without anything that needs leave.
    own |= {"__new__"} if cls in (Point, Pair) else set()
    # Annotations, which Python 3.14 evaluates late, are not content.
    own |= {"__annotate_func__"} if cls is Pair else set()
    for name, f in functions(cls).items():
        known = is_library(f) or is_made(cls, f) or is_recursive_repr(f)
        assert known == (name not in own), name


def test_code_that_looks_alike_is_not_known() -> None:
    space: dict[str, Any] = {}
    exec(
        "import dataclasses\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class Own:\n"
        "  a: int\n"
        "  def __eq__(self, other): return self.a == other.a.__class__\n"
        "  def __repr__(self): return self.__class__.__doc__\n",
        {"__name__": "__main__"},
        space,
    )
    own = functions(space["Own"])
    assert is_made(space["Own"], own["__init__"])
    assert not is_made(space["Own"], own["__eq__"])
    assert not is_made(space["Own"], own["__repr__"])
    assert not is_recursive_repr(own["__repr__"])


def test_code_of_the_library_over_other_globals_is_not_known() -> None:
    make = functions(Point)["_make"]
    assert is_made(Point, make)
    other = types.FunctionType(make.__code__, {}, closure=make.__closure__)
    assert not is_made(Point, other)


def test_a_function_of_the_library_with_other_code_is_not_known() -> None:
    f = functions(enum.Enum)["__dir__"]
    before = f.__code__
    assert is_library(f)
    try:
        f.__code__ = (lambda self: []).__code__
        assert not is_library(f)
    finally:
        f.__code__ = before
