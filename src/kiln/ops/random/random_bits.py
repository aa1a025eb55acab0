"""Random keys, and the bits generated from them.

A key of Threefry-2x32 is two uint32 words, stored as one element of dtype `key<fry>` (uint64 in
memory, the first word in its low half). Bits are the hash of a counter under a key (`threefry.py`).
The counters have two layouts: the original one hashes the halves of 0, 1, ..., n-1 against each
other; the partitionable one hashes each element's own 64-bit number, so that any part of the result
can be computed alone. The layout is the parameter `_partitionable`, read from the options when an
operation is applied. Keys of other generators have one, two or four words, and are split and drawn
from by `key_generators.py`, which loads on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import key_generators
from kiln.base.options.config import options
from kiln.base.source import current_source
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import Dim, product
from kiln.ir.types import Shape, ShapedArray
from kiln.ops.counting import iota
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import bitwise_or, bitwise_xor, shift_left, shift_right_logical
from kiln.ops.elements.families import full_like
from kiln.ops.indexing.static_slicing import concatenate, index_in_dim, pad, slice_in_dim
from kiln.ops.out_sharding import whole_along
from kiln.ops.random.threefry import UINT32, hash_words, threefry2x32
from kiln.ops.shape import broadcast_in_dim, expand_dims, mapped_at, reshape, to_front

KEY = dtypes.KeyDtype("fry")
NAMES = {
    "threefry2x32": "fry",
    "threefry4x32": "fry4",
    "philox2x32": "phx2",
    "philox4x32": "phx4",
    "rbg": "rbg",
    "unsafe_rbg": "urbg",
}
"""The tag of each generator by its name."""
_LARGEST = 2**32


class KeyOperation(Primitive):
    """An operation on each key of an array of keys; the keys' axes lead."""

    on_host = True

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        (keys, *_), rank = xs, results[0].ndim
        whole_along(self.name, keys, range(rank, keys.ndim))
        return (*keys.split[:rank], *[None] * (rank - keys.ndim))

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any], /, **params: Any) -> Any:
        return self.bind(to_front(xs[0], axes[0]), **params), 0

    def _check(self, keys: ShapedArray) -> None:
        if type(keys.dtype) is not dtypes.KeyDtype:
            raise TypeError(
                three_lines(
                    f"{self.name}: operand {keys} at {current_source()}",
                    f"the operand must be an array of keys, such as dtype {KEY}",
                    "make keys with random.key, or with random.wrap_key_data",
                )
            )


class RandomSeed(KeyOperation):
    """Integers -> keys: the words are the high and the low 32 bits."""

    name = "random_seed"
    on_keys = "look"

    def infer(self, seeds: Any, *, impl: Any) -> ShapedArray:
        if not dtypes.issubdtype(seeds.dtype, np.integer):
            raise TypeError(
                three_lines(
                    f"random_seed: operand {seeds} at {current_source()}",
                    f"PRNG key seed must be an integer; got {seeds}",
                    "convert it first: int(seed), or seed.astype('int32')",
                )
            )
        return ShapedArray(seeds.shape, KEY)

    def numpy(self, seeds: Any, *, impl: Any) -> Any:
        low = seeds.astype(UINT32)
        wide = seeds.dtype.itemsize == 8
        high = (seeds >> 32).astype(UINT32) if wide else np.zeros_like(low)
        return as_keys(high, low)

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any], /, **params: Any) -> Any:
        return self.bind(*xs, **params), axes[0]

    def expand(self, seeds: Any, *, impl: Any) -> Any:
        dtype = aval_of(seeds).dtype
        low = convert_element_type(seeds, UINT32)
        if dtypes.bit_width(dtype) == 64:
            wide = full_like(seeds, 32)
            high = convert_element_type(shift_right_logical(seeds, wide), UINT32)
        else:
            high = full_like(low, 0)
        return join(high, low)


class RandomWrap(KeyOperation):
    """uint32[..., 2] -> keys; of other generators the last axis has one, two or four words."""

    name = "random_wrap"
    on_keys = "look"

    def infer(self, data: Any, *, impl: Any) -> ShapedArray:
        dtype = dtypes.KeyDtype(impl)
        if data.dtype != UINT32 or not data.shape or data.shape[-1] != dtype.words:
            raise invalid_key_data("random_wrap", data, dtype)
        return ShapedArray(data.shape[:-1], dtype)

    def numpy(self, data: Any, *, impl: Any) -> Any:
        if impl == KEY.tag:
            return as_keys(data[..., 0], data[..., 1])
        return as_elements(data, dtypes.KeyDtype(impl))


