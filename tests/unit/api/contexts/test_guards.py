"""Guards of traces, raw keys, indices and sums, and options of random numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, random
from kiln.base.options.config import config

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


@pytest.mark.parametrize(
    ("index", "wrong"),
    [
        ((3, slice(None), 0), "index 3 out of bounds for axis 0 with size 2"),
        ((slice(5), slice(None), 6), "index 6 out of bounds for axis 2 with size 5"),
        ((slice(None), [1, 2], 6), "index 6 out of bounds for axis 2 with size 5"),
        ((np.arange(3), 6, None), "index 6 out of bounds for axis 1 with size 3"),
        ((np.True_, 6), "index 6 out of bounds for axis 0 with size 2"),
        ((..., -6), "index -6 out of bounds for axis 2 with size 5"),
    ],
)
def test_static_indices_are_checked(index: Any, wrong: str) -> None:
    x = jnp.zeros((2, 3, 5))
    uses: list[Callable[[Any], Any]] = [
        lambda x: x[index],
        kiln.jit(lambda x: x[index]),
        lambda x: x.at[index].get(),
    ]
    for use in uses:
        use(x)
    config.update("jax_check_static_indices", True)
    try:
        for use in uses:
            with pytest.raises(IndexError, match=wrong):
                use(x)
        x.at[index].get(mode="fill")
        x.at[index].set(1.0)
        assert x[1, -3, 4] == 0 and x[5:].shape == (0, 3, 5)
    finally:
        config.update("jax_check_static_indices", False)


def test_sums_of_short_floats_are_refused() -> None:
    with kiln.allow_f16_reductions(False):
        for dtype in ("float16", "bfloat16"):
            x = jnp.ones((1, 3), dtype)
            for f in (lax.reduce_sum, kiln.jit(lax.reduce_sum, static_argnums=1)):
                with pytest.raises(ValueError, match=r"is not allowed when allow_f16_reductions"):
                    f(x, (1,))
                f(x, (0,))
            assert jnp.sum(x) == 3
    assert lax.reduce_sum(jnp.ones(3, "float16"), (0,)) == 3


def test_explicit_64_bit_types_are_refused() -> None:
    config.update("jax_explicit_x64_dtypes", "error")
    try:
        with pytest.raises(ValueError, match="Explicitly requested dtype float64"):
            jnp.zeros(2, "float64")
        assert jnp.zeros(2, float).dtype == "float32"
        with kiln.enable_x64():
            assert jnp.zeros(2, "float64").dtype == "float64"
    finally:
        config.update("jax_explicit_x64_dtypes", "warn")
    with pytest.warns(UserWarning, match="Explicitly requested"):
        jnp.zeros(2, "float64")


def test_seeds_are_moved() -> None:
    moved = random.key_data(random.key(5)).tolist()
    config.update("jax_random_seed_offset", 3)
    try:
        for make in (random.key, kiln.jit(random.key)):
            assert random.key_data(make(2)).tolist() == moved
            assert random.key_data(make(jnp.int32(2))).tolist() == moved
        assert random.PRNGKey(2**31 - 1).tolist() == [0, 2**31 + 2]
    finally:
        config.update("jax_random_seed_offset", 0)
    assert random.key_data(random.key(5)).tolist() == moved


def test_typed_keys_from_the_function_of_raw_ones() -> None:
    with kiln.enable_custom_prng():
        key = random.PRNGKey(3)
        assert key.dtype == random.key(3).dtype and key.shape == ()
    assert random.PRNGKey(3).dtype == "uint32"


def test_the_mode_of_gumbel_variates() -> None:
    key = random.key(0)
    low, high = random.gumbel(key), random.gumbel(key, mode="high")
    assert low != high
    logits = jnp.zeros(1000)
    drawn = random.categorical(key, logits, mode="high")
    config.update("jax_high_dynamic_range_gumbel", True)
    try:
        assert random.gumbel(key) == random.gumbel(key, mode="high") == high
        assert random.gumbel(key, mode="low") == low
        assert random.categorical(key, logits) == drawn
    finally:
        config.update("jax_high_dynamic_range_gumbel", False)
    assert random.gumbel(key) == low
