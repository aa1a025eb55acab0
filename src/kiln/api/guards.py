"""Guards of transfers, traces and raw keys; contexts that JAX has and kiln accepts.

The latter are accepted if they ask for what kiln does anyway, and raise UnavailableOptionError for
anything else: silence would leave a program believing that it is protected. What each may be set to
is in `base/option_names.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from kiln.api.contexts import checking_leaks, unchanged
from kiln.base.config import override
from kiln.base.option_names import FOREIGN, check_foreign, checked

check_tracer_leaks = checking_leaks


def _guard(name: str) -> Callable[..., AbstractContextManager[None]]:
    option = f"jax_{name}"
    accepted = " or ".join(repr(value) for value in FOREIGN[option].values)

    def guard(new_val: Any) -> AbstractContextManager[None]:
        check_foreign(option, new_val)
        return unchanged()

    guard.__name__ = guard.__qualname__ = name
    guard.__doc__ = f"""Accept {accepted}: {FOREIGN[option].why}.

    Raises: UnavailableOptionError for anything else.
    """
    return guard


allow_f16_reductions = _guard("allow_f16_reductions")
array_garbage_collection_guard = _guard("array_garbage_collection_guard")
auto_pcast = _guard("auto_pcast")
enable_custom_prng = _guard("enable_custom_prng")
jax2tf_associative_scan_reductions = _guard("jax2tf_associative_scan_reductions")
no_execution = _guard("no_execution")
remove_size_one_mesh_axis_from_type = _guard("remove_size_one_mesh_axis_from_type")
softmax_custom_jvp = _guard("softmax_custom_jvp")
thread_guard = _guard("thread_guard")


def legacy_prng_key(new_val: str) -> AbstractContextManager[None]:
    """Set "allow", "warn" or "error" for raw keys given to random functions, until it ends.

    Functions that were traced before are not traced again. `clone` and `wrap_key_data` take raw
    keys at every level.
    """
    return override(legacy_prng_key=checked("legacy_prng_key", new_val))


def no_tracing(new_val: bool) -> AbstractContextManager[None]:
    """Raise RuntimeError where a function would be traced, until the context ends.

    Calls that find a program run it, and so do operations outside of jitted functions.
    """
    return override(no_tracing=bool(new_val))


def transfer_guard_host_to_device(new_val: str | None) -> AbstractContextManager[None]:
    """Log or refuse transfers from the host, as `transfer_guard` does, until the context ends."""
    name = "transfer_guard_host_to_device"
    return override(**{name: checked(name, new_val)})


def transfer_guard_device_to_device(new_val: str | None) -> AbstractContextManager[None]:
    """Log or refuse transfers between devices, as `transfer_guard` does, until the context ends."""
    name = "transfer_guard_device_to_device"
    return override(**{name: checked(name, new_val)})


def transfer_guard_device_to_host(new_val: str | None) -> AbstractContextManager[None]:
    """Accept any level: the host reads the memory that the CPU computes in, without a transfer.

    Raises: ValueError for another level.
    """
    name = "transfer_guard_device_to_host"
    return override(**{name: checked(name, new_val)})
