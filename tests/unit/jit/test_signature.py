"""Which parameters are static, and the keys of their values."""

from __future__ import annotations

import pytest

from kiln.jit.signature import Chosen, choose, parameter_name, static_keys


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
