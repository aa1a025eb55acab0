"""Keys of static values, and how the runtime compares them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np
import pytest

import kiln
from kiln.jit.signatures.static_values import (
    compared_fields,
    comparison_of,
    is_constant,
    static_key,
)


def test_static_key_tells_types_and_signs() -> None:
    values = [1, 1.0, True, 0.0, -0.0, "1", b"1", None, (), frozenset(), 1j, 0j]
    values += [complex(0.0, -0.0), complex(-0.0, 0.0)]
    keys = [static_key(v) for v in values]
    assert len(set(keys)) == len(values)
    assert static_key(float("nan")) == static_key(float("nan"))


class _Point(NamedTuple):
    x: object
    y: object


@dataclasses.dataclass(frozen=True)
class _Held:
    value: object


@dataclasses.dataclass
class _Open:
    value: object


@pytest.mark.parametrize(
    "value",
    [
        *(1, 1.5, True, "a", b"a", None, 1j, (), (1, ("a",)), frozenset({1}), np.float32(1)),
        _Point(1, 2),
    ],
)
def test_constants(value: object) -> None:
    assert is_constant(value)


@pytest.mark.parametrize(
    "value",
    [
        *([], (1, []), _Point(1, []), _Held(1), _Open(1), (_Held(1),), lambda: 1, object()),
        *(frozenset({test_constants}), np.zeros(1, "V4")[0], type("T", (tuple,), {})((1,))),
    ],
)
def test_what_may_change(value: object) -> None:
    assert not is_constant(value)


def count_traces(*values: Any) -> int:
    """Return how often a function of a static argument is traced for some values."""
    seen: list[Any] = []
    f = kiln.jit(lambda x, n: seen.append(n) or x, static_argnums=1)
    for value in values:
        for _ in range(3):  # the second call is remembered, the third one recognized
            f(0, value)
    return len(seen)


@dataclasses.dataclass(frozen=True)
class _OwnHash:
    value: object

    def __hash__(self) -> int:
        return 1


@dataclasses.dataclass(frozen=True)
class _OwnEquality:
    value: Any
    note: Any = dataclasses.field(default=None, compare=False)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.note == other.note

    def __hash__(self) -> int:
        return hash(self.note)


@dataclasses.dataclass(frozen=True)
class _Noted:
    value: object
    note: object = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True)
class _PartlyHashed:
    value: object = dataclasses.field(hash=False)


class _Heir(_Held):
    pass


class _Length(tuple[object, ...]):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Length) and len(self) == len(other)

    def __hash__(self) -> int:
        return len(self)


class _Itself(tuple[object, ...]):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = tuple.__hash__


class _Labeled(tuple[object, ...]):
    pass


def labeled(label: str) -> _Labeled:
    made = _Labeled((1,))
    made.label = label  # type: ignore[attr-defined]
    return made


def noted_partial(note: object) -> functools.partial[Any]:
    made = functools.partial(len, 1)
    made.note = note  # type: ignore[attr-defined]
    return made


@pytest.mark.parametrize(
    ("values", "traces"),
    [
        ((_Noted(1, 2), _Noted(1, 3), _Noted(1, [])), 1),
        ((_Held(1), _Held(1.0), _Held(True), _Held(1)), 3),
        ((_Held((0.0,)), _Held((-0.0,)), _Held(float("nan")), _Held(float("nan"))), 3),
        ((_OwnEquality(1, 1), _OwnEquality(2, 1), _OwnEquality([], 1), _OwnEquality(1, 2)), 2),
        ((_OwnHash([1]), _OwnHash([1]), _OwnHash([2])), 2),
        ((_OwnHash(1), _OwnHash(1.0)), 2),
        ((_PartlyHashed([1]), _PartlyHashed([1]), _PartlyHashed([2]), _PartlyHashed(1)), 3),
        ((_Heir(1), _Held(1), _Heir(1)), 2),
        ((_Length([1, 2]), _Length([1, 3]), _Length([1])), 2),
        ((_Length([[]]), _Length([[1]])), 1),
        (((_Length([1]),), (_Length([2]),), _Held(_Length([1])), _Held(_Length([2]))), 2),
        ((_Itself([1]), _Itself([1])), 2),
        ((labeled("a"), labeled("b")), 1),
        ((functools.partial(len, 1), functools.partial(len, 1)), 1),
        ((noted_partial(1), noted_partial(2)), 2),
        ((functools.partial(len, [1]), functools.partial(len, [1])), 2),
        ((np.timedelta64(1, "s"), np.timedelta64(1, "m"), np.timedelta64(60, "s")), 3),
        ((np.datetime64(0, "s"), np.datetime64(0, "D"), np.datetime64(0, "s")), 2),
        ((np.float32(0), np.float32(-0.0), np.float64(0), np.float32(0)), 3),
        ((np.longdouble(1), np.longdouble(1) / 3 * 3, np.longdouble(0), -np.longdouble(0)), 3),
    ],
)
def test_own_equality_decides(values: tuple[Any, ...], traces: int) -> None:
    assert count_traces(*values) == traces


def test_a_frozen_dataclass_changed_all_the_same() -> None:
    f = kiln.jit(lambda x, n: x + n[0].value.value, static_argnums=1)
    held = _Held(-1)
    value = (_Held(held),)
    assert [float(f(0, value)) for _ in range(3)] == [-1, -1, -1]
    # -1 and -2 have the same hash.
    object.__setattr__(held, "value", -2)
    assert [float(f(0, value)) for _ in range(3)] == [-2, -2, -2]


def test_made_equality_is_recognized_by_what_it_does() -> None:
    def same(self: Any, other: Any) -> bool:
        return type(self) is type(other)

    fields = ["a", "b"]
    made = dataclasses.make_dataclass("Made", fields, frozen=True)
    assert compared_fields(made) == ("a", "b")
    own = dataclasses.make_dataclass("Own", fields, frozen=True, namespace={"__eq__": same})
    assert compared_fields(own) is None
    executed: dict[str, Any] = {"dataclasses": dataclasses}
    exec(
        "@dataclasses.dataclass(frozen=True)\nclass Executed:\n a: int\n"
        " def __eq__(self, other): return True\n def __hash__(self): return 1",
        executed,
    )
    assert compared_fields(executed["Executed"]) is None
    made.__eq__ = same  # type: ignore[method-assign]
    assert compared_fields(made) is None
    assert compared_fields(_Open) is None


def test_comparisons_reach_into_parts() -> None:
    assert comparison_of((1, 2))[1:3] == (static_key((1, 2)), True)
    value, key, constant, names, parts = comparison_of((_Held(1),))
    assert (key, constant, names) == (None, False, None)
    assert parts[0][3] == ("value",)
    assert parts[0][4] == (comparison_of(1),)
    assert comparison_of(object())[1:] == (None, False, (), ())


def test_errors_of_comparisons_and_hashes() -> None:
    class Incomparable:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("not me")

    f = kiln.jit(lambda x, n: x, static_argnums=1)
    one = Incomparable()
    f(0, one)
    f(0, one)
    with pytest.raises(ValueError, match=r"(?s)comparable using __eq__.*not me") as error:
        f(0, Incomparable())
    assert isinstance(error.value.__cause__, RuntimeError)
    assert "test_static_values.py" in str(error.value)
    with pytest.raises(ValueError, match=r"test_static_values.py:\d+"):
        f(0, [1])
