"""JAX's options that kiln does not have, each with the reason.

Some have no meaning here, and take any value. The others may be set to what kiln does anyway; any
other value is rejected, with what to write instead, or causes a warning if the option affects only
speed or messages, since a program should not fail because of that.
"""

from __future__ import annotations

from typing import Any

from kiln.base.named_tuples import NamedTuple


class Foreign(NamedTuple):
    """A JAX option that kiln does not have.

    `values` are those that describe what kiln does anyway, JAX's default first. Other values are
    accepted if the option has no `meaning` here, cause a warning if they are `harmless`, and
    otherwise an error. `kind` is the type of values if it is not that of the default.
    """

    values: tuple[Any, ...]
    why: str
    instead: str = "leave it out"
    harmless: bool = False
    meaning: bool = True
    kind: type | None = None

    def parse(self, text: str) -> Any:
        """Return the value that a text stands for.

        Raises: ValueError for a text that does not represent a value.
        """
        kind = self.kind or type(self.values[0])
        if kind is bool:
            return truth(text)
        return kind(text) if kind in (int, float) else text


def truth(text: str) -> bool:
    """Return the truth value of an environment variable's text, as JAX reads it.

    Raises: ValueError for a text that is neither true nor false.
    """
    word = text.strip().lower()
    if word in ("y", "yes", "t", "true", "on", "1"):
        return True
    if word in ("n", "no", "f", "false", "off", "0"):
        return False
    raise ValueError(f"invalid truth value {text!r}")


_DISK = "programs that are worth it are kept on disk, whatever their size"
_CPU = "programs run on the CPU"
_DUMP = "programs are written as text where the option dump names a stage"
_LOCATIONS = "locations in programs are the user's lines"
_EFFORT = "all programs are compiled with the same effort"
_LOWER = "compile for another platform with jit(f).trace(x).lower(lowering_platforms=('cuda',))"

FOREIGN: dict[str, Foreign] = {
    "jax_platforms": Foreign((None, "", "cpu"), _CPU, _LOWER),
    "jax_platform_name": Foreign(("", None, "cpu"), _CPU, _LOWER),
    "jax_array_garbage_collection_guard": Foreign(
        (None, "allow"), "arrays in reference cycles are not reported", "leave the guard out"
    ),
    "jax_auto_pcast": Foreign(
        (True,), "values vary along mesh axes without being told to", "leave it True"
    ),
    "jax_disallow_mesh_context_manager": Foreign(
        (False,), "a mesh is a context, entered in one step", "search the program for `with mesh`"
    ),
    "jax_enable_recoverability": Foreign(
        (False,), "when one process fails, the others end", "start all of them again"
    ),
    "jax_sort_devices_by_process_index": Foreign(
        (True,), "devices are listed process by process", "sort them: sorted(jax.devices(), key=f)"
    ),
    "jax_pallas_enable_debug_checks": Foreign(
        (False,), "kernels do not check themselves", "use jax.experimental.checkify"
    ),
    "jax_pallas_poison_buffers": Foreign(
        (False,), "new buffers have no values to be recognized by", "fill them in the kernel"
    ),
    "jax_export_calling_convention_version": Foreign(
        (10,), "programs are exported by version 10 of the calling convention", "leave it 10"
    ),
    "jax_serialization_version": Foreign(
        (0, 10), "programs are exported by version 10 of the calling convention", "leave it 0"
    ),
    "jax_check_proxy_envs": Foreign(
        (True,), "processes connect directly, whatever proxies are named", harmless=True
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
        ("NOTSET", None),
        "what is logged is chosen by log_compiles and explain",
        "use kiln.log_compiles(), or KILN_DUMP",
        harmless=True,
    ),
    "jax_distributed_debug": Foreign(
        (False,), "what processes do is not logged", "use kiln.log_compiles()", harmless=True
    ),
    "jax_compiler_detailed_logging_min_ops": Foreign(
        (10,), "how long programs take to compile is logged for all", harmless=True
    ),
    "jax_export_ignore_forward_compatibility": Foreign(
        (False,), "exported programs hold what the newest XLA of the format reads", harmless=True
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
        "persistent_cache_min_compile_time_secs": (1.0,),
        "persistent_cache_min_entry_size_bytes": (0,),
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
        "source_url_schema": (None,),
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
        "hlo_source_file_canonicalization_regex": (None,),
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
        "oneapi_visible_devices": ("all",),
        "use_magma": ("auto", "off"),
        "bcoo_cusparse_lowering": (False,),
        "threefry_gpu_kernel_lowering": (False,),
    },
)


