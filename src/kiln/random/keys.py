"""Random keys: creating them from seeds, splitting them, folding in data, converting to words.

Typed keys are scalars of dtype `key<fry>`, or of another generator's; raw ones, of `PRNGKey`, are
uint32[2], and are for the generator that the option `default_prng_impl` names. Both give the same
streams. Functions accept either; `split` and `fold_in` return the kind they are given.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from kiln.api.jit import jit
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import key_generators
from kiln.base.options.config import options
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.arrays.array import from_host
from kiln.core.trace import aval_of, is_typed
from kiln.ir.analysis.key_uses import is_key
from kiln.ir.types import ShapedArray
from kiln.numpy.creation.arrays import canonical_shape
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import add
from kiln.ops.random.random_bits import (
    KEY,
    NAMES,
    UINT32,
    invalid_key_data,
    name_of,
    random_clone,
    random_fold_in,
    random_seed,
    random_split,
    random_unwrap,
    random_wrap,
)

IMPLEMENTATION = "threefry2x32"


def key(seed: ArrayLike, *, impl: Any = None, dtype: Any = None) -> Array:
    """Make a random key from an integer seed; `dtype` says the same as `impl`.

    The words of the key are the high and the low 32 bits of the seed. Without 64-bit types the high
    word is 0: `key(-1)` is `key(2**32 - 1)`.

    Raises: TypeError if the seed is not an integer scalar; OverflowError if it does not fit in
        int64; ValueError for both `impl` and `dtype`.
    Example:
        >>> random.key(0).shape
        ()
        >>> random.key(7) == random.key(7)
        Array(True, dtype=bool)
    """
    return _seeded("key", seed, _resolved("key", _either("key", impl, dtype)))


def PRNGKey(seed: ArrayLike, *, impl: Any = None) -> Array:
    """Make a raw key, uint32[2], from an integer seed; a typed one with `enable_custom_prng`.

    A raw key of a generator other than the default has as many words as that generator needs;
    functions that are called with another default do not accept it as a key.

    Raises: TypeError if the seed is not an integer scalar; OverflowError if it does not fit in
        int64.
    Example:
        >>> random.PRNGKey(3)
        Array([0, 3], dtype=uint32)
        >>> random.uniform(random.PRNGKey(3)) == random.uniform(random.key(3))
        Array(True, dtype=bool)
    """
    made = _seeded("PRNGKey", seed, _resolved("PRNGKey", impl))
    return made if options().enable_custom_prng else random_unwrap(made)


def key_data(keys: ArrayLike) -> Array:
    """Return the words of keys, uint32[..., 2] or as many as the keys' generator has.

    Raises: TypeError for what is not a key; ValueError for raw keys if the option `legacy_prng_key`
        is 'error'.
    Example:
        >>> random.key_data(random.key(3))
        Array([0, 3], dtype=uint32)
    """
    keys = _not_legacy(checked("key_data", keys))
    return random_unwrap(keys) if is_key(aval_of(keys)) else keys  # type: ignore[return-value]


def wrap_key_data(key_bits_array: ArrayLike, *, impl: Any = None, dtype: Any = None) -> Array:
    """Make keys from their words, uint32[..., n]; `dtype` says the same as `impl`.

    Raises: TypeError for another dtype or shape; ValueError for both `impl` and `dtype`.
    Example:
        >>> random.wrap_key_data(jnp.array([0, 3], jnp.uint32)) == random.key(3)
        Array(True, dtype=bool)
    """
    wanted = _resolved("wrap_key_data", _either("wrap_key_data", impl, dtype))
    aval = _aval("wrap_key_data", key_bits_array)
    if is_key(aval) or not _are_words(aval, wanted):
        raise invalid_key_data("wrap_key_data", aval, wanted)
    return random_wrap(key_bits_array, wanted)


def key_dtype(impl_spec: Any = None) -> Any:
    """Return the dtype of typed keys for a generator.

    `impl_spec` is the name of a generator, its dtype, or None for the default one.
    Raises: ValueError for another name, TypeError for another type.
    Example:
        >>> random.key_dtype("rbg")
        key<rbg>
    """
    return _resolved("key_dtype", impl_spec)


def key_impl(keys: ArrayLike) -> str:
    """Return the name of the generator that keys are for.

    Raises: TypeError for what is not a key; ValueError for raw keys if the option `legacy_prng_key`
        is 'error'.
    Example:
        >>> random.key_impl(random.key(0))
        'threefry2x32'
    """
    found = aval_of(_not_legacy(checked("key_impl", keys))).dtype
    return name_of(found) if isinstance(found, dtypes.KeyDtype) else options().default_prng_impl


def clone(key: ArrayLike) -> Array:
    """Return a key for the same stream.

    For `debug_key_reuse`, which refuses the second use of a key but not of its clone.

    Example:
        >>> key = random.key(0)
        >>> random.bits(random.clone(key)) == random.bits(key)
        Array(True, dtype=bool)
    """
    found = checked("clone", key)
    return random_clone(found) if is_key(aval_of(found)) else found


def split(key: ArrayLike, num: int | tuple[int, ...] = 2) -> Array:
    """Derive new keys from a key: an array of `num` keys, or of shape `num`.

    Use each key only once: draw from the new keys, not from the one that was split.

    Raises: ValueError unless the key is a single one.
    Example:
        >>> first, second = random.split(random.key(0))
        >>> random.split(random.key(0), 5).shape
        (5,)
        >>> keys = random.split(random.key(0), (2, 3))
        >>> kiln.vmap(kiln.vmap(random.normal))(keys).shape
        (2, 3)
    """
    return _split(single("split", key), shape=canonical_shape("split", num))


def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """Derive a new key from a key and an integer.

    Raises: ValueError unless the key is a single one; TypeError unless the data is a scalar;
        OverflowError for a Python int that does not fit in uint32.
    Example:
        >>> keys = [random.fold_in(random.key(0), step) for step in range(3)]
        >>> len({int(random.randint(key, (), 0, 1000)) for key in keys})
        3
        >>> random.fold_in(random.key(0), 1) == keys[1]
        Array(True, dtype=bool)
    """
    found = single("fold_in", key)
    if isinstance(data, int):
        word = dtypes.coerce_python_scalar(int(data), UINT32)
    else:
        aval = aval_of(data)
        if aval.shape:
            raise TypeError(
                three_lines(
                    f"fold_in: data {aval} at {current_source()}",
                    f"fold_in accepts a scalar, but was given an array of shape {aval.shape} != ()",
                    "use vmap to fold in each element: vmap(fold_in, (None, 0))(key, data)",
                )
            )
        word = convert_element_type(data, UINT32)
    return _folded(found, word)


REPEATED = 40
"""Calls after which compiling a function of keys pays off: a compile takes as long as these."""

MOST_COUNTED = 1000


def _compiled_when_repeated(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Run a function's operations one by one until it was called often with the same keywords."""
    program = jit(fun, static_argnames=tuple(fun.__kwdefaults__ or ()), inline=True)
    calls: dict[Any, int] = {}

    @wraps(fun)
    def call(*args: Any, **static: Any) -> Any:
        kind = tuple(static.values())
        count = calls.get(kind, 0)
        if count >= REPEATED:
            return program(*args, **static)
        if len(calls) >= MOST_COUNTED:
            calls.clear()
        calls[kind] = count + 1
        return fun(*args, **static)

    return call


