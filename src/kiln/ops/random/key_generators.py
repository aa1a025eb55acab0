"""Generators of random bits other than Threefry-2x32, for keys of one, two or four words.

Three hash a counter under a key: Threefry-4x32, Philox-2x32 and Philox-4x32. Two draw with
`rng_bit_generator`, whose state is the key: `rbg`, whose keys are split as two keys of
Threefry-2x32, and `unsafe_rbg`, which splits by drawing. These two draw for an array of keys from
its first key alone, as JAX does under `vmap`.

Everything is composed of existing operations, so that none of it needs rules of its own.
Source: Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import Dim, product
from kiln.ir.types import Shape
from kiln.ops.counting import iota
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import (
    add,
    bitwise_or,
    bitwise_xor,
    mul,
    shift_left,
    shift_right_logical,
)
from kiln.ops.elements.families import constant, full_like
from kiln.ops.elements.wide_product import mulhi
from kiln.ops.indexing.static_slicing import concatenate, index_in_dim, slice_in_dim
from kiln.ops.random.generators import RandomAlgorithm, rng_bit_generator_p
from kiln.ops.random.philox import INCREMENTS, MULTIPLIERS, ROUNDS
from kiln.ops.random.random_bits import (
    KEY,
    check_count,
    random_fold_in,
    random_split,
    random_unwrap,
    random_wrap,
    wide,
)
from kiln.ops.random.threefry import PARITY, UINT32
from kiln.ops.reductions.reduction import reduce_and, reduce_or
from kiln.ops.shape import broadcast_in_dim, expand_dims, reshape, transpose

Words = list[Any]
_PHILOX_2 = 0xD256D193
_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
_DRAWS = 10
"""How many draws `unsafe_rbg` makes for one that it keeps."""


def of_seed(seeds: Any, dtype: dtypes.KeyDtype) -> Any:
    """Make keys from seeds, which are given as keys of Threefry-2x32: their two words."""
    high, low = _words(seeds)
    if dtype.tag in ("rbg", "urbg"):
        return _keys([high, low, high, low], dtype)
    hashed, count = _HASHES[dtype.tag]
    none = full_like(low, 0)
    if dtype.tag == "fry4":
        return _keys(hashed([high, low, none, none], [none] * count), dtype)
    counter = [high, low, none, none][:count]
    return _keys(hashed([none] * dtype.words, counter)[: dtype.words], dtype)


def split(keys: Any, shape: Shape) -> Any:
    """Derive new keys of `shape` from each key."""
    dtype, outer = aval_of(keys).dtype, aval_of(keys).shape
    if dtype.tag == "rbg":
        halves = random_unwrap(random_split(_halves(keys), shape))
        rank, added = len(outer), len(shape)
        order = (*range(rank), *range(rank + 1, rank + 1 + added), rank, rank + 1 + added)
        return random_wrap(reshape(transpose(halves, order), (*outer, *shape, 4)), dtype)
    count = product(shape)
    if dtype.tag == "urbg":
        drawn = _drawn(keys, (*outer, _DRAWS * count, 4), 32)
        kept = slice_in_dim(drawn, None, None, stride=_DRAWS, axis=len(outer))
        return random_wrap(reshape(kept, (*outer, *shape, 4)), dtype)
    hashed, width = _HASHES[dtype.tag]
    words, high, low = _counted(keys, count)
    found = hashed(words, [full_like(low, 0)] * (width - 2) + [high, low])
    return reshape(_keys(found[: dtype.words], dtype), (*outer, *shape))


def folded_in(keys: Any, data: Any) -> Any:
    """Derive a new key from a key and a uint32."""
    dtype = aval_of(keys).dtype
    if dtype.tag == "rbg":
        halves = random_unwrap(random_fold_in(_halves(keys), data))
        return random_wrap(reshape(halves, (4,)), dtype)
    if dtype.tag == "urbg":
        none = full_like(data, 0)
        drawn = _drawn(_keys([none, data, none, data], dtype), (_DRAWS, 4), 32)
        last = index_in_dim(drawn, _DRAWS - 1, 0, keepdims=False)
        return random_wrap(bitwise_xor(random_unwrap(keys), last), dtype)
    hashed, width = _HASHES[dtype.tag]
    counter = [full_like(data, 0)] * (width - 1) + [data]
    return _keys(hashed(_words(keys), counter)[: dtype.words], dtype)


def bits(keys: Any, bit_width: int, shape: Shape) -> Any:
    """Return unsigned integers of 8, 16, 32 or 64 bits, of `shape` for each key."""
    outer, tag = aval_of(keys).shape, aval_of(keys).dtype.tag
    if tag in ("rbg", "urbg"):
        return _drawn(keys, (*outer, *shape), bit_width)
    hashed, width = _HASHES[tag]
    words, high, low = _counted(keys, product(shape))
    found = hashed(words, [high, low] + [full_like(low, 0)] * (width - 2))
    if bit_width == 64:
        pair = found[:2]
        if tag == "fry4":
            pair = [bitwise_xor(found[0], found[2]), bitwise_xor(found[1], found[3])]
        drawn = wide(*pair)
    else:
        mixed = found[0]
        for word in found[1:]:
            mixed = bitwise_xor(mixed, word)
        drawn = convert_element_type(mixed, np.dtype(f"u{bit_width // 8}"))
    return reshape(drawn, (*outer, *shape))


def compared(comparison: Any, x: Any, y: Any) -> Any:
    """Return where keys are equal, or where they are not, word by word."""
    shape = max(aval_of(x).shape, aval_of(y).shape, key=len)
    x, y = (
        key if aval_of(key).shape == shape else broadcast_in_dim(key, shape, ()) for key in (x, y)
    )
    last = len(shape)
    found = comparison.bind(random_unwrap(x), random_unwrap(y))
    return (reduce_and if comparison.name == "eq" else reduce_or)(found, (last,))


def _words(keys: Any) -> Words:
    data = random_unwrap(keys)
    *outer, count = aval_of(data).shape
    return [index_in_dim(data, i, len(outer), keepdims=False) for i in range(count)]


def _keys(words: Words, dtype: dtypes.KeyDtype) -> Any:
    axis = len(aval_of(words[0]).shape)
    return random_wrap(concatenate([expand_dims(word, (axis,)) for word in words], axis), dtype)


def _halves(keys: Any) -> Any:
    """Return the halves of keys of four words as keys of Threefry-2x32, along a last axis."""
    data = random_unwrap(keys)
    return random_wrap(reshape(data, (*aval_of(keys).shape, 2, 2)), KEY)


def _counted(keys: Any, count: Dim) -> tuple[Words, Any, Any]:
    """Return the words of keys beside the words of the numbers below `count`, in a last axis."""
    check_count(count)
    outer = aval_of(keys).shape
    shape = (*outer, count)
    low = broadcast_in_dim(iota(UINT32, count), shape, (len(outer),))
    words = [broadcast_in_dim(word, shape, range(len(outer))) for word in _words(keys)]
    return words, full_like(low, 0), low


def _drawn(keys: Any, shape: Shape, bit_width: int) -> Any:
    """Return bits drawn from the first of the keys."""
    dtype = np.dtype(f"u{bit_width // 8}")
    state = random_unwrap(keys)
    for _ in aval_of(keys).shape:
        if aval_of(state).shape[0] == 0:
            return broadcast_in_dim(dtype.type(0), shape, ())
        state = index_in_dim(state, 0, 0, keepdims=False)
    algorithm = RandomAlgorithm.RNG_DEFAULT
    return rng_bit_generator_p.bind(state, shape=shape, dtype=dtype, algorithm=algorithm)[1]


def _philox_2(key: Words, counter: Words) -> Words:
    (k,), (a, b) = key, counter
    factor = constant(_PHILOX_2, a)
    for step in range(ROUNDS):
        if step:
            k = add(k, constant(INCREMENTS[0], k))
        a, b = bitwise_xor(bitwise_xor(mulhi(factor, a), b), k), mul(factor, a)
    return [a, b]


def _philox_4(key: Words, counter: Words) -> Words:
    (j, k), (a, b, c, d) = key, counter
    first, second = (constant(factor, a) for factor in MULTIPLIERS)
    for step in range(ROUNDS):
        if step:
            j = add(j, constant(INCREMENTS[0], j))
            k = add(k, constant(INCREMENTS[1], k))
        high0, low0 = mulhi(first, a), mul(first, a)
        high1, low1 = mulhi(second, c), mul(second, c)
        a, b = bitwise_xor(bitwise_xor(high1, b), j), low1
        c, d = bitwise_xor(bitwise_xor(high0, d), k), low0
    return [a, b, c, d]


def _threefry_4(key: Words, counter: Words) -> Words:
    parity = constant(PARITY, key[0])
    for word in key:
        parity = bitwise_xor(parity, word)
    schedule = [*key, parity]
    x = [add(word, k) for word, k in zip(counter, key, strict=True)]
    for step in range(20):
        # Each pair is mixed; the other words of the pairs are swapped after each round.
        for i, distance in zip((0, 2), _ROTATIONS[step % 8], strict=True):
            other = (i + 1) if step % 2 == 0 else (3 - i)
            x[i] = add(x[i], x[other])
            x[other] = bitwise_xor(x[i], _rotated(x[other], distance))
        if step % 4 == 3:
            turn = step // 4 + 1
            x = [add(word, schedule[(turn + i) % 5]) for i, word in enumerate(x)]
            x[3] = add(x[3], constant(turn, x[3]))
    return x


def _rotated(x: Any, distance: int) -> Any:
    left = shift_left(x, constant(distance, x))
    return bitwise_or(left, shift_right_logical(x, constant(32 - distance, x)))


_HASHES: dict[str, tuple[Callable[[Words, Words], Words], int]] = {
    "fry4": (_threefry_4, 4),
    "phx2": (_philox_2, 2),
    "phx4": (_philox_4, 4),
}
"""By tag: the hash of a counter under a key, and the words of the counter."""