def _meaningless(why: str, defaults: dict[str, Any], **kinds: type) -> None:
    """Add options without a meaning in kiln, by their full names; they take any value."""
    for name, default in defaults.items():
        FOREIGN[name] = Foreign((default,), why, meaning=False, kind=kinds.get(name))


_meaningless(
    "it chooses among JAX's own ways of representing or transforming a program",
    {
        "check_vma": False,
        "jax_custom_vjp3": False,
        "jax_remat3": False,
        "jax_scan3": False,
        "jax_refs_to_pins": False,
        "jax_use_direct_linearize": True,
        "jax_use_simplified_jaxpr_constants": False,
        "jax_embedded_constants_max_bytes": 32,
        "jax_remove_size_one_mesh_axis_from_type": False,
        "jax_remove_custom_partitioning_ptr_from_cache_key": False,
        "jax_use_emit_pipeline_primitive": False,
        "jax_ragged_dot_use_ragged_dot_instruction": True,
        "jax_debug_leaked_clients_on_clear_backends": False,
    },
)
_meaningless("constants are folded when programs are compiled", {"eager_constant_folding": False})
_meaningless("softmax has its own derivative", {"jax_softmax_custom_jvp": False})
_meaningless(
    "the check is made in any case",
    {
        "jax_mutable_array_checks": True,
        "jax_disable_bwd_checks": False,
        "jax_disable_vmap_shmap_error": False,
        "jax_experimental_unsafe_xla_runtime_errors": False,
        "jax_compilation_cache_check_contents": False,
    },
)
_meaningless(
    "there is no jax2tf",
    {
        "jax2tf_associative_scan_reductions": False,
        "jax2tf_default_native_serialization": True,
    },
)
_meaningless(
    "it is about GPUs, TPUs or services that compile for them",
    {
        "jax_backend_target": "",
        "jax_xla_backend": "",
        "jax_xla_profile_version": 0,
        "jax_mock_gpu_topology": "",
        "mock_num_gpu_processes": 0,
        "jax_mosaic_allow_hlo": False,
        "jax_pallas_use_mosaic_gpu": True,
        "jax_pallas_verbose_errors": False,
        "jax_ragged_dot_use_gpu_pallas_triton_lowering": False,
        "jax_pgle_aggregation_percentile": 90,
        "jax_pgle_profiling_runs": 3,
        "jax_compilation_cache_expect_pgle": False,
        "jax_pjrt_client_create_options": None,
    },
)
_meaningless(
    "processes exchange programs and values over connections of kiln's own",
    {
        "jax_cpu_collectives_implementation": "gloo",
        "jax_cpu_get_global_topology_timeout_minutes": 5,
        "jax_cpu_get_local_topology_timeout_minutes": 2,
        "jax_cross_host_transfer_socket_address": "",
        "jax_cross_host_transfer_timeout_seconds": None,
        "jax_cross_host_transfer_transfer_size": None,
        "jax_cross_host_transport_addresses": "",
        "jax_force_dcn_cross_host_transfers": False,
        "jax_enable_preemption_service": True,
        "jax_share_binary_between_hosts": False,
        "jax_share_binary_between_hosts_timeout_ms": 1_200_000,
    },
    jax_cross_host_transfer_timeout_seconds=int,
    jax_cross_host_transfer_transfer_size=int,
)
