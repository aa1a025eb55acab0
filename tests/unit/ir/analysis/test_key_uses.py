"""Going through programs with keys in place of values."""

from __future__ import annotations

from typing import Any

import pytest

import kiln
from kiln import lax, random
from kiln.errors import KeyReuseError
from kiln.ir.analysis import key_uses

KEYS = kiln.ShapeDtypeStruct((3,), random.key(0).dtype)


def through(fun: Any, *types: Any) -> tuple[list[Any], list[Any]]:
    """Return the keys that a function was given, and those that it returned."""
    jaxpr = kiln.make_jaxpr(fun)(*types).jaxpr
    given = [key_uses.fresh(v.aval) for v in jaxpr.invars]
    return given, key_uses.run(jaxpr, given, "fun")


def test_a_key_is_moved_and_used() -> None:
    (keys,), (first, bits) = through(lambda ks: (ks[0], random.bits(ks[2])), KEYS)
    assert first[()] is keys[0]
    assert bits is None
    assert [bool(key.used_at) for key in keys] == [False, False, True]
    assert keys[2].used_at.startswith("fun at ")


def test_new_keys_are_unused() -> None:
    (keys,), (new,) = through(lambda ks: random.split(ks[1]), KEYS)
    assert [key.used_at for key in new] == ["", ""]
    assert new.shape == (2,)
    assert [bool(key.used_at) for key in keys] == [False, True, False]


def test_branches_use_what_one_of_them_uses() -> None:
    def fun(ks: Any, p: Any) -> Any:
        return lax.cond(p, lambda: (random.bits(ks[0]), ks[1]), lambda: (random.bits(ks[1]), ks[2]))

    (keys, _), (_, either) = through(fun, KEYS, True)
    assert [bool(key.used_at) for key in keys] == [True, True, False]
    assert either[()].used_at


def test_rows_that_were_not_gone_through_are_used_like_the_first() -> None:
    many = kiln.ShapeDtypeStruct((50, 2), KEYS.dtype)
    (keys,), _ = through(lambda ks: lax.scan(lambda c, k: (c, random.bits(k[1])), 0, ks)[1], many)
    assert all(key.used_at for key in keys[:, 1])
    assert not any(key.used_at for key in keys[:, 0])


def test_what_no_one_can_tell_is_no_reuse() -> None:
    def fun(ks: Any, i: Any) -> Any:
        return random.bits(lax.dynamic_index_in_dim(ks, i, keepdims=False)), random.bits(ks[0])

    through(fun, KEYS, 1)


def test_the_error_says_what_used_the_key_first() -> None:
    with pytest.raises(KeyReuseError, match="argument 0 is already consumed, by inner in fun at"):
        through(lambda ks: (inner(ks), random.split(ks[0])), KEYS)


@kiln.jit
def inner(ks: Any) -> Any:
    return random.bits(ks[0])
