"""JAX's option names: those that map to kiln's options, and those that kiln does not have.

An option of the second kind may be set to what kiln does anyway. Anything else is rejected, with
what to write instead; an option that does not affect results, but only speed or verbosity, causes a
warning, since a program should not fail because of that.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from kiln.base.errors import UnavailableOptionError, three_lines
from kiln.base.source import current_source

TRANSFER_GUARDS = (
    "transfer_guard",
    "transfer_guard_host_to_device",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
)
"""The guard of all transfers, and those of each direction."""

LEVELS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit", None)
"""What a guard may say of transfers."""

CHOICES: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(TRANSFER_GUARDS, LEVELS),
    "legacy_prng_key": ("allow", "warn", "error"),
    "numpy_rank_promotion": ("allow", "warn", "raise"),
    "numpy_dtype_promotion": ("standard", "strict"),
    "code_generator": ("auto", "kiln", "llvm"),
    "default_prng_impl": ("threefry2x32",),
}
"""The allowed values of options with a fixed set of them."""


def _same(value: Any) -> Any:
    return value


ALIASES: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "jax_enable_x64": ("enable_x64", bool, _same),
    "jax_default_matmul_precision": ("default_matmul_precision", _same, _same),
    "jax_numpy_dtype_promotion": ("numpy_dtype_promotion", _same, _same),
    "jax_numpy_rank_promotion": ("numpy_rank_promotion", _same, _same),
    "jax_threefry_partitionable": ("threefry_partitionable", bool, _same),
    "jax_default_prng_impl": ("default_prng_impl", _same, _same),
    "jax_debug_nans": ("debug_nans", bool, _same),
    "jax_debug_infs": ("debug_infs", bool, _same),
    "jax_check_tracer_leaks": ("check_tracer_leaks", bool, _same),
    "jax_enable_checks": ("check", bool, _same),
    "jax_disable_jit": ("jit", lambda off: not off, lambda on: not on),
    "jax_log_compiles": ("log_compiles", bool, _same),
    "jax_explain_cache_misses": ("explain", bool, _same),
    "jax_num_cpu_devices": ("num_cpu_devices", int, _same),
    "jax_default_device": ("default_device", _same, _same),
    **{f"jax_{name}": (name, _same, _same) for name in TRANSFER_GUARDS},
    "jax_legacy_prng_key": ("legacy_prng_key", _same, _same),
    "jax_no_tracing": ("no_tracing", bool, _same),
    "jax_compilation_cache_dir": (
        "cache_dir",
        lambda path: "auto" if path is None else str(path),
        lambda path: None if path == "auto" else path,
    ),
    "jax_traceback_filtering": (
        "full_traceback",
        lambda how: how == "off",
        lambda full: "off" if full else "auto",
    ),
}
"""The field for a JAX option, and the conversions of its value from JAX's and to JAX's."""


class Foreign(NamedTuple):
    """A JAX option that kiln does not have.

    `values` are those that describe what kiln does anyway; the first one is returned when the
    option is read. Other values cause a warning if they are `harmless`, otherwise an error.
    """

    values: tuple[Any, ...]
    why: str
    instead: str
    harmless: bool = False


_DISK = "programs that are worth it are kept on disk, whatever their size"
_CPU = "programs run on the CPU"
_DUMP = "programs are written as text where the option dump names a stage"
_LOCATIONS = "locations in programs are the user's lines"
_EFFORT = "all programs are compiled with the same effort"
_CHECKS = "values are checked where a program asks for it"
_LOWER = "compile for another platform with jit(f).trace(x).lower(lowering_platforms=('cuda',))"

FOREIGN: dict[str, Foreign] = {
    "jax_platforms": Foreign((None, "", "cpu"), _CPU, _LOWER),
    "jax_platform_name": Foreign((None, "", "cpu"), _CPU, _LOWER),
    "jax_debug_key_reuse": Foreign((False,), "keys used twice are not found", "leave it False"),
    "jax_enable_custom_prng": Foreign(
        (False,), "random.PRNGKey returns raw keys", "use random.key, whose keys are typed"
    ),
    "jax_softmax_custom_jvp": Foreign(
        (False, True), "softmax has its own derivative", "leave it True", harmless=True
    ),
    "jax_allow_f16_reductions": Foreign(
        (False,), "sums of 16-bit floats are computed with 32 bits", "leave it False"
    ),
    "jax_array_garbage_collection_guard": Foreign(
        ("allow", None), "arrays in reference cycles are not reported", "leave the guard out"
    ),
    "jax_auto_pcast": Foreign(
        (True,), "values vary along mesh axes without being told to", "leave it True"
    ),
    "jax_jax2tf_associative_scan_reductions": Foreign(
        (False, True), "there is no jax2tf", "leave it out", harmless=True
    ),
    "jax_no_execution": Foreign((False,), "execution is not forbidden", "leave it False"),
    "jax_remove_size_one_mesh_axis_from_type": Foreign(
        (False, True), "types do not have shardings", "leave it out", harmless=True
    ),
    "jax_thread_guard": Foreign(
        (False,), "each function may be called from any thread", "leave it False"
    ),
    "jax_enable_compilation_cache": Foreign(
        (True,), "the option cache_dir switches the cache off", "set cache_dir to ''", harmless=True
    ),
    "jax_persistent_cache_min_compile_time_secs": Foreign(
        (1.0,), _DISK, "leave it out", harmless=True
    ),
    "jax_persistent_cache_min_entry_size_bytes": Foreign(
        (0,), _DISK, "leave it out", harmless=True
    ),
    "jax_cpu_enable_async_dispatch": Foreign(
        (True,),
        "calls return before their results are there",
        "wait with block_until_ready",
        harmless=True,
    ),
    "jax_use_shardy_partitioner": Foreign(
        (True,), "programs are always partitioned by Shardy", "leave it True", harmless=True
    ),
    "jax_logging_level": Foreign(
        (None, "NOTSET"),
        "what is logged is chosen by log_compiles and explain",
        "use kiln.log_compiles(), or KILN_DUMP",
        harmless=True,
    ),
}


def _harmless(why: str, instead: str, values: dict[str, tuple[Any, ...]]) -> None:
    """Add options that do not affect results, by their names without `jax_`."""
    for name, same in values.items():
        FOREIGN[f"jax_{name}"] = Foreign(same, why, instead, harmless=True)


_harmless(
    _DISK,
    "set disk_cache_mb and cache_dir",
    {
        "compilation_cache_max_size": (-1,),
        "compilation_cache_include_metadata_in_key": (False,),
        "raise_persistent_cache_errors": (False,),
        "persistent_cache_enable_xla_caches": ("xla_gpu_per_fusion_autotune_cache_dir", "none"),
    },
)
_harmless(
    _DUMP,
    "set KILN_DUMP and KILN_DUMP_DIR",
    {
        "dump_ir_to": ("",),
        "dump_ir_modes": ("stablehlo",),
        "include_debug_info_in_dumps": (True,),
        "pprint_use_color": (True, False),
        "debug_log_modules": ("",),
        "log_checkpoint_residuals": (False,),
    },
)
_harmless(
    _LOCATIONS,
    "leave it out, or set KILN_FULL_TRACEBACK=1",
    {
        "include_full_tracebacks_in_locations": (True,),
        "traceback_in_locations_limit": (100,),
        "tracer_error_num_traceback_frames": (5,),
        "send_traceback_to_runtime": ("off",),
    },
)
_harmless(
    _EFFORT,
    "leave it out",
    {
        "optimization_level": ("UNKNOWN",),
        "memory_fitting_level": ("O2",),
        "memory_fitting_effort": (0.0,),
        "exec_time_optimization_effort": (0.0,),
        "disable_most_optimizations": (False,),
        "compiler_enable_remat_pass": (True,),
        "enable_pgle": (False,),
    },
)
_harmless(
    "large constants are not reported",
    "leave it out",
    {
        "captured_constants_warn_bytes": (2_000_000_000, -1),
        "captured_constants_report_frames": (0,),
    },
)
_harmless(
    _CPU,
    _LOWER,
    {
        "cuda_visible_devices": ("all",),
        "rocm_visible_devices": ("all",),
        "use_magma": ("auto", "off"),
        "bcoo_cusparse_lowering": (False,),
        "threefry_gpu_kernel_lowering": (False,),
    },
)
for _name in ("nan", "divide", "oob"):
    FOREIGN[f"jax_error_checking_behavior_{_name}"] = Foreign(
        ("ignore",), _CHECKS, "use kiln.experimental.checkify, or jax_debug_nans"
    )
FOREIGN["jax_check_static_indices"] = Foreign(
    (False,), _CHECKS, "check the index before, or use checkify.index_checks"
)
FOREIGN["jax_random_seed_offset"] = Foreign(
    (0,), "seeds are taken as they are", "add the offset: random.key(seed + offset)"
)
FOREIGN["jax_high_dynamic_range_gumbel"] = Foreign(
    (False,), "functions have a mode instead", "pass mode='high' to gumbel and categorical"
)


_on_refusal: Callable[[str, Any, Foreign], None] | None = None


def set_on_refusal(listener: Callable[[str, Any, Foreign], None]) -> None:
    """Let a function hear of values that options refuse, which are then ignored."""
    global _on_refusal
    _on_refusal = listener


def check_foreign(name: str, value: Any) -> None:
    """Check the value that a user sets for a JAX option.

    Raises: UnavailableOptionError for a value that kiln does not support.
    """
    option = FOREIGN[name]
    if value in option.values:
        return
    if _on_refusal is not None and not option.harmless:
        _on_refusal(name, value, option)
        return
    text = three_lines(
        f"config.update({name!r}, {value!r}) at {current_source()}",
        f"kiln has no such option: {option.why}",
        option.instead,
    )
    if not option.harmless:
        raise UnavailableOptionError(text)
    warnings.warn(text, UserWarning, stacklevel=3)


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
