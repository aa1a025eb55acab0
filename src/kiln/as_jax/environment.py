"""Environment variables of jax that have a meaning for kiln.

`JAX_ENABLE_X64=1` is what `config.update("jax_enable_x64", True)` would be; kiln's own variables
(`KILN_...`) take precedence. A variable that asks for a guard that kiln does not have is refused:
silence would leave a program believing that it is protected. How many devices there are is read
where they are made.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from kiln.base.config import config
from kiln.base.errors import UnavailableOptionError, three_lines
from kiln.base.option_names import ALIASES


def _truth(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes", "on", "t", "y")


_READ: dict[str, Callable[[str], Any]] = {
    "jax_enable_x64": _truth,
    "jax_default_matmul_precision": str,
    "jax_numpy_dtype_promotion": str,
    "jax_numpy_rank_promotion": str,
    "jax_threefry_partitionable": _truth,
    "jax_default_prng_impl": str,
    "jax_debug_nans": _truth,
    "jax_debug_infs": _truth,
    "jax_disable_jit": _truth,
    "jax_log_compiles": _truth,
    "jax_check_tracer_leaks": _truth,
    "jax_transfer_guard_host_to_device": str,
    "jax_transfer_guard_device_to_host": str,
    "jax_transfer_guard_device_to_device": str,
    "jax_transfer_guard": str,
    "jax_legacy_prng_key": str,
    "jax_array_garbage_collection_guard": str,
    "jax_debug_key_reuse": _truth,
    "jax_no_execution": _truth,
    "jax_no_tracing": _truth,
    "jax_thread_guard": _truth,
}


def apply_environment() -> None:
    """Set the options that the environment asks for by the names of jax.

    Raises: UnavailableOptionError for a guard that kiln does not have.
    """
    for name, read in _READ.items():
        text = os.environ.get(name.upper())
        own = f"KILN_{ALIASES[name][0].upper()}" if name in ALIASES else ""
        if not text or own in os.environ:
            continue
        try:
            config.update(name, read(text))
        except UnavailableOptionError as error:
            asked = f"the environment has {name.upper()}={text}"
            raise UnavailableOptionError(three_lines(asked, *str(error).splitlines()[1:])) from None
