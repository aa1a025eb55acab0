"""Records do what frozen dataclasses do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import threading
from typing import Any, ClassVar

import pytest

from kiln.base.records import Record


class Point(Record):
    """A record with all kinds of fields."""

    x: int
    y: Any = 2
    note: str = dataclasses.field(default="", compare=False, repr=False)
    box: list[int] = dataclasses.field(default_factory=list, compare=False)
    kind: ClassVar[str] = "point"
    sign: int = dataclasses.field(default=1, init=False)

    def norm(self) -> Any:
        return self.x + self.y


class Solid(Point):
    """A record that adds a field and changes a default."""

    y: Any = 7
    z: int = 3


@dataclasses.dataclass(frozen=True)
class Twin:
    """The dataclass that `Point` should be like."""

    x: int
    y: Any = 2
    note: str = dataclasses.field(default="", compare=False, repr=False)
    box: list[int] = dataclasses.field(default_factory=list, compare=False)
    kind: ClassVar[str] = "point"
    sign: int = dataclasses.field(default=1, init=False)


class Pair(Record, eq=False):
    """Compared by identity."""

    a: int
    b: int


class One(Record):
    """A single value."""

    value: Any


class Empty(Record):
    """No value."""


class Checked(Record):
    """Changes its field as it is made."""

    axes: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(self.axes))


def test_fields_are_set_by_position_name_and_default() -> None:
    point = Point(1, note="n")
    assert (point.x, point.y, point.note, point.box, point.sign) == (1, 2, "n", [], 1)
    assert point.kind == "point"
    assert point.norm() == 3
    assert Point(1).box is not Point(1).box
    assert Point(1, box=point.box).box is point.box


@pytest.mark.parametrize("wrong", [(), (1, 2, "", [], 5)])
def test_other_arguments_are_refused(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="argument"):
        Point(*wrong)
    with pytest.raises(TypeError, match="unexpected keyword"):
        Point(1, sign=2)  # type: ignore[call-arg]


def test_a_derived_record_has_all_fields() -> None:
    solid = Solid(1)
    assert (solid.x, solid.y, solid.z) == (1, 7, 3)
    # In any order of first instances.
    assert Point(1).y == 2
    assert Solid(1, 2, "", [], 5).z == 5
    assert Solid(1, 7) == Solid(1)
    assert Solid(1) != Solid(1, z=4)
    assert Point(1, 7) != Solid(1)


def test_the_signature_is_that_of_the_dataclass() -> None:
    mine = inspect.signature(Point).parameters
    theirs = inspect.signature(Twin).parameters
    assert list(mine) == list(theirs)
    assert [p.annotation for p in mine.values()] == [p.annotation for p in theirs.values()]
    assert mine["y"].default == 2
    assert Point.__init__.__qualname__ == "Point.__init__"


def test_equality_and_hash() -> None:
    assert Point(1, 2) == Point(1, 2, "other", [3])
    assert hash(Point(1, 2)) == hash(Point(1, 2, "other", [3]))
    assert Point(1, 2) != Point(1, 3)
    assert Point(1).__eq__(3) is NotImplemented
    assert len({Point(1), Point(1), Point(2)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point([]))  # type: ignore[arg-type]
    nan = float("nan")
    assert One(nan) == One(nan)
    assert One(nan) != One(float("nan"))
    assert hash(One(1)) == hash(One(1.0))
    assert Empty() == Empty()
    assert Empty() != One(1)


def test_identity_where_it_is_asked_for() -> None:
    pair = Pair(1, 2)
    assert pair == pair
    assert pair != Pair(1, 2)
    assert len({Pair(1, 2), Pair(1, 2)}) == 2


def test_instances_cannot_be_changed() -> None:
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x


def test_they_print_as_dataclasses() -> None:
    expected = repr(Twin(1, box=[4])).replace("Twin", "Point")
    assert repr(Point(1, box=[4])) == expected
    inside = One([])
    inside.value.append(inside)
    assert repr(inside) == "One(value=[...])"


def test_the_module_dataclasses_knows_them() -> None:
    assert dataclasses.is_dataclass(Point)
    assert dataclasses.is_dataclass(Empty())
    names = [f.name for f in dataclasses.fields(Solid)]
    assert names == ["x", "y", "note", "box", "sign", "z"]
    assert [f.name for f in dataclasses.fields(Point)] == names[:-1]
    changed = dataclasses.replace(Solid(1, 5, "n"), x=2)
    assert changed == Solid(2, 5)
    assert changed.note == "n"
    assert dataclasses.asdict(One(Point(1)))["value"]["y"] == 2
    assert not dataclasses.is_dataclass(Record)


def test_they_can_be_copied_and_pickled() -> None:
    solid = Solid(1, note="n")
    for made in (copy.copy(solid), copy.deepcopy(solid), pickle.loads(pickle.dumps(solid))):
        assert made == solid
        assert made.note == "n"


def test_they_match_patterns() -> None:
    match Point(1, 5):
        case Point(x, y):
            assert (x, y) == (1, 5)


def test_values_may_be_checked_as_they_are_made() -> None:
    assert Checked([1, 2]).axes == (1, 2)


def test_first_instances_may_be_made_by_many_threads() -> None:
    for _ in range(20):

        class Fresh(Record):
            a: int
            b: int = 2

        start = threading.Barrier(4)
        made: list[Any] = []

        def make(kind: Any = Fresh, start: Any = start, made: Any = made) -> None:
            start.wait()
            made.append(kind(1))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [Fresh(1)] * 4
