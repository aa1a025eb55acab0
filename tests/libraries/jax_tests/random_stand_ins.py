"""What JAX's tests ask of the private modules of random keys, in terms of kiln.

A generator is an object with a name and the number of its keys' words; the field `_impl` of keys,
which the tests compare with it, is given to kiln's arrays here and for these tests alone.
"""

from __future__ import annotations

import functools
import types
from dataclasses import dataclass
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import random
from kiln.base.dtypes import KeyDtype
from kiln.core.arrays.array import ConcreteArray
from kiln.core.trace import Tracer
from kiln.ops.random import key_generators, random_bits
from kiln.ops.random.threefry import threefry2x32, threefry2x32_p


@dataclass(frozen=True)
class Generator:
    """What the tests know of a generator."""

    name: str
    tag: str
    key_shape: tuple[int, ...]


GENERATORS = {
    name: Generator(name, tag, (KeyDtype(tag).words,)) for name, tag in random_bits.NAMES.items()
}


class _OfKeys(type):
    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, kiln.Array) and jnp.issubdtype(x.dtype, kiln.dtypes.prng_key)


class KeyArray(metaclass=_OfKeys):
    """The class of arrays of keys, which kiln tells from others by their dtype."""


def _generator_of(keys: Any) -> Generator:
    if not isinstance(keys, KeyArray):
        raise AttributeError("_impl")
    return GENERATORS[random_bits.name_of(keys.dtype)]


def _words_of(keys: Any) -> Any:
    if not isinstance(keys, KeyArray):
        raise AttributeError("_base_array")
    return random.key_data(keys)


def _wrap(data: Any, *, impl: Any) -> Any:
    return random.wrap_key_data(data, impl=impl.name)


def _unwrap(keys: Any) -> Any:
    if not isinstance(keys, KeyArray):
        raise TypeError(f"random_unwrap takes key array operand, got {keys.dtype=}")
    return random.key_data(keys)


def _absent_generator(**parts: Any) -> types.SimpleNamespace:
    return types.SimpleNamespace(**parts)


def _threefry(key: Any) -> Any:
    return random.wrap_key_data(key, impl="threefry2x32")


def _hashed(key: Any, counts: Any) -> Any:
    """Hash the two halves of some counters against each other; an odd number gets a 0 more."""
    for x in (*key, counts):
        if x.dtype != np.uint32:
            raise TypeError(f"threefry_2x32 needs uint32, got {x.dtype}")
    flat = jnp.ravel(counts)
    first, second = jnp.split(jnp.pad(flat, (0, flat.size % 2)), 2)
    shape = first.shape
    pair = threefry2x32(*[jnp.broadcast_to(word, shape) for word in key], first, second)
    return jnp.concatenate(pair)[: flat.size].reshape(np.shape(counts))


def _hash(tag: str) -> types.SimpleNamespace:
    """Return what has the method `bind` of JAX's primitive, which takes words."""
    count = KeyDtype(tag).words
    function = key_generators._HASHES[tag][0]

    def bind(*words: Any) -> Any:
        return function([*words[:count]], [*words[count:]])

    return types.SimpleNamespace(bind=bind)


def _keys_of(seeds: Any, impl: Any) -> Any:
    """Return a key for each of an array of seeds."""
    make: Any = functools.partial(random.key, impl=impl.name)
    for _ in np.shape(seeds):
        make = kiln.vmap(make)
    return make(seeds)


def random_stand_ins() -> dict[str, dict[str, Any]]:
    """Return the names of private modules by module, and give keys the fields that tests read."""
    for kind in (ConcreteArray, Tracer):
        kind._impl = property(_generator_of)
        kind._base_array = property(_words_of)
    return {
        "jax._src.random": {
            "random_clone_p": random_bits.random_clone_p,
            "default_prng_impl": lambda: GENERATORS[kiln.config.jax_default_prng_impl],
        },
        "jax._src.random.prng": {
            "PRNGImpl": _absent_generator,
            "PRNGKeyArray": KeyArray,
            "KeyTy": KeyDtype,
            "prngs": GENERATORS,
            "random_bits": lambda keys, bit_width, shape: random_bits.random_bits(
                keys, bit_width, shape
            ),
            "random_bits_p": random_bits.random_bits_p,
            "random_seed_p": random_bits.random_seed_p,
            "random_split_p": random_bits.random_split_p,
            "random_wrap_p": random_bits.random_wrap_p,
            "random_wrap": _wrap,
            "random_unwrap": _unwrap,
            "random_seed": _keys_of,
        },
        "jax._src.random.rbg": {
            "rbg_prng_impl": GENERATORS["rbg"],
            "unsafe_rbg_prng_impl": GENERATORS["unsafe_rbg"],
        },
        "jax._src.random.threefry2x32": {
            "threefry_prng_impl": GENERATORS["threefry2x32"],
            "threefry2x32_p": threefry2x32_p,
            "threefry_2x32": _hashed,
            "threefry_seed": lambda seed: random.key_data(random.key(seed)),
            "threefry_split": lambda key, shape: random.key_data(
                random.split(_threefry(key), shape)
            ),
            "threefry_random_bits": lambda key, bit_width, shape: random_bits.random_bits(
                _threefry(key), bit_width, shape
            ),
            "threefry_fold_in": lambda key, data: random.key_data(
                random.fold_in(_threefry(key), data)
            ),
        },
        "jax._src.random.threefry4x32": {"threefry4x32_p": _hash("fry4")},
        "jax._src.random.philox2x32": {"philox2x32_p": _hash("phx2")},
        "jax._src.random.philox4x32": {"philox4x32_p": _hash("phx4")},
    }
