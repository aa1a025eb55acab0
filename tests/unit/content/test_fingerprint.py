"""Contents of functions: equal for equal functions, unequal or unknown for all others."""

from __future__ import annotations

import dataclasses
import enum
import functools
import gc
import math
import os
import random
import time
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.content.fingerprint import content_of, why_unreadable

G: Any = 2.0
TABLE = {"a": 1}
ITEMS = [1]
jitted = kiln.jit(lambda x: x + G)


class Pair(NamedTuple):
    """A named tuple with a method."""

    a: Any
    b: Any

    def total(self) -> Any:
        return self.a + self.b


@dataclasses.dataclass(frozen=True)
class Frozen:
    """An immutable instance."""

    rate: Any

    def apply(self, x: Any) -> Any:
        return x * self.rate + self.bias()

    def bias(self) -> Any:
        return G

    @property
    def double(self) -> Any:
        return 2 * self.rate

    @staticmethod
    def plain(x: Any) -> Any:
        return x


class Stateful:
    """An instance that anyone may change."""

    def __init__(self) -> None:
        self.rate = 1

    def apply(self, x: Any) -> Any:
        return x * self.rate


class Mode(enum.Enum):
    """Two ways."""

    FAST = 1
    EXACT = 2


def helper(x: Any) -> Any:
    return x * G


def forever(x: Any, n: int = 3) -> Any:
    return x if n == 0 else forever(x, n - 1)


def even(n: int) -> bool:
    return n == 0 or odd(n - 1)


def odd(n: int) -> bool:
    return n != 0 and even(n - 1)


def closing_over(value: Any) -> Callable[..., Any]:
    return lambda x: (x, value)


def same(a: Any, b: Any) -> bool:
    first, second = content_of(a), content_of(b)
    assert first is not None, why_unreadable(a)
    assert second is not None, why_unreadable(b)
    return first.key == second.key


READABLE = [
    *(None, True, 0, 1, 1.0, 0.0, -0.0, math.nan, math.inf, 1j, complex(0.0, -0.0), "a", b"a", ...),
    *((), (1,), (1.0,), ((1,),), (1, 2), frozenset([1]), range(3), slice(1, 2), slice(1, 2.0)),
    *(np.float32(1), np.float64(1), np.int32(1), np.bool_(True), np.float32(-0.0), np.float32(0.0)),
    *(np.dtype("f4"), np.dtype("i4"), np.float32, np.int8, jnp.float32, jnp.bfloat16, int, float),
    *(Mode.FAST, Mode.EXACT, Pair(1, 2), Pair(1, 2.0), Frozen(1), Frozen(1.0), Frozen((1, 2))),
    *(jnp.sin, jnp.cos, jnp.add, math.sin, len, helper, forever, even, Frozen(1).apply, Frozen),
    *(Frozen(2).apply, Frozen.plain, functools.partial(helper), functools.partial(helper, 1)),
    *(functools.partial(helper, x=1), kiln.tree_util.Partial(helper, 1), kiln.nn.relu, jitted),
    *(kiln.grad(helper), kiln.vmap(helper), kiln.value_and_grad(helper), kiln.checkpoint(helper)),
    *(kiln.lax.Precision.HIGHEST, kiln.lax.add_p, kiln.random.normal, jnp.linalg.norm),
]


def test_each_value_is_equal_to_itself_and_to_no_other() -> None:
    keys = []
    for value in READABLE:
        assert why_unreadable(closing_over(value)) is None, value
        assert same(closing_over(value), closing_over(value)), value
        keys.append(content_of(closing_over(value)).key)
    for i, a in enumerate(keys):
        assert keys.index(a) == i, (READABLE[i], READABLE[keys.index(a)])
        assert hash(a) == hash(keys[i])


def test_nan_equals_itself_by_its_bits() -> None:
    assert same(closing_over(float("nan")), closing_over(float("nan")))
    assert same(closing_over(np.float32("nan")), closing_over(np.float32("nan")))
    assert not same(closing_over(float("nan")), closing_over(-float("nan")))


UNREADABLE = [
    *([], [1], {}, {"a": 1}, {1}, bytearray(b"a"), np.ones(2), np.ones(()), Stateful(), object()),
    *(Stateful().apply, Frozen([1]), Frozen(np.ones(1)), Pair([], 1), ([],), iter([1]), print, os),
    *(time.time, random.random, np.random.rand, np.random.default_rng(0), open, id, hash, getattr),
    *(lambda x: np.random.rand(), lambda x: time.time(), lambda x: random.random(), os.environ),
    *(lambda x: print(x), lambda x: ITEMS.append(x), lambda x: TABLE["a"], lambda x: globals()),
    *(lambda x: not_defined, lambda x: np, lambda x: kiln.config.jax_enable_x64, lambda x: eval(x)),  # noqa: F821
    *(lambda x: jnp.load(x), lambda x: kiln.devices(), lambda x: kiln.default_backend()),
    *(lambda x: Stateful().apply(x), lambda x: (jnp if x else np).sin(x), types, functools.cache),
    *(functools.lru_cache(helper), functools.partial(helper, [1]), lambda x: os.environ["A"]),
    *(np.dtype([("a", "i4")]), np.void(b"ab"), (x for x in ()), lambda x: __import__("time")),
]


@pytest.mark.parametrize("value", UNREADABLE, ids=range(len(UNREADABLE)))
def test_what_can_change_unseen_is_unreadable(value: Any) -> None:
    assert why_unreadable(closing_over(value)) is not None
    assert content_of(closing_over(value)) is None
    assert content_of(functools.partial(helper, value)) is None


