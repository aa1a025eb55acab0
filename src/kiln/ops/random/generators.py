"""Random number generators with their own state, as in XLA.

`rng_bit_generator` takes its state as an operand and returns the next one: equal states give equal
bits, the same as XLA's, for all algorithms, dtypes and shapes. The state is a key and a counter of
64 bits each: uint64[2], or uint32[4] with the low half of each first. RNG_DEFAULT is Philox.

`rng_uniform` draws from hidden state: in the compiled program under XLA, in a NumPy generator in
the meaning. Every draw is different, and no seed can be set.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import UnavailableOptionError, three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.primitive import Primitive
from kiln.ir.types import Shape, ShapedArray
from kiln.ops.indexing.slicing import dynamic_update_index_in_dim
from kiln.ops.indexing.static_slicing import dims, index_in_dim
from kiln.ops.out_sharding import sharded
from kiln.ops.random.philox import hash_counters
from kiln.ops.random.threefry import UINT32, hash_words
from kiln.ops.shape import check_sizes, elements, to_front

UINT64 = np.dtype(np.uint64)
BITS = tuple(np.dtype(f"u{width}") for width in (1, 2, 4, 8))
_HALF = np.uint64(32)
_FLOATS = tuple(map(np.dtype, (dtypes.bfloat16, np.float16, np.float32, np.float64)))
_UNIFORM = (*map(np.dtype, (np.int32, np.int64, np.uint32, np.uint64)), *_FLOATS)


@functools.cache
def _source() -> np.random.Generator:
    # Created on first use, since NumPy's generators are slow to load.
    return np.random.default_rng()


class RandomAlgorithm(enum.IntEnum):
    """How `rng_bit_generator` generates bits from its state.

    Example:
        >>> lax.RandomAlgorithm.RNG_THREE_FRY.name
        'RNG_THREE_FRY'
    """

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


class RngBitGenerator(Primitive):
    """A state -> the next state, and random bits of `shape`."""

    name = "rng_bit_generator"
    multiple = True

    def infer(
        self, key: Any, *, shape: Any, dtype: Any, algorithm: RandomAlgorithm
    ) -> list[ShapedArray]:
        if (key.shape, key.dtype) not in (((4,), UINT32), ((2,), UINT64)):
            raise TypeError(
                three_lines(
                    f"rng_bit_generator: key {key} at {current_source()}",
                    "the state must be uint32[4] or uint64[2]: a key, then a counter",
                    "make one of integers: numpy.array([seed, 0, 0, 0], 'uint32')",
                )
            )
        if dtype not in BITS:
            raise TypeError(
                three_lines(
                    f"rng_bit_generator: key {key}, shape {tuple(shape)} at {current_source()}",
                    f"rng_bit_generator: unsupported dtype {dtypes.long_name(dtype)}",
                    "draw uint8, uint16, uint32 or uint64, and convert the bits",
                )
            )
        return [ShapedArray(key.shape, key.dtype), ShapedArray(tuple(shape), dtype)]

    def numpy(self, key: Any, *, shape: Any, dtype: Any, algorithm: RandomAlgorithm) -> Any:
        if not elements(shape):
            return [key, np.zeros(shape, dtype)]
        start, counter = map(int, np.ascontiguousarray(key).view(UINT64))
        draw = _threefry if algorithm is RandomAlgorithm.RNG_THREE_FRY else _philox
        bits, used = draw(start, counter, tuple(shape), dtype == UINT64)
        state = np.array([start, (counter + used) % 2**64], UINT64)
        return [state.view(key.dtype), bits.astype(dtype)]

    def batch(
        self, size: Any, xs: Sequence[Any], axes: Sequence[Any], /, *, shape: Any, **params: Any
    ) -> Any:
        # As in JAX: the first state draws for the whole stack, and is the only one that advances.
        keys = to_front(xs[0], axes[0])
        first = index_in_dim(keys, 0, 0, keepdims=False)
        after, bits = self.bind(first, shape=(size, *shape), **params)
        return [dynamic_update_index_in_dim(keys, after, 0, 0), bits], [0, 0]


class RngUniform(Primitive):
    """Scalars a, b -> uniform numbers in [a, b) of `shape`, from hidden state."""

    name = "rng_uniform"

    def infer(self, a: Any, b: Any, *, shape: Any) -> ShapedArray:
        asked = f"rng_uniform: bounds {a}, {b}, shape {tuple(shape)} at {current_source()}"
        if a.dtype != b.dtype:
            raise ValueError(
                three_lines(
                    asked,
                    "Arguments to rng_uniform must have identical dtypes, got "
                    f"{dtypes.long_name(a.dtype)} and {dtypes.long_name(b.dtype)}.",
                    "convert one: a.astype(b.dtype)",
                )
            )
        if a.shape or b.shape:
            raise ValueError(
                three_lines(
                    asked,
                    "Arguments to rng_uniform must be scalars; got shapes "
                    f"{tuple(a.shape)} and {tuple(b.shape)}.",
                    "draw from [0, 1), then scale and shift",
                )
            )
        # XLA crashes the process for other dtypes.
        if a.dtype not in _UNIFORM:
            raise TypeError(
                three_lines(
                    asked,
                    f"rng_uniform does not accept dtype {dtypes.long_name(a.dtype)}: accepted "
                    f"dtypes are {', '.join(map(dtypes.long_name, _UNIFORM))}",
                    "draw in one of these and convert the result",
                )
            )
        return ShapedArray(tuple(shape), a.dtype, a.weak_type and b.weak_type)

    def numpy(self, a: Any, b: Any, *, shape: Any) -> Any:
        if a.dtype in _FLOATS:
            wide = np.float64 if a.dtype == np.float64 else np.float32
            unit = np.asarray(_source().random(shape, wide)).astype(a.dtype)
            drawn = np.asarray(unit * (b - a) + a, a.dtype)
            # Rounding may reach the excluded bound.
            return np.where(drawn == b, a, drawn)
        if a < b:
            return np.asarray(_source().integers(a, b, shape, a.dtype))
        every = np.iinfo(a.dtype)
        return np.asarray(_source().integers(every.min, every.max, shape, a.dtype, endpoint=True))

    def batch(
        self, size: Any, xs: Sequence[Any], axes: Sequence[Any], /, **params: Any
    ) -> NoReturn:
        raise UnavailableOptionError(
            three_lines(
                f"vmap of rng_uniform at {current_source()}",
                "Batching rule for 'rng_uniform' not implemented: its bounds are scalars",
                "draw from [0, 1) outside of the bounds' mapped axis, then scale and shift",
            )
        )


def _philox(key: int, counter: int, shape: tuple[int, ...], wide: bool) -> tuple[np.ndarray, int]:
    """Return words of 32 bits, or 64 if `wide`, and the increment of the counter."""
    count = elements(shape)
    each = 2 if wide else 4
    blocks = -(-count // each)
    numbers = np.uint64(counter) + np.arange(blocks, dtype=UINT64)
    # The counter is the low half of a 128-bit counter, whose high half is the key again.
    high = np.uint64(key) + (numbers < np.uint64(counter)).astype(UINT64)
    hashed = hash_counters(_words(key), [*_split(numbers), *_split(high)])
    words = [_join(*hashed[:2]), _join(*hashed[2:])] if wide else hashed
    return np.stack(words, axis=-1).reshape(-1)[:count].reshape(shape), blocks


def _threefry(key: int, counter: int, shape: tuple[int, ...], wide: bool) -> tuple[np.ndarray, int]:
    """Return words of 32 bits, or 64 if `wide`, and the increment of the counter."""
    axis = halved_axis(shape)
    half = list(shape)
    if not wide and shape:
        half[axis] = -(-shape[axis] // 2)
    count = elements(half)
    numbers = (np.uint64(counter) + np.arange(count, dtype=UINT64)).reshape(half)
    first, second = map(UINT32.type, _words(key))
    pair = hash_words(first, second, *_split(numbers))
    if wide:
        return _join(*pair), count
    if not shape:
        return pair[0], count
    both = np.stack(pair, axis + 1).reshape((*half[:axis], 2 * half[axis], *half[axis + 1 :]))
    return np.take(both, np.arange(shape[axis]), axis), count


def halved_axis(shape: tuple[int, ...]) -> int:
    """Return the axis along which pairs of results are hashed: the first even, or the longest."""
    even = (i for i, size in enumerate(shape) if size % 2 == 0)
    return next(even, shape.index(max(shape)) if shape else 0)


def _words(number: int) -> tuple[int, int]:
    return number & 0xFFFFFFFF, number >> 32


def _split(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return numbers.astype(UINT32), (numbers >> _HALF).astype(UINT32)


def _join(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return low.astype(UINT64) | high.astype(UINT64) << _HALF


rng_bit_generator_p = RngBitGenerator()
rng_uniform_p = RngUniform()


def rng_bit_generator(
    key: ArrayLike,
    shape: Shape | int,
    dtype: DTypeLike = np.uint32,
    algorithm: RandomAlgorithm = RandomAlgorithm.RNG_DEFAULT,
    *,
    out_sharding: Any = None,
) -> tuple[Array, Array]:
    """Return the next state, and unsigned integers of random bits.

    Mapped over states, the first state draws for the whole stack, as in JAX.

    Raises: TypeError unless the state is uint32[4] or uint64[2] and the dtype is unsigned.
    Example:
        >>> state, bits = lax.rng_bit_generator(jnp.zeros(4, jnp.uint32), (2,))
        >>> bits.shape, bits.dtype
        ((2,), dtype('uint32'))
    """
    sizes = _sizes("rng_bit_generator", shape)
    after, bits = rng_bit_generator_p.bind(
        key,
        shape=sizes,
        dtype=dtypes.check_user_dtype(dtype, "rng_bit_generator"),
        algorithm=RandomAlgorithm(algorithm),
    )
    return after, sharded(bits, out_sharding, "rng_bit_generator")


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Shape) -> Array:
    """Return uniform numbers in [a, b), different ones each time, since there is no key.

    Raises: ValueError unless the bounds are scalars of one dtype.
    Example:
        >>> lax.rng_uniform(0.0, 1.0, (3,)).shape
        (3,)
    """
    return rng_uniform_p.bind(a, b, shape=_sizes("rng_uniform", shape))


def _sizes(name: str, shape: Any) -> Shape:
    sizes = dims(shape if isinstance(shape, Sequence) else (shape,))
    check_sizes(name, sizes)
    return sizes
