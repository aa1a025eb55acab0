"""Which parameters are static, and the keys of their values."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

from kiln.jit.signature import (
    Chosen,
    choose,
    is_constant,
    parameter_name,
    static_key,
    static_keys,
)


def user(a, /, b, c=3, *rest, d, **named):
    return a


def plain(x, n, *, k=1):
    return x


def chosen(fun, nums=None, names=None):
    return choose(fun, nums, names, "static")


def test_choose() -> None:
    assert chosen(plain) == Chosen()
    assert chosen(plain, 1) == Chosen((1,), ("n",))
    assert chosen(plain, -1) == Chosen((1,), ("n",))
    assert chosen(plain, None, "k") == Chosen((), ("k",))
    assert chosen(plain, (), "n") == Chosen((), ("n",))
    assert chosen(user, 0) == Chosen((0,), ())
    assert chosen(user, 5) == Chosen((5,), ())
    assert chosen(user, None, ("d", "anything")) == Chosen((), ("d", "anything"))


def test_without_a_signature_nothing_is_inferred() -> None:
    assert choose(max, 1, None, "static") == Chosen((1,), ())


def test_parameter_names() -> None:
    assert [parameter_name(user, i) for i in range(5)] == ["a", "b", "c", "rest[0]", "rest[1]"]
    assert parameter_name(user, "d") == "d"
    assert parameter_name(max, 1) == "args[1]"


def test_static_keys_name_the_argument() -> None:
    assert static_keys(plain, [(1, 2)]) == ((1, (int, 2)),)
    with pytest.raises(ValueError, match="'n'"):
        static_keys(plain, [(1, [])])


def test_static_key_tells_types_and_signs() -> None:
    values = [1, 1.0, True, 0.0, -0.0, "1", b"1", None, (), frozenset(), 1j, complex(0.0, -0.0)]
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
        *(_Point(1, 2), _Held(1), _Held(_Held((1, "a")))),
    ],
)
def test_constants(value: object) -> None:
    assert is_constant(value)


@pytest.mark.parametrize(
    "value",
    [
        *([], (1, []), _Point(1, []), _Held([]), _Open(1), _Held(_Open(1)), lambda: 1, object()),
        *(frozenset({test_constants}), np.zeros(1, "V4")[0], type("T", (tuple,), {})((1,))),
    ],
)
def test_what_may_change(value: object) -> None:
    assert not is_constant(value)
