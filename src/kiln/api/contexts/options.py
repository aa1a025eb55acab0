"""Context managers that set options for the current thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from kiln.api.arrays import devices
from kiln.base.options.config import changes_of, override
from kiln.base.options.names import checked
from kiln.ops.sharding import checked_device


def enable_x64(new_val: bool = True) -> AbstractContextManager[None]:
    """Enable or disable 64-bit types until the context ends.

    With `new_val=False`, float64, int64, uint64 and complex128 become the types of half their size.

    Example:
        >>> with kiln.enable_x64(True):
        ...     jnp.arange(2).dtype, jnp.ones(2).dtype
        (dtype('int64'), dtype('float64'))
        >>> jnp.ones(2).dtype
        dtype('float32')
    """
    return override(enable_x64=bool(new_val))


def default_matmul_precision(new_val: str | None) -> AbstractContextManager[None]:
    """Set the precision of matrix products until the context ends.

    `new_val` is what `lax.dot_general` takes as `precision`; None leaves the choice to each
    product.

    Example:
        >>> with kiln.default_matmul_precision("highest"):
        ...     jnp.ones((2, 2)) @ jnp.ones(2)
        Array([2., 2.], dtype=float32)
    """
    return override(default_matmul_precision=new_val)


def threefry_partitionable(new_val: bool = True) -> AbstractContextManager[None]:
    """Choose the layout of random counters until the context ends.

    Example:
        >>> with kiln.threefry_partitionable(True):
        ...     random.normal(random.key(0)).round(4)
        Array(1.6226, dtype=float32)
    """
    return override(threefry_partitionable=bool(new_val))


def numpy_dtype_promotion(new_val: str) -> AbstractContextManager[None]:
    """Set "standard" or "strict" dtype promotion until the context ends.

    Raises: ValueError if `new_val` is neither.
    Example:
        >>> with kiln.numpy_dtype_promotion("strict"):
        ...     try:
        ...         jnp.arange(2) + jnp.ones(2)
        ...     except ValueError:
        ...         print("convert one of them")
        convert one of them
    """
    return override(numpy_dtype_promotion=checked("numpy_dtype_promotion", new_val))


def numpy_rank_promotion(new_val: str) -> AbstractContextManager[None]:
    """Set "allow", "warn" or "raise" for operands of different ranks until the context ends.

    Raises: ValueError if `new_val` is none of them.
    Example:
        >>> with kiln.numpy_rank_promotion("raise"):
        ...     try:
        ...         jnp.ones((2, 3)) + jnp.ones(3)
        ...     except ValueError:
        ...         print("reshape one of them")
        reshape one of them
    """
    return override(numpy_rank_promotion=checked("numpy_rank_promotion", new_val))


def batch_invariant(new_val: bool = True) -> AbstractContextManager[None]:
    """Give each row of a result the same bits in batches of any size, until the context ends.

    Sums and products are computed in an order that depends only on their number of terms, which
    takes longer: docs/native.md says how much. Programs that the native engine does not compile
    raise ValueError.

    Example:
        >>> with kiln.batch_invariant(True):
        ...     kiln.jit(lambda x: x.sum(axis=1))(jnp.ones((2, 3)))
        Array([3., 3.], dtype=float32)
    """
    return override(batch_invariant=bool(new_val))


def default_device(device: Any) -> AbstractContextManager[None]:
    """Set the device for programs that no argument or option places, until the context ends.

    `device` is a device, the name of a platform, or None.

    Raises: RuntimeError if the platform is not available, TypeError if `device` is not a device.
    Example:
        >>> with kiln.default_device(kiln.devices()[-1]):
        ...     jnp.ones(2).device == kiln.devices()[-1]
        True
    """
    if isinstance(device, str):
        device = devices(device)[0]
    elif device is not None:
        device = checked_device(device, "default_device")
    return override(default_device=device)


def debug_nans(new_val: bool = True) -> AbstractContextManager[None]:
    """Raise FloatingPointError at the first nan until the context ends.

    `jit(f, check="nan")` is cheaper in a compiled function: it runs once, and names the line.

    `new_val=False` disables the check.

    Example:
        >>> with kiln.debug_nans(True):
        ...     try:
        ...         jnp.log(-1.0)
        ...     except FloatingPointError:
        ...         print("a nan")
        a nan
        >>> jnp.log(-1.0)
        Array(nan, dtype=float32, weak_type=True)
    """
    return override(debug_nans=bool(new_val))


def checking_leaks(new_val: bool = True) -> AbstractContextManager[None]:
    """Check for leaked tracers when a transformation ends, until the context ends.

    Raises: UnexpectedTracerError with the line where a tracer was made, and what holds it.
    Example:
        >>> kept = []
        >>> with kiln.check_tracer_leaks(True):
        ...     try:
        ...         kiln.jit(lambda x: kept.append(x))(1.0)
        ...     except Exception as error:
        ...         print(type(error).__name__)
        UnexpectedTracerError
    """
    return override(check_tracer_leaks=bool(new_val))


@contextlib.contextmanager
def unchanged() -> Iterator[None]:
    """Do nothing until the context ends: for requests that hold anyway. Also a decorator."""
    yield


def log_compiles(new_val: bool = True) -> AbstractContextManager[None]:
    """Log each compilation, with the function's name, until the context ends.

    `new_val=False` disables the log.

    Example:
        >>> with kiln.log_compiles(False):
        ...     kiln.jit(lambda x: x + 1)(1)
        Array(2, dtype=int32, weak_type=True)
        >>> kiln.config.log_compiles
        False
    """
    return override(log_compiles=bool(new_val))


def explain_cache_misses(new_val: bool = True) -> AbstractContextManager[None]:
    """Log the reason for each trace, until the context ends.

    `new_val=False` disables the log.

    Example:
        >>> with kiln.explain_cache_misses(False):
        ...     kiln.jit(lambda x: x + 1)(1)
        Array(2, dtype=int32, weak_type=True)
    """
    return override(explain=bool(new_val))


def enable_checks(new_val: bool = True) -> AbstractContextManager[None]:
    """Check every program after each step of its construction, until the context ends.

    `new_val=False` disables the checks.

    Example:
        >>> with kiln.enable_checks(True):
        ...     kiln.jit(lambda x: x + 1)(1)
        Array(2, dtype=int32, weak_type=True)
    """
    return override(check=bool(new_val))


def transfer_guard(new_val: str | None) -> AbstractContextManager[None]:
    """Log or refuse transfers between host and devices, in all directions, until the context ends.

    "log" and "disallow" are about implicit transfers: an operand or argument that is a number or a
    NumPy array, an argument that a program for several devices has to move. With "log_explicit" and
    "disallow_explicit" `device_put` counts too. Transfers to the host are never refused: they read
    the memory that the CPU computes in.

    Raises: JaxRuntimeError, inside, for a transfer that is refused; ValueError for another level.
    Example:
        >>> with kiln.transfer_guard("disallow"):
        ...     y = kiln.jit(jnp.sin)(kiln.device_put(np.ones(3)))
    """
    return override(**changes_of("transfer_guard", checked("transfer_guard", new_val)))


def debug_key_reuse(new_val: bool) -> AbstractContextManager[None]:
    """Raise an error where a random key is used a second time, until the context ends.

    Programs and eager operations are tracked as they run. Keys made by `random.key` are tracked;
    those of `PRNGKey` are numbers, and are not. Drawing and splitting use a key; folding in does
    not.

    Raises: KeyReuseError, inside, naming both places.
    Example:
        >>> with kiln.debug_key_reuse(True):
        ...     key, other = kiln.random.split(kiln.random.key(0))
        ...     x, y = kiln.random.normal(key), kiln.random.normal(other)
    """
    return override(debug_key_reuse=bool(new_val))


def default_prng_impl(new_val: str) -> AbstractContextManager[None]:
    """Set the default generator of new random keys until the context ends.

    Raises: ValueError if `new_val` is not the name of a generator.
    Example:
        >>> with kiln.default_prng_impl("rbg"):
        ...     random.key_impl(random.key(0))
        'rbg'
    """
    return override(default_prng_impl=checked("default_prng_impl", new_val))


def debug_infs(new_val: bool = True) -> AbstractContextManager[None]:
    """Raise FloatingPointError at the first infinity until the context ends.

    `new_val=False` disables the check.

    Example:
        >>> with kiln.debug_infs(True):
        ...     try:
        ...         jnp.log(0.0)
        ...     except FloatingPointError:
        ...         print("an infinity")
        an infinity
    """
    return override(debug_infs=bool(new_val))
