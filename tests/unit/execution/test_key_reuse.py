"""Keys that are used twice are found as programs run, and only these."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, random
from kiln.errors import KeyReuseError
from kiln.execution import key_reuse

K = random.key


def draw(key: Any) -> Any:
    return random.normal(key)


def in_turns(step: Callable[[Any], Any], key: Any) -> Any:
    return lax.scan(lambda key, _: step(key), key, None, length=5)


def two(key: Any) -> None:
    draw(key)
    random.uniform(key, (3,))


def twice_of(seed: Any) -> Any:
    key = K(seed)
    return draw(key) + random.uniform(key)


def again(fun: Callable[[Any], Any]) -> None:
    key = K(1)
    fun(key)
    fun(key)


def after(first: Callable[[Any], Any], second: Callable[[Any], Any], keys: Any) -> None:
    first(keys)
    second(keys)


def split_in(key: Any) -> tuple[Any, Any]:
    key, other = random.split(key)
    return key, draw(other)


REUSED: dict[str, Callable[[], Any]] = {
    "eager": lambda: two(K(0)),
    "split after drawing": lambda: after(draw, random.split, K(0)),
    "drawn after splitting": lambda: after(random.split, draw, K(0)),
    "an element, then all": lambda: after(
        lambda ks: draw(ks[1]), kiln.vmap(draw), random.split(K(0), 3)
    ),
    "all, then an element": lambda: after(
        kiln.vmap(draw), lambda ks: draw(ks[2]), random.split(K(0), 3)
    ),
    "an element by a computed index": lambda: after(
        lambda ks: draw(ks[jnp.argmax(jnp.arange(3))]),
        lambda ks: draw(ks[2]),
        random.split(K(0), 3),
    ),
    "moved about": lambda: after(
        lambda ks: draw(ks[0, 1]),
        lambda ks: draw(ks.T.reshape(-1)[2]),
        random.split(K(0), (2, 2)),
    ),
    "stacked": lambda: after(draw, lambda k: kiln.vmap(draw)(jnp.stack([k, K(1)])), K(0)),
    "unpacked": lambda: after(
        lambda ks: [draw(k) for k in ks], kiln.vmap(draw), random.split(K(0))
    ),
    "inside a program": lambda: kiln.jit(lambda k: draw(k) + random.uniform(k))(K(0)),
    "by two calls of a program": lambda: again(kiln.jit(draw)),
    "by a compiled program": lambda: again(kiln.jit(draw).lower(K(0)).compile()),
    "by a program in a program": lambda: again(kiln.jit(lambda k: kiln.jit(draw)(k) * 2)),
    "made in a program in a program": lambda: kiln.jit(lambda n: kiln.jit(twice_of)(n) + 1)(3),
    "made in the iterations of a loop": lambda: kiln.jit(
        lambda ns: lax.scan(lambda c, n: (c + twice_of(n), None), 0.0, ns)[0]
    )(jnp.arange(3)),
    "held by a loop": lambda: in_turns(lambda k: (k, draw(k)), K(0)),
    "held by the constants of a loop": lambda: kiln.jit(
        lambda k: lax.fori_loop(0, 5, lambda i, c: c + draw(k), 0.0)
    )(K(0)),
    "by the condition of a loop": lambda: kiln.jit(
        lambda k: lax.while_loop(lambda c: (c[0] < 3) | (draw(k) > 9), lambda c: (c[0] + 1,), (0,))
    )(K(0)),
    "swapped in a carry": lambda: kiln.jit(
        lambda a, b: lax.scan(lambda c, _: ((c[1], c[0]), draw(c[0])), (a, b), None, length=3)
    )(K(0), K(1)),
    "a row of a scan": lambda: after(
        lambda ks: lax.scan(lambda c, k: (c, draw(k)), 0, ks),
        lambda ks: draw(ks[8]),
        random.split(K(0), 9),
    ),
    "by a branch": lambda: after(
        lambda k: kiln.jit(lambda p: lax.cond(p, draw, lambda _: 0.0, k))(True), draw, K(0)
    ),
    "of a checkpoint": lambda: again(kiln.checkpoint(draw)),
}


@pytest.mark.parametrize("name", REUSED)
def test_reuse_is_found(name: str) -> None:
    with kiln.debug_key_reuse(True), pytest.raises(KeyReuseError, match="already consumed"):
        REUSED[name]()
    # Without the option nobody asks.
    REUSED[name]()


KEY = K(7)

FINE: dict[str, Callable[[], Any]] = {
    "split": lambda: [draw(k) for k in random.split(K(0), 3)],
    "folded in": lambda: [draw(random.fold_in(KEY, i)) for i in range(3)],
    "folded in, in a loop": lambda: lax.fori_loop(
        0, 4, lambda i, c: c + draw(random.fold_in(KEY, i)), 0.0
    ),
    "cloned": lambda: after(draw, lambda k: draw(random.clone(k)), K(0)),
    "looked at": lambda: after(lambda k: (random.key_data(k), k == k, str(k)), draw, K(0)),
    "equal keys": lambda: (draw(K(0)), draw(K(0))),
    "split in turns": lambda: in_turns(split_in, K(0)),
    "swapped twice": lambda: lax.scan(
        lambda c, _: ((c[1], c[0]), draw(c[0])), (K(0), K(1)), None, length=2
    ),
    "rows": lambda: lax.scan(lambda c, k: (c, draw(k)), 0, random.split(K(0), 9)),
    "one of two branches": lambda: kiln.jit(lambda k, p: lax.cond(p, draw, random.uniform, k))(
        K(0), True
    ),
    "mapped": lambda: kiln.vmap(draw)(random.split(K(0), 4)),
    "recomputed": lambda: kiln.grad(kiln.checkpoint(lambda x, k: jnp.sin(x * draw(k))))(1.0, K(0)),
    "recomputed in a program": lambda: kiln.jit(
        kiln.grad(kiln.checkpoint(lambda x, k: jnp.sin(x * draw(k))))
    )(1.0, K(0)),
    "gradient": lambda: kiln.grad(lambda x: x * draw(K(0)))(1.0),
    "while": lambda: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, random.split(c[1])[0]), (0, K(0))
    ),
    "numbers": lambda: again(lambda _: draw(random.PRNGKey(0))),
}

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "ball": (3,),
    "beta": (1.0, 2.0),
    "binomial": (5, 0.3),
    "categorical": (jnp.ones(4),),
    "chisquare": (2.0,),
    "choice": (5, (3,)),
    "dirichlet": (jnp.ones(3),),
    "double_sided_maxwell": (0.0, 1.0),
    "f": (2.0, 3.0),
    "gamma": (0.5,),
    "generalized_normal": (2.0,),
    "geometric": (0.5,),
    "loggamma": (0.5,),
    "multinomial": (5, jnp.ones(3) / 3),
    "multivariate_normal": (jnp.zeros(2), jnp.eye(2)),
    "orthogonal": (3,),
    "pareto": (2.0,),
    "permutation": (5,),
    "poisson": (3.0,),
    "randint": ((3,), 0, 5),
    "rayleigh": (1.0,),
    "t": (2.0,),
    "triangular": (0.0, 0.5, 1.0),
    "truncated_normal": (-1.0, 1.0),
    "wald": (1.0,),
    "weibull_min": (1.0, 2.0),
}
DRAWS = sorted(
    name
    for name, fun in vars(random).items()
    if inspect.isfunction(fun)
    and next(iter(inspect.signature(fun).parameters), "") == "key"
    and name not in ("split", "fold_in", "clone")
)


@pytest.mark.parametrize("name", FINE)
def test_nothing_else_is_reported(name: str) -> None:
    with kiln.debug_key_reuse(True):
        FINE[name]()


@pytest.mark.parametrize("name", DRAWS)
def test_each_way_to_draw_uses_a_key_once(name: str) -> None:
    key, arguments = K(3), ARGUMENTS.get(name, ())
    fun = getattr(random, name)
    with kiln.debug_key_reuse(True):
        fun(key, *arguments)
        with pytest.raises(KeyReuseError):
            fun(key, *arguments)
        kiln.jit(lambda key: fun(key, *arguments))(K(4))


def test_the_message_names_both_calls() -> None:
    key = K(0)
    line = inspect.currentframe().f_lineno  # type: ignore[union-attr]
    with kiln.debug_key_reuse(True):
        random.normal(key)
        with pytest.raises(KeyReuseError) as raised:
            random.uniform(key)
    asked, wrong, remedy = str(raised.value).splitlines()
    assert asked.endswith(f"at {__file__}:{line + 4}")
    assert "Previously-consumed key passed to jit-compiled function at index 0" in wrong
    assert wrong.endswith(f"at {__file__}:{line + 2}")
    assert "kiln.random.split(key)" in remedy


def closed_over(key: Any) -> Callable[[], Any]:
    return kiln.jit(lambda: draw(key))


WHERE = {
    "a call of a jitted function": (
        lambda: again(kiln.jit(draw)),
        "passed to jit-compiled function at index 0: In jit, argument 0 is already consumed",
    ),
    "a key that a jitted function closes over": (
        lambda: again(lambda key: closed_over(key)()),
        "passed to jit-compiled function at index 0",
    ),
    "within a jitted function": (lambda: kiln.jit(twice_of)(1), "In random_bits, argument 0 is"),
    "a call in a jitted function": (
        lambda: kiln.jit(lambda: again(kiln.jit(draw)))(),
        "passed to jit-compiled function at index 0",
    ),
    "iterations of scan": (
        lambda: in_turns(lambda key: (key, draw(key)), K(0)),
        "scan body function leads to key reuse when repeatedly executed: Previously-consumed key",
    ),
    "turns of a condition": (
        lambda: lax.while_loop(lambda x: draw(x[1]) > x[0], lambda x: (x[0] + 1, x[1]), (0, K(0))),
        "while_loop cond function leads to key reuse when repeatedly executed",
    ),
    "turns of a body": (
        lambda: lax.while_loop(
            lambda x: x[0] < 5, lambda x: (x[0] + abs(draw(x[1])) + 1, x[1]), (0.0, K(0))
        ),
        "while_loop body function leads to key reuse when repeatedly executed",
    ),
    "twice in the first turn": (
        lambda: in_turns(lambda key: (key, two(key)), K(0)),
        "Previously-consumed key passed to random_bits at index 0",
    ),
}


@pytest.mark.parametrize("name", WHERE)
def test_the_message_says_what_was_given_the_key(name: str) -> None:
    fun, wanted = WHERE[name]
    with kiln.debug_key_reuse(True), pytest.raises(KeyReuseError) as raised:
        fun()
    assert wanted in str(raised.value).splitlines()[1]
    assert ("repeatedly" in str(raised.value)) == ("repeatedly" in wanted)


def test_arrays_that_die_are_forgotten() -> None:
    gc.collect()
    before = len(key_reuse._known)
    with kiln.debug_key_reuse(True):
        for i in range(20):
            draw(K(i))
    gc.collect()
    assert len(key_reuse._known) <= before


def test_without_jit_operations_are_followed() -> None:
    with kiln.debug_key_reuse(True), kiln.disable_jit():
        kiln.jit(draw)(K(0))
        with pytest.raises(KeyReuseError):
            kiln.jit(two)(K(0))


def test_the_option_has_the_names_of_jax() -> None:
    kiln.config.update("jax_debug_key_reuse", True)
    try:
        with pytest.raises(KeyReuseError):
            two(K(0))
        with kiln.debug_key_reuse(False):
            two(K(0))
    finally:
        kiln.config.update("jax_debug_key_reuse", False)