@_compiled_when_repeated
def _split(key: Any, *, shape: Any = (2,)) -> Any:
    return _as_given(key, random_split(typed(key), shape))


@_compiled_when_repeated
def _folded(key: Any, word: Any) -> Any:
    return _as_given(key, random_fold_in(typed(key), word))


def typed(key: Any) -> Any:
    """Convert a key to a typed one."""
    return key if is_key(aval_of(key)) else random_wrap(key, _default())


def _default() -> dtypes.KeyDtype:
    """Return the dtype of keys of the default generator."""
    name = options().default_prng_impl
    return KEY if name == IMPLEMENTATION else dtypes.KeyDtype(NAMES[name])


def _are_words(aval: Any, wanted: dtypes.KeyDtype) -> bool:
    return aval.dtype == UINT32 and bool(aval.shape) and aval.shape[-1] == wanted.words


def checked(name: str, keys: Any) -> Any:
    """Check that an argument is keys, typed or raw, and return it.

    Raises: TypeError naming the function for anything else.
    """
    aval = _aval(name, keys)
    if is_key(aval) or _are_words(aval, _default()):
        return keys
    raise invalid_key_data(name, aval, _default())


def single(name: str, key: Any) -> Any:
    """Check that an argument is a single key, typed or raw, and return it.

    Raises: TypeError if it is not a key, ValueError if it is an array of keys.
    """
    found = _not_legacy(checked(name, key))
    aval = aval_of(found)
    shape = aval.shape if is_key(aval) else aval.shape[:-1]
    if shape:
        raise ValueError(
            three_lines(
                f"{name}: key {aval} at {current_source()}",
                f"{name} accepts a single key, but was given a key array of shape {shape} != (). "
                "Use vmap for batching.",
                f"write vmap({name})(keys), or pass one of the keys",
            )
        )
    return found


