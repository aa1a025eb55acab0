"""Which parameters options choose, and what they are called."""

from __future__ import annotations

from kiln.jit.signatures.parameters import Chosen, choose, parameter_name


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
