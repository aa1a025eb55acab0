"""When a function object is the function it was."""

from __future__ import annotations

from typing import Any

import numpy as np

import kiln.numpy as jnp
from kiln.content.identity import identity_of_function


def test_exchanged_parts_are_noticed() -> None:
    def f(x: Any, k: Any = 1, *, m: Any = 2) -> Any:
        return x + k + m

    def now() -> Any:
        assert identity_of_function(f) == identity_of_function(f)
        return identity_of_function(f)

    seen = [now()]
    numbers = ((0.0,), (-0.0,), (0j,), (1.0,), (True,))
    for defaults in (*numbers, (jnp.ones(2),), (jnp.ones(2),), ([1],), ([1.0],), None):
        f.__defaults__ = defaults
        seen.append(now())
    for named in ({"m": 3}, {"m": {"a": 1}}, {"m": np.ones(1)}, None):
        f.__kwdefaults__ = named
        seen.append(now())
    f.__code__ = (lambda x, k, *, m: x - k).__code__
    seen.append(now())
    for i, a in enumerate(seen):
        assert seen.index(a) == i


def test_a_default_that_cannot_be_told_apart_is_never_the_same() -> None:
    class Slotted:
        __slots__ = ()

    def f(x: Any, k: Any = None) -> Any:
        return x

    f.__defaults__ = (Slotted(),)

    assert identity_of_function(f) != identity_of_function(f)


def test_other_callables_have_no_parts() -> None:
    assert identity_of_function(len) is None
    assert identity_of_function(f := (lambda x: x)) is f.__code__