def _not_legacy(keys: Any) -> Any:
    """Return keys; raise ValueError for raw ones, or warn, as the option says."""
    if is_key(aval_of(keys)):
        return keys
    level = options().legacy_prng_key
    if level == "allow":
        return keys
    text = three_lines(
        f"a raw key of type {aval_of(keys)} at {current_source()}",
        "Legacy uint32 key array passed as key to jax.random function.",
        'make keys with random.key, or set jax_legacy_prng_key to "allow"',
    )
    if level == "error":
        raise ValueError(text)
    warnings.warn(text, UserWarning, stacklevel=4)
    return keys


def _as_given(given: Any, keys: Any) -> Any:
    return keys if is_key(aval_of(given)) else random_unwrap(keys)


def _aval(name: str, keys: Any) -> ShapedArray:
    if not is_typed(keys) and not isinstance(keys, (np.ndarray, np.generic)):
        raise TypeError(
            three_lines(
                f"{name}: key {keys!r:.60} at {current_source()}",
                f"unexpected PRNG key type {type(keys)}",
                "make a key with random.key(seed)",
            )
        )
    return aval_of(keys)


def _seeded(name: str, seed: Any, wanted: dtypes.KeyDtype) -> Any:
    made = _seed_words(name, seed)
    return made if wanted == KEY else key_generators.of_seed(made, wanted)


def _seed_words(name: str, seed: Any) -> Any:
    """Return the high and the low word of a seed, as a key of Threefry-2x32: it is that."""
    offset = options().random_seed_offset
    if isinstance(seed, int):
        return _of_python_int(name, operator.index(seed), offset)
    if not is_typed(seed) and not isinstance(seed, (np.ndarray, np.generic, float)):
        raise _no_seed(name, f"{seed!r:.60}")
    aval = aval_of(seed)
    if aval.shape:
        raise TypeError(
            three_lines(
                f"{name}: seed {aval} at {current_source()}",
                f"{name} accepts a scalar seed, but was given an array of shape {aval.shape} != ()",
                f"use vmap for many seeds: vmap({name})(seeds)",
            )
        )
    if not dtypes.issubdtype(aval.dtype, np.integer):
        raise _no_seed(name, str(aval))
    if offset:
        seed = add(seed, np.asarray(offset).astype(aval.dtype))
    return random_seed(seed)


def _of_python_int(name: str, seed: int, offset: int) -> Any:
    if not -(2**63) <= seed < 2**63:
        raise OverflowError(
            three_lines(
                f"{name}({seed}) at {current_source()}",
                "Python int too large to convert to a seed: a seed is an int64",
                "use a seed from -2**63 to 2**63 - 1, or wrap_key_data for all 64 bits of a key",
            )
        )
    seed = (seed + offset + 2**63) % 2**64 - 2**63
    if 0 <= seed < 2**31:
        return random_seed(np.int32(seed))
    # Without 64-bit types a seed is its low 32 bits, as that of an array is.
    high = seed >> 32 & 0xFFFFFFFF if options().enable_x64 else 0
    return random_wrap(from_host(np.array([high, seed & 0xFFFFFFFF], UINT32)))


def _no_seed(name: str, shown: str) -> TypeError:
    return TypeError(
        three_lines(
            f"{name}({shown}) at {current_source()}",
            f"{name} accepts a scalar seed, and a PRNG key seed must be an integer; got {shown}",
            "pass an int, or an integer array without axes",
        )
    )


def _either(name: str, impl: Any, dtype: Any) -> Any:
    if impl is not None and dtype is not None:
        raise ValueError(
            three_lines(
                f"{name}(..., impl={impl!r}, dtype={dtype!r}) at {current_source()}",
                "Cannot specify both `impl` and `dtype`",
                "leave one of them out",
            )
        )
    return impl if dtype is None else dtype


def _resolved(name: str, impl: Any) -> dtypes.KeyDtype:
    """Return the dtype of keys for a generator: its name, its dtype, or None for the default."""
    if impl is None:
        return _default()
    if isinstance(impl, dtypes.KeyDtype):
        return impl
    asked = f"{name}(..., impl={impl!r:.60}) at {current_source()}"
    instead = f"use one of {', '.join(NAMES)}"
    if not isinstance(impl, str):
        wrong = f"unrecognized type {type(impl)} for specifying PRNG implementation."
        raise TypeError(three_lines(asked, wrong, instead))
    if impl not in NAMES:
        raise ValueError(three_lines(asked, f'unrecognized PRNG implementation "{impl}"', instead))
    return dtypes.KeyDtype(NAMES[impl])