class RandomUnwrap(KeyOperation):
    """Keys -> uint32[..., 2], or as many words as a key of their generator has."""

    name = "random_unwrap"
    on_keys = "look"

    def infer(self, keys: Any) -> ShapedArray:
        self._check(keys)
        return ShapedArray((*keys.shape, keys.dtype.words), UINT32)

    def numpy(self, keys: Any) -> Any:
        return np.asarray(keys, order="C")[..., None].view(UINT32)


class RandomClone(KeyOperation):
    """Keys -> the same keys."""

    name = "random_clone"
    on_keys = "look"

    def infer(self, keys: Any) -> ShapedArray:
        self._check(keys)
        return ShapedArray(keys.shape, keys.dtype)

    def numpy(self, keys: Any) -> Any:
        return keys

    def expand(self, keys: Any) -> Any:
        return keys


class RandomSplit(KeyOperation):
    """Each key -> new keys of `shape`."""

    name = "random_split"

    def infer(self, keys: Any, *, shape: Any, _partitionable: bool) -> ShapedArray:
        self._check(keys)
        return ShapedArray((*keys.shape, *shape), KEY)

    def numpy(self, keys: Any, *, shape: Any, _partitionable: bool) -> Any:
        count = int(np.prod(shape, dtype=np.int64))
        if _partitionable:
            pairs = as_keys(*_hash_numbers(keys, count))
        else:
            data = _hash_halves(keys, 2 * count).reshape((*keys.shape, count, 2))
            pairs = as_keys(data[..., 0], data[..., 1])
        return pairs.reshape((*keys.shape, *shape))

    def expand(self, keys: Any, *, shape: Any, _partitionable: bool) -> Any:
        outer = aval_of(keys).shape
        count = product(shape)
        if _partitionable:
            first, second = hashed_numbers(keys, count)
            return reshape(join(first, second), (*outer, *shape))
        data = reshape(hashed_halves(keys, 2 * count), (*outer, *shape, 2))
        return random_wrap(data)


class RandomFoldIn(KeyOperation):
    """Each key with a uint32 -> a new key."""

    name = "random_fold_in"
    on_keys = "look"

    def infer(self, keys: Any, data: Any) -> ShapedArray:
        self._check(keys)
        fits = data.dtype == UINT32 and (
            keys.shape == data.shape or not keys.shape or not data.shape
        )
        if not fits:
            raise TypeError(
                three_lines(
                    f"random_fold_in: operands {keys}, {data} at {current_source()}",
                    "the data must be uint32, with the shape of the keys",
                    "convert the data: data.astype('uint32')",
                )
            )
        return ShapedArray(keys.shape or data.shape, KEY)

    def numpy(self, keys: Any, data: Any) -> Any:
        return as_keys(*hash_words(*words_of(keys), UINT32.type(0), data))

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any], /, **params: Any) -> Any:
        ranks = [aval_of(x).ndim - (at is not None) for x, at in zip(xs, axes, strict=True)]
        if ranks[0] == ranks[1]:
            moved = [mapped_at(x, size, at, 0) for x, at in zip(xs, axes, strict=True)]
            return self.bind(*moved, **params), 0
        if axes[ranks.index(0)] is None:
            return self.bind(*xs, **params), axes[ranks.index(max(ranks))]
        inner = next(
            aval_of(mapped_at(x, size, at, 0)).shape
            for x, at, rank in zip(xs, axes, ranks, strict=True)
            if rank
        )
        moved = [
            mapped_at(x, size, at, 0) if rank else broadcast_in_dim(x, inner, (0,))
            for x, at, rank in zip(xs, axes, ranks, strict=True)
        ]
        return self.bind(*moved, **params), 0

    def expand(self, keys: Any, data: Any) -> Any:
        first, second = split_words(keys)
        return join(*threefry2x32(first, second, full_like(data, 0), data))