def test_a_changed_global_is_another_content(monkeypatch: pytest.MonkeyPatch) -> None:
    def keys() -> list[Any]:
        return [
            content_of(f).key
            for f in (helper, lambda x: helper(x), jitted, Frozen(1).apply, kiln.grad(helper))
        ]

    before = keys()
    assert keys() == before
    monkeypatch.setitem(globals(), "G", 2)
    for a, b in zip(before, keys(), strict=True):
        assert a != b


def test_a_changed_function_is_another_content() -> None:
    def inner(x: Any, k: Any = 1, *, m: Any = 2) -> Any:
        return x + k + m

    outer = lambda x: inner(x)
    seen = {content_of(outer).key}
    inner.__defaults__ = (1.0,)
    seen.add(content_of(outer).key)
    inner.__kwdefaults__ = {"m": 3}
    seen.add(content_of(outer).key)
    inner.scale = 3
    seen.add(content_of(outer).key)
    inner.__code__ = (lambda x, k=1, *, m=2: x - k - m).__code__
    seen.add(content_of(outer).key)
    inner.__name__ = "other"
    seen.add(content_of(outer).key)
    assert len(seen) == 6


def test_an_exchanged_method_is_another_content(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = Frozen(1.0)
    before = content_of(instance.apply).key
    assert content_of(Frozen(1.0).apply).key == before
    monkeypatch.setattr(Frozen, "bias", lambda self: 7)
    assert content_of(instance.apply).key != before


def test_an_exchanged_library_function_is_another_content(monkeypatch: pytest.MonkeyPatch) -> None:
    f = lambda x: jnp.sin(x) + math.sin(1.0)
    before = content_of(f).key
    monkeypatch.setattr(jnp, "sin", helper)
    patched = content_of(f).key
    assert patched != before
    monkeypatch.setattr(math, "sin", lambda x: x)
    assert content_of(f).key not in (before, patched)
    monkeypatch.setattr(math, "sin", time.time)
    assert content_of(f) is None


def test_equal_classes_are_different_classes() -> None:
    def make() -> Any:
        @dataclasses.dataclass(frozen=True)
        class Local:
            a: int

        return Local

    first, second = make(), make()
    assert same(closing_over(first(1)), closing_over(first(1)))
    assert not same(closing_over(first(1)), closing_over(second(1)))


def test_arrays_are_operands() -> None:
    a, b, c = jnp.ones(3), jnp.zeros(3), jnp.zeros(4)
    first, second = content_of(closing_over((a, 1, a))), content_of(closing_over((b, 1, b)))
    assert first.key == second.key
    assert first.operands[0] is a
    assert len(first.operands) == 1
    assert content_of(closing_over((a, 1, b))).key != first.key
    assert content_of(closing_over((c, 1, c))).key != first.key
    assert content_of(closing_over(a)).key != content_of(closing_over(jnp.asarray(1.0) * 1)).key


def test_a_traced_value_is_unreadable() -> None:
    found = []

    def outer(y: Any) -> Any:
        found.append(content_of(closing_over(y)))
        return y

    kiln.jit(outer)(1.0)
    kiln.vmap(outer)(jnp.ones(2))
    kiln.grad(outer)(1.0)
    assert found == [None, None, None]


def test_recursive_functions_end() -> None:
    assert same(forever, forever)
    assert same(lambda x: even(3), lambda x: even(3)) is False  # Two places.
    assert content_of(even).key != content_of(odd).key

    def make() -> Any:
        def local(x: Any, n: int) -> Any:
            return x if n == 0 else local(x, n - 1)

        return local

    assert same(make(), make())


def test_which_of_equal_functions_is_meant() -> None:
    f, g = closing_over(1), closing_over(1)
    assert same(closing_over((f, f)), closing_over((g, g)))
    assert not same(closing_over((f, f)), closing_over((f, g)))


def test_large_and_deep_values_are_not_read_to_the_end() -> None:
    assert content_of(closing_over(tuple(range(100000)))) is None
    deep: Any = ()
    for _ in range(5000):
        deep = (deep,)
    assert content_of(closing_over(deep)) is None


def test_an_enclosing_variable_without_a_value() -> None:
    def make() -> Any:
        f = lambda x: later
        if G is None:
            later = 1
        return f

    assert content_of(make()) is None


def test_keys_hold_no_function_and_no_instance() -> None:
    class Local:
        pass

    def make() -> Any:
        marker = Frozen(1.0)
        inner = closing_over(marker)
        outer = functools.partial(lambda x: inner(x), 3)
        return outer, [weakref.ref(inner), weakref.ref(outer), weakref.ref(marker)]

    outer, refs = make()
    content = content_of(outer)
    assert content is not None
    del outer
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3


def test_a_function_of_kiln_around_a_changing_function(monkeypatch: pytest.MonkeyPatch) -> None:
    f = lambda x: kiln.vmap(kiln.grad(helper))(x)
    before = content_of(f).key
    monkeypatch.setitem(globals(), "G", 3.0)
    assert content_of(f).key != before


def test_custom_rules_are_read_with_their_function() -> None:
    def make(scale: float) -> Any:
        @kiln.custom_jvp
        def f(x: Any) -> Any:
            return x

        f.defjvp(lambda primals, tangents: (f(*primals), scale * tangents[0]))
        return lambda x: f(x)

    assert same(make(2.0), make(2.0))
    assert not same(make(2.0), make(3.0))

    def reverse(scale: float) -> Any:
        @kiln.custom_vjp
        def f(x: Any) -> Any:
            return x

        f.defvjp(lambda x: (x, None), lambda _, ct: (scale * ct,))
        return lambda x: f(x)

    assert same(reverse(2.0), reverse(2.0))
    assert not same(reverse(2.0), reverse(3.0))
