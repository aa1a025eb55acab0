"""Guards of transfers, traces and raw keys; contexts that JAX has and kiln accepts.

The latter are accepted if they request what kiln does anyway, and raise UnavailableOptionError for
anything else: ignoring them would leave a program unprotected. What each may be set to is in
`base/options/names.py`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from kiln.api.contexts.options import checking_leaks, unchanged
from kiln.base.options.config import base_options, config, override
from kiln.base.options.jax_options import FOREIGN
from kiln.base.options.names import check_foreign, checked

check_tracer_leaks = checking_leaks


def _guard(name: str) -> Callable[..., AbstractContextManager[None]]:
    option = name if name in FOREIGN else f"jax_{name}"
    foreign = FOREIGN[option]
    accepted = " or ".join(map(repr, foreign.values)) if foreign.meaning else "any value"

    def guard(new_val: Any = True) -> AbstractContextManager[None]:
        check_foreign(option, new_val)
        return unchanged()

    guard.__name__ = guard.__qualname__ = name
    guard.__doc__ = f"""Accept {accepted}: {foreign.why}.

    Raises: UnavailableOptionError for anything else.
    """
    return guard


array_garbage_collection_guard = _guard("array_garbage_collection_guard")
auto_pcast = _guard("auto_pcast")
jax2tf_associative_scan_reductions = _guard("jax2tf_associative_scan_reductions")
remove_size_one_mesh_axis_from_type = _guard("remove_size_one_mesh_axis_from_type")
softmax_custom_jvp = _guard("softmax_custom_jvp")


def allow_f16_reductions(new_val: bool = True) -> AbstractContextManager[None]:
    """If False, make `lax.reduce_sum` raise ValueError for 16-bit floats until the context ends.

    Example:
        >>> with kiln.allow_f16_reductions(False):
        ...     lax.reduce_sum(jnp.ones(2), (0,))
        Array(2., dtype=float32)
    """
    return override(allow_f16_reductions=bool(new_val))


def enable_custom_prng(new_val: bool = True) -> AbstractContextManager[None]:
    """Make `random.PRNGKey` return typed keys until the context ends.

    With `new_val=False` it returns raw keys, of uint32.

    Example:
        >>> with kiln.enable_custom_prng(True):
        ...     random.PRNGKey(0).dtype
        key<fry>
    """
    return override(enable_custom_prng=bool(new_val))


def legacy_prng_key(new_val: str) -> AbstractContextManager[None]:
    """Set "allow", "warn" or "error" for raw keys given to random functions, until it ends.

    Functions that were traced before are not traced again. `clone` and `wrap_key_data` take raw
    keys at every level.

    Example:
        >>> with kiln.legacy_prng_key("allow"):
        ...     random.bits(random.PRNGKey(0)).dtype
        dtype('uint32')
    """
    return override(legacy_prng_key=checked("legacy_prng_key", new_val))


def no_tracing(new_val: bool = True) -> AbstractContextManager[None]:
    """Raise RuntimeError where a function would be traced, until the context ends.

    Calls that find a program run it, and so do operations outside of jitted functions.

    Example:
        >>> with kiln.no_tracing(True):
        ...     try:
        ...         kiln.jit(lambda x: x - 1.5)(1.0)
        ...     except RuntimeError:
        ...         print("refused")
        refused
    """
    return override(no_tracing=bool(new_val))


def no_execution(new_val: bool = True) -> AbstractContextManager[None]:
    """Raise RuntimeError where a program would run, until the context ends.

    Functions are traced and compiled, and arrays are moved.

    Example:
        >>> with kiln.no_execution(True):
        ...     try:
        ...         kiln.jit(lambda x: x + 1)(1)
        ...     except RuntimeError:
        ...         print("refused")
        refused
    """
    return override(no_execution=bool(new_val))


@contextlib.contextmanager
def thread_guard(new_val: bool = True) -> Iterator[None]:
    """Allow only this thread to run programs of several processes, until the context ends.

    Other threads raise RuntimeError meanwhile: they would schedule such programs in an order that
    differs between processes. The guard applies to the whole process.

    Example:
        >>> with kiln.thread_guard(True):
        ...     jnp.ones(2).sum()
        Array(2., dtype=float32)
    """
    before = base_options().thread_guard
    config.update("jax_thread_guard", new_val)
    try:
        yield
    finally:
        config.update("thread_guard", before)


def transfer_guard_host_to_device(new_val: str | None) -> AbstractContextManager[None]:
    """Log or refuse transfers from the host, as `transfer_guard` does, until the context ends.

    Raises: ValueError if `new_val` is not a level of `transfer_guard`.
    Example:
        >>> x = jnp.ones(2)
        >>> with kiln.transfer_guard_host_to_device("disallow"):
        ...     kiln.jit(lambda x: x * 2)(x)
        Array([2., 2.], dtype=float32)
    """
    name = "transfer_guard_host_to_device"
    return override(**{name: checked(name, new_val)})


def transfer_guard_device_to_device(new_val: str | None) -> AbstractContextManager[None]:
    """Log or refuse transfers between devices, as `transfer_guard` does, until the context ends.

    Raises: ValueError if `new_val` is not a level of `transfer_guard`.
    Example:
        >>> with kiln.transfer_guard_device_to_device("disallow"):
        ...     jnp.ones(2) + 1
        Array([2., 2.], dtype=float32)
    """
    name = "transfer_guard_device_to_device"
    return override(**{name: checked(name, new_val)})


def transfer_guard_device_to_host(new_val: str | None) -> AbstractContextManager[None]:
    """Accept any level: the host reads the memory that the CPU computes in, without a transfer.

    Raises: ValueError for another level.
    Example:
        >>> with kiln.transfer_guard_device_to_host("disallow"):
        ...     np.asarray(jnp.ones(2))
        array([1., 1.], dtype=float32)
    """
    name = "transfer_guard_device_to_host"
    return override(**{name: checked(name, new_val)})
