"""JAX's option names that map to kiln's options, and the allowed values of options.

Those that kiln does not have are in `jax_options.py`.
"""

from __future__ import annotations

import operator
import threading
import warnings
from collections.abc import Callable
from typing import Any

from kiln.base.errors import UnavailableOptionError, three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.jax_options import FOREIGN, Foreign, truth
from kiln.base.source import current_source

TRANSFER_GUARDS = (
    "transfer_guard",
    "transfer_guard_host_to_device",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
)
"""The guard of all transfers, and the guards of each direction."""

LEVELS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit", None)
"""The levels of a transfer guard."""

_ERROR_CHECKING = tuple([f"error_checking_behavior_{kind}" for kind in ("nan", "divide", "oob")])

CHOICES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(TRANSFER_GUARDS, LEVELS),
    "legacy_prng_key": ("allow", "warn", "error"),
    "numpy_rank_promotion": ("allow", "warn", "raise"),
    "numpy_dtype_promotion": ("standard", "strict"),
    "code_generator": ("auto", "kiln", "llvm"),
    "default_prng_impl": (
        *("threefry2x32", "threefry4x32", "rbg", "unsafe_rbg"),
        *("philox2x32", "philox4x32"),
    ),
    "explicit_x64_dtypes": ("warn", "error"),
    **dict.fromkeys(_ERROR_CHECKING, ("ignore", "raise")),
    "traceback_filtering": (
        *("off", "auto", "tracebackhide", "remove_frames", "quiet_remove_frames"),
    ),
}
"""The allowed values of options with a fixed set of them."""


class Alias(NamedTuple):
    """A field for a JAX option, the conversions of its value from and to JAX's, and its kind."""

    field: str
    from_jax: Callable[[Any], Any]
    to_jax: Callable[[Any], Any]
    kind: type

    def parse(self, text: str) -> Any:
        """Return the value of JAX's option that a text stands for.

        Raises: ValueError for a text that does not represent a value.
        """
        return truth(text) if self.kind is bool else self.kind(text)


def _same(value: Any) -> Any:
    return value


def _text(*fields: str) -> dict[str, Alias]:
    return {f"jax_{field}": Alias(field, _same, _same, str) for field in fields}


def _flag(*fields: str) -> dict[str, Alias]:
    return {f"jax_{field}": Alias(field, bool, _same, bool) for field in fields}


_MB = 2**20
_UNLIMITED_MB = 2**40

ALIASES: dict[str, Alias] = {
    **_flag(
        "enable_x64",
        "threefry_partitionable",
        "debug_nans",
        "debug_infs",
        "debug_key_reuse",
        "check_tracer_leaks",
        "log_compiles",
        "no_tracing",
        "no_execution",
        "enable_custom_prng",
        "high_dynamic_range_gumbel",
        "allow_f16_reductions",
        "check_static_indices",
    ),
    **_text(
        "default_matmul_precision",
        "numpy_dtype_promotion",
        "numpy_rank_promotion",
        "default_prng_impl",
        "default_device",
        "legacy_prng_key",
        "explicit_x64_dtypes",
        "traceback_filtering",
        *_ERROR_CHECKING,
        # Of the environment's guards, that of all transfers comes before those of one direction.
        *reversed(TRANSFER_GUARDS),
    ),
    "jax_enable_checks": Alias("check", bool, _same, bool),
    "jax_disable_jit": Alias("jit", lambda off: not off, lambda on: not on, bool),
    "jax_explain_cache_misses": Alias("explain", bool, _same, bool),
    "jax_random_seed_offset": Alias("random_seed_offset", operator.index, _same, int),
    "jax_num_cpu_devices": Alias(
        "num_cpu_devices",
        lambda count: None if count is None or count == -1 else int(count),
        lambda count: -1 if count is None else count,
        int,
    ),
    "jax_thread_guard": Alias(
        "thread_guard",
        lambda on: threading.get_ident() if on else None,
        lambda thread: thread is not None,
        bool,
    ),
    "jax_enable_compilation_cache": Alias("disk_cache", bool, _same, bool),
    "jax_compilation_cache_max_size": Alias(
        "disk_cache_mb",
        lambda size: _UNLIMITED_MB if size < 0 else -(-size // _MB),
        lambda mb: -1 if mb >= _UNLIMITED_MB else mb * _MB,
        int,
    ),
    "jax_compilation_cache_dir": Alias(
        "cache_dir",
        lambda path: "auto" if path is None else str(path),
        lambda path: None if path == "auto" else path,
        str,
    ),
}
"""For each name of a JAX option, kiln's counterpart."""


_listener: Callable[[str, Any, Foreign], None] | None = None


def set_refusal_listener(listener: Callable[[str, Any, Foreign], None]) -> None:
    """Set the function that is called with values that options refuse, which are then ignored."""
    global _listener
    _listener = listener


def check_foreign(name: str, value: Any) -> bool:
    """Check the value that a user sets for a JAX option; return whether it is what kiln does.

    Raises: UnavailableOptionError for a value that kiln does not support.
    """
    option = FOREIGN[name]
    if value in option.values or not option.meaning:
        return True
    if _listener is not None and not option.harmless:
        _listener(name, value, option)
        return False
    text = three_lines(
        f"config.update({name!r}, {value!r}) at {current_source()}",
        f"kiln has no such option: {option.why}",
        option.instead,
    )
    if not option.harmless:
        raise UnavailableOptionError(text)
    warnings.warn(text, UserWarning, stacklevel=3)
    return False


def checked(name: str, value: Any) -> Any:
    """Check and return the value of an option.

    Raises: ValueError for an invalid value.
    """
    choices = CHOICES.get(name)
    if choices is not None and value not in choices:
        raise ValueError(
            three_lines(
                f"{name}={value!r} at {current_source()}",
                f"the option has no value {value!r}",
                f"use one of: {', '.join(map(repr, choices))}",
            )
        )
    if name == "num_threads" and value is not None:
        return _number_of_threads(value)
    return value


def _number_of_threads(value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise ValueError(
            three_lines(
                f"num_threads={value!r:.80} at {current_source()}",
                "compiled code runs on a positive number of threads",
                "use 1 for the calling thread alone, or None for as many as there are processors",
            )
        )
    return number