class RandomBits(KeyOperation):
    """Each key -> unsigned integers of `bit_width` bits, of `shape`."""

    name = "random_bits"
    on_host = False

    def infer(self, keys: Any, *, bit_width: int, shape: Any, _partitionable: bool) -> ShapedArray:
        self._check(keys)
        return ShapedArray((*keys.shape, *shape), np.dtype(f"u{bit_width // 8}"))

    def numpy(self, keys: Any, *, bit_width: int, shape: Any, _partitionable: bool) -> Any:
        dtype = np.dtype(f"u{bit_width // 8}")
        count = int(np.prod(shape, dtype=np.int64))
        if _partitionable:
            first, second = _hash_numbers(keys, count)
            if bit_width == 64:
                bits = first.astype(dtype) << dtype.type(32) | second
            else:
                bits = (first ^ second).astype(dtype)
        else:
            words = _hash_halves(keys, -(-bit_width * count // 32))
            if bit_width == 64:
                bits = words[..., :count].astype(dtype) << dtype.type(32) | words[..., count:]
            else:
                # The bits of a word become elements, starting from the lowest.
                bits = np.ascontiguousarray(words, "<u4").view(dtype)[..., :count]
        return bits.reshape((*keys.shape, *shape))

    def expand(self, keys: Any, *, bit_width: int, shape: Any, _partitionable: bool) -> Any:
        dtype = np.dtype(f"u{bit_width // 8}")
        outer = aval_of(keys).shape
        count = product(shape)
        axis = len(outer)
        if _partitionable:
            first, second = hashed_numbers(keys, count)
            if bit_width == 64:
                bits = wide(first, second)
            else:
                bits = convert_element_type(bitwise_xor(first, second), dtype)
        elif bit_width == 64:
            words = hashed_halves(keys, 2 * count)
            bits = wide(
                slice_in_dim(words, 0, count, axis=axis),
                slice_in_dim(words, count, 2 * count, axis=axis),
            )
        else:
            parts = 32 // bit_width
            words = hashed_halves(keys, (count + (parts - 1)) // parts)
            bits = _parts(words, bit_width) if parts > 1 else words
            bits = slice_in_dim(bits, 0, count, axis=axis)
        return reshape(bits, (*outer, *shape))


def name_of(dtype: dtypes.KeyDtype) -> str:
    """Return the name of the generator that keys of a dtype are for."""
    return next(name for name, tag in NAMES.items() if tag == dtype.tag)


def as_elements(data: np.ndarray, dtype: dtypes.KeyDtype) -> np.ndarray:
    """Return keys of a dtype, in their memory representation, from their words."""
    return np.asarray(data, order="C").view(dtype.physical_dtype)[..., 0]


def as_keys(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return keys, in their memory representation, from their words."""
    return first.astype(np.uint64) | second.astype(np.uint64) << np.uint64(32)


def words_of(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the two words of keys in their memory representation."""
    return keys.astype(UINT32), (keys >> np.uint64(32)).astype(UINT32)


def _hash_halves(keys: np.ndarray, count: int) -> np.ndarray:
    check_count(count)
    counts = np.zeros(count + count % 2, UINT32)
    counts[:count] = np.arange(count, dtype=UINT32)
    first, second = (word[..., None] for word in words_of(keys))
    pair = hash_words(first, second, *counts.reshape(2, -1))
    return np.concatenate(pair, axis=-1)[..., :count]


def _hash_numbers(keys: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.arange(count, dtype=np.uint64)
    first, second = (word[..., None] for word in words_of(keys))
    return hash_words(
        first, second, (numbers >> np.uint64(32)).astype(UINT32), numbers.astype(UINT32)
    )


def _beside_counts(word: Any, counts: Any) -> Any:
    """Return a word of each key, broadcast against the counters of each key."""
    outer = aval_of(word).shape
    return broadcast_in_dim(word, (*outer, *aval_of(counts).shape), range(len(outer)))


def _hashed(keys: Any, high: Any, low: Any) -> tuple[Any, Any]:
    """Hash the same counters under every key; the counters' axis comes last."""
    outer = aval_of(keys).shape
    first, second = split_words(keys)
    if outer:
        first, second = _beside_counts(first, low), _beside_counts(second, low)
        shape = aval_of(first).shape
        high, low = (broadcast_in_dim(x, shape, (len(outer),)) for x in (high, low))
    return threefry2x32(first, second, high, low)


def hashed_halves(keys: Any, count: Dim) -> Any:
    """Return `count` words for each key: the halves of 0, 1, ... hashed against each other."""
    check_count(count)
    half = (count + 1) // 2
    counts = iota(UINT32, count)
    if 2 * half != count:
        missing: Any = 2 * half - count
        counts = pad(counts, UINT32.type(0), [(0, missing, 0)])
    counts = reshape(counts, (2, half))
    first, second = (index_in_dim(counts, i, 0, keepdims=False) for i in range(2))
    axis = len(aval_of(keys).shape)
    words = concatenate(_hashed(keys, first, second), axis)
    return words if 2 * half == count else slice_in_dim(words, 0, count, axis=axis)


def hashed_numbers(keys: Any, count: Dim) -> tuple[Any, Any]:
    """Return two words for each key and each number below `count`: the number's hash."""
    check_count(count)
    low = iota(UINT32, count)
    return _hashed(keys, full_like(low, 0), low)


def check_count(count: Dim) -> None:
    """Raise ValueError if one key is asked for more words than it gives at a time."""
    if isinstance(count, int) and count > _LARGEST:
        raise ValueError(
            three_lines(
                f"random bits: {count} words of one key at {current_source()}",
                f"one key gives at most {_LARGEST} words at a time",
                "split the key and draw several smaller arrays",
            )
        )


def _parts(words: Any, bit_width: int) -> Any:
    """Split each word into parts of `bit_width` bits, the lowest first, along the last axis."""
    *outer, count = aval_of(words).shape
    parts = 32 // bit_width
    shape = (*outer, count, parts)
    stretched = broadcast_in_dim(words, shape, range(len(shape) - 1))
    distance = iota(UINT32, parts)
    distance = shift_left(distance, full_like(distance, bit_width.bit_length() - 1))
    distance = broadcast_in_dim(distance, shape, (len(shape) - 1,))
    split = convert_element_type(
        shift_right_logical(stretched, distance), np.dtype(f"u{bit_width // 8}")
    )
    return reshape(split, (*outer, count * parts))


def wide(high: Any, low: Any) -> Any:
    """Join words to 64-bit numbers."""
    uint64 = np.dtype(np.uint64)
    high, low = convert_element_type(high, uint64), convert_element_type(low, uint64)
    return bitwise_or(shift_left(high, full_like(high, 32)), low)


def split_words(keys: Any) -> tuple[Any, Any]:
    """Return the two words of keys."""
    data = random_unwrap(keys)
    axis = len(aval_of(keys).shape)
    first, second = (index_in_dim(data, i, axis, keepdims=False) for i in range(2))
    return first, second


def join(first: Any, second: Any) -> Any:
    """Return keys from their two words."""
    axis = len(aval_of(first).shape)
    return random_wrap(concatenate([expand_dims(word, (axis,)) for word in (first, second)], axis))


def invalid_key_data(name: str, data: ShapedArray, dtype: dtypes.KeyDtype = KEY) -> TypeError:
    """Build the error for an array that cannot be the data of keys of a dtype."""
    words = dtype.words
    if data.dtype != UINT32:
        wrong = f"expected key_data.dtype = uint32; got dtype={dtypes.long_name(data.dtype)}"
    elif not data.shape:
        wrong = "expected key_data.ndim >= 1; got ndim=0"
    else:
        wrong = f"expected key_data.shape to end with ({words},); got shape={tuple(data.shape)}"
    return TypeError(
        three_lines(
            f"{name}: key data {data} at {current_source()}",
            f"JAX encountered invalid PRNG key data: {wrong} for impl={name_of(dtype)}",
            f"make keys with random.key or random.PRNGKey; their data is uint32[..., {words}]",
        )
    )


random_seed_p = RandomSeed()
random_wrap_p = RandomWrap()
random_unwrap_p = RandomUnwrap()
random_clone_p = RandomClone()
random_split_p = RandomSplit()
random_fold_in_p = RandomFoldIn()
random_bits_p = RandomBits()


def random_seed(seeds: Any) -> Any:
    """Make keys from integers."""
    return random_seed_p.bind(seeds, impl=KEY.tag)


def random_wrap(data: Any, dtype: dtypes.KeyDtype = KEY) -> Any:
    """Make keys of a dtype from their data, uint32[..., 2] or as many words as a key has."""
    return random_wrap_p.bind(data, impl=dtype.tag)


def random_unwrap(keys: Any) -> Any:
    """Return the data of keys, uint32[..., 2] or as many words as a key has."""
    return random_unwrap_p.bind(keys)


def random_clone(keys: Any) -> Any:
    """Return the same keys."""
    return random_clone_p.bind(keys)


def random_split(keys: Any, shape: Shape) -> Any:
    """Derive new keys of `shape` from each key."""
    if aval_of(keys).dtype != KEY:
        return key_generators.split(keys, tuple(shape))
    layout = options().threefry_partitionable
    return random_split_p.bind(keys, shape=tuple(shape), _partitionable=layout)


def random_fold_in(keys: Any, data: Any) -> Any:
    """Derive a new key from each key and a uint32."""
    if aval_of(keys).dtype != KEY:
        return key_generators.folded_in(keys, data)
    return random_fold_in_p.bind(keys, data)


def random_bits(keys: Any, bit_width: int, shape: Shape) -> Any:
    """Return unsigned integers of 8, 16, 32 or 64 bits, of `shape` for each key."""
    if aval_of(keys).dtype != KEY:
        return key_generators.bits(keys, bit_width, tuple(shape))
    layout = options().threefry_partitionable
    return random_bits_p.bind(keys, bit_width=bit_width, shape=tuple(shape), _partitionable=layout)
