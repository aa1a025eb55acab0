"""Guards of traces and of raw keys."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, random
from kiln.base.config import config

RAW = random.PRNGKey(0)
KEYS: dict[str, Callable[[Any], Any]] = {
    "split": random.split,
    "fold_in": lambda key: random.fold_in(key, 1),
    "normal": random.normal,
    "bits": random.bits,
    "permutation": lambda key: random.permutation(key, 3),
    "choice": lambda key: random.choice(key, 3),
    "key_data": random.key_data,
    "key_impl": random.key_impl,
    "vmap": lambda key: kiln.vmap(random.normal)(jnp.stack([key, key])),
}
TAKES_RAW_KEYS: dict[str, Callable[[Any], Any]] = {
    "wrap_key_data": random.wrap_key_data,
    "clone": random.clone,
    "PRNGKey": lambda key: random.PRNGKey(1),
}


@pytest.mark.parametrize("name", KEYS)
def test_raw_keys_are_refused_or_warned_of(name: str) -> None:
    draw = KEYS[name]
    draw(RAW)
    with kiln.legacy_prng_key("error"):
        draw(random.split(random.key(0))[0]) if name != "vmap" else None
        with pytest.raises(ValueError, match=r"raw key[\s\S]*Legacy uint32 key array"):
            draw(RAW)
    with kiln.legacy_prng_key("warn"), pytest.warns(UserWarning, match="Legacy uint32 key array"):
        draw(RAW)


@pytest.mark.parametrize("name", TAKES_RAW_KEYS)
def test_some_functions_take_raw_keys_at_every_level(name: str) -> None:
    with kiln.legacy_prng_key("error"):
        TAKES_RAW_KEYS[name](RAW)


def test_levels_of_raw_keys_by_the_names_of_jax() -> None:
    assert config.jax_legacy_prng_key == "allow"
    with pytest.raises(ValueError, match="use one of: 'allow', 'warn', 'error'"):
        kiln.legacy_prng_key("bad")
    config.update("jax_legacy_prng_key", "error")
    try:
        with pytest.raises(ValueError, match="Legacy"):
            random.normal(RAW)
    finally:
        config.update("jax_legacy_prng_key", "allow")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        random.normal(RAW)


def test_tracing_is_refused_and_what_was_traced_runs() -> None:
    f = kiln.jit(lambda x: x * 3)
    x, y = jnp.arange(3.0), jnp.arange(4.0)
    f(x)

    @kiln.no_tracing(True)
    def guarded(x: Any) -> Any:
        return f(x)

    for _ in range(3):
        assert guarded(x).tolist() == [0.0, 3.0, 6.0]
    with pytest.raises(RuntimeError, match=r"test_guards\.py[\s\S]*'no_tracing' is set"):
        guarded(y)
    assert f(y).tolist() == [0.0, 3.0, 6.0, 9.0]
    with kiln.no_tracing(True):
        assert (x + x).tolist() == [0.0, 2.0, 4.0]
        for trace in (
            lambda: kiln.make_jaxpr(lambda x: x - 1)(x),
            lambda: kiln.eval_shape(lambda x: x - 2, x),
            lambda: kiln.jit(lambda x: x - 3).lower(x),
            lambda: lax.scan(lambda c, a: (c - a, a), 0.0, x),
        ):
            with pytest.raises(RuntimeError, match="'no_tracing' is set"):
                trace()
