"""Environment variables of jax that have a meaning for kiln.

`JAX_ENABLE_X64=1` is what `config.update("jax_enable_x64", True)` would be; kiln's own variables
(`KILN_...`) take precedence. How many devices there are is read where they are made.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from kiln.base.config import config
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
}


def apply_environment() -> None:
    """Set the options that the environment asks for by the names of jax."""
    for name, read in _READ.items():
        text = os.environ.get(name.upper())
        if text and "KILN_" + ALIASES[name][0].upper() not in os.environ:
            config.update(name, read(text))
