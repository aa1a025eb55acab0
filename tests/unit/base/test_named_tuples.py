"""Our named tuples do what `typing.NamedTuple`s do."""

from __future__ import annotations

import copy
import pickle
import threading
import typing
from typing import Any

import pytest

import kiln
from kiln.base.named_tuples import NamedTuple


class Point(NamedTuple):
    """A place with a note."""

    x: int
    y: Any = 2
    note: str = ""

    @property
    def norm(self) -> Any:
        return abs(self.x) + abs(self.y)

    def __str__(self) -> str:
        return f"at {self.x}"


class Twin(typing.NamedTuple):
    """What `Point` should be like."""

    x: int
    y: Any = 2
    note: str = ""

    @property
    def norm(self) -> Any:
        return abs(self.x) + abs(self.y)

    def __str__(self) -> str:
        return f"at {self.x}"


class Nothing(NamedTuple):
    """No items."""


@pytest.mark.parametrize(
    "use",
    [
        lambda c: c(1),
        lambda c: c(1, 3, note="a"),
        lambda c: c(y=1, x=2),
        lambda c: c(1)._replace(y=5),
        lambda c: c._make([1, 2, "c"]),
        lambda c: list(c(4)._asdict().items()),
        lambda c: repr(c(1, "b")),
        lambda c: str(c(1)),
        lambda c: c(-1, -2).norm,
        lambda c: (c._fields, c._field_defaults, c.__match_args__, list(c.__annotations__)),
        lambda c: (c(1) == (1, 2, ""), hash(c(1)) == hash((1, 2, "")), c(1) < c(2), len(c(1))),
        lambda c: typing.get_type_hints(c),
        lambda c: copy.deepcopy(c([1])),
        lambda c: pickle.loads(pickle.dumps(c(3))) == c(3),
        lambda c: (c.__mro__[-2:], type(c), c.__name__, c.__doc__ is None),
        lambda c: kiln.tree.map(lambda x: x * 2, c(1, 2, 3)),
        lambda c: kiln.tree_util.tree_flatten_with_path(c(1, 2, 3))[0],
    ],
)
def test_as_typing(use: Any) -> None:
    def plain(found: Any) -> Any:
        return repr(found).replace("Twin", "Point")

    assert plain(use(Point)) == plain(use(Twin))


@pytest.mark.parametrize(
    "use",
    [
        lambda c: c(),
        lambda c: c(1, 2, "", 4),
        lambda c: c(1, z=2),
        lambda c: c(1)._replace(z=2),
        lambda c: c._make([1]),
        lambda c: setattr(c(1), "x", 2),
        lambda c: setattr(c(1), "other", 2),
    ],
)
def test_refuses_what_typing_refuses(use: Any) -> None:
    with pytest.raises(Exception) as ours:
        use(Point)
    with pytest.raises(Exception) as theirs:
        use(Twin)
    assert type(ours.value) is type(theirs.value)


def test_patterns() -> None:
    match Point(1, 5):
        case Point(x, y, note):
            assert (x, y, note) == (1, 5, "")


def test_without_items() -> None:
    assert Nothing() == ()
    assert repr(Nothing()) == "Nothing()"


def test_a_derived_class() -> None:
    class Named(Point):
        """One that can be told more."""

        def twice(self) -> Named:
            return self._replace(x=2 * self.x)

    found = Named(2).twice()
    assert (type(found), found, Named(3).norm) == (Named, (4, 2, ""), 5)


def test_first_instances_on_many_threads() -> None:
    for _ in range(20):

        class Fresh(NamedTuple):
            """Nobody has made one yet."""

            a: int
            b: int = 1

        found: list[Any] = []
        barrier = threading.Barrier(4)

        def make(kind: Any = Fresh, barrier: Any = barrier, found: Any = found) -> None:
            barrier.wait()
            found.append(kind(a=1))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [(1, 1)] * 4
