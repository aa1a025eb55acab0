"""Names of JAX that kiln does not have, and why.

`docs/differences.md` says the same to users; `tests/unit/as_jax/test_public_names.py` compares the
two.
"""

from __future__ import annotations

_PALLAS = "kernels for GPUs and TPUs are written in it; kiln's engines generate their own code"
_KERNELS = "it controls how GPUs and TPUs run a kernel; kiln compiles kernels for the CPU"
_MLIR = "kiln's programs are not MLIR modules"
_ONE_PROCESS = "each process runs its own Python, and sends arrays only within programs"
_FUNCTIONS = "functions, not primitives, convert local arrays to global ones"
_DISK = "the cache on disk is an option: kiln.config.update('cache_dir', path)"
_HANDLE = "kiln has the function, and expresses it by other primitives"
_SPECIFIC = "it controls XLA's compiler, which compiles only what the native engine does not"
_HIGHER = "custom types of values are subclasses of HiType and MutableHiType"
_TOOL = "a tool of JAX's authors, about JAX's own programs"
_QUANTIZED = "scaled products of 8-bit floats are not implemented"

REFUSED: dict[str, str] = {
    "jax.ad": "gradients into references are not supported",
    "jax.ad_checkpoint.Offloadable": "there is only one kind of memory",
    "jax.ad_checkpoint.Recompute": "policies return booleans",
    "jax.ad_checkpoint.Saveable": "policies return booleans",
    "jax.cloud_tpu_init": "kiln does not run on TPUs",
    "jax.collect_profile": _TOOL,
    "jax.debug.DebugEffect": "effects are kiln's own objects",
    "jax.debug.OrderedDebugEffect": "effects are kiln's own objects",
    "jax.experimental.array_serialization": "checkpoints are written by kiln.checkpoints",
    "jax.experimental.colocated_python": _ONE_PROCESS,
    "jax.experimental.compilation_cache": _DISK,
    "jax.experimental.compute_on": _SPECIFIC,
    "jax.experimental.control_deps": _SPECIFIC,
    "jax.experimental.custom_partitioning": _SPECIFIC,
    "jax.experimental.EArray": _HIGHER,
    "jax.experimental.fused": _SPECIFIC,
    "jax.experimental.jax2tf": "TensorFlow is not a dependency",
    "jax.experimental.jet": "rules are in jet_rules, by name; few operations need one",
    "jax.experimental.key_reuse": "programs are checked as they run, by `debug_key_reuse`",
    "jax.experimental.mesh_utils.device_kind_handler_dict": "CPU devices have no topology",
    "jax.experimental.mosaic": _PALLAS,
    "jax.experimental.multihost_utils": _FUNCTIONS,
    "jax.experimental.pallas": _KERNELS,
    "jax.experimental.primal_tangent_dtype": _HIGHER,
    "jax.experimental.profiler": _SPECIFIC,
    "jax.experimental.rnn": "its layers are operations on arrays, not calls to cuDNN",
    "jax.experimental.roofline": _TOOL,
    "jax.experimental.scheduling_groups": "a group is the function itself, not an operation",
    "jax.experimental.shard_alike": _SPECIFIC,
    "jax.experimental.source_mapper": _TOOL,
    "jax.experimental.sparse": "sparse operations are functions of arrays, not primitives",
    "jax.experimental.sparse.test_util": _TOOL,
    "jax.experimental.transfer": _ONE_PROCESS,
    "jax.extend.ifrt_programs": _MLIR,
    "jax.extend.lowering": _MLIR,
    "jax.extend.mlir": _MLIR,
    "jax.extend.pallas": _PALLAS,
    "jax.extend.xla": _SPECIFIC,
    "jax.lax.after_all": "tokens are not values; effects happen in program order",
    "jax.lax.after_all_p": _HANDLE,
    "jax.lax.approx_top_k_p": _HANDLE,
    "jax.lax.create_token": "tokens are not values; effects happen in program order",
    "jax.lax.create_token_p": _HANDLE,
    "jax.lax.dce_sink": _SPECIFIC,
    "jax.lax.dce_sink_p": _HANDLE,
    "jax.lax.device_put_p": _HANDLE,
    "jax.lax.eq_to_p": _HANDLE,
    "jax.lax.le_to_p": _HANDLE,
    "jax.lax.lt_to_p": _HANDLE,
    "jax.lax.linalg.cholesky_update_p": _HANDLE,
    "jax.lax.linalg.hessenberg_p": _HANDLE,
    "jax.lax.linalg.ormqr_p": _HANDLE,
    "jax.lax.linalg.schur_p": _HANDLE,
    "jax.lax.linalg.symmetric_product_p": _HANDLE,
    "jax.lax.linalg.tridiagonal_p": _HANDLE,
    "jax.lax.linalg.tridiagonal_solve_p": _HANDLE,
    "jax.lax.precv": "members exchange values by ppermute",
    "jax.lax.psend": "members exchange values by ppermute",
    "jax.lax.ragged_all_to_all": "it needs buffers that devices write to",
    "jax.lax.ragged_all_to_all_p": _HANDLE,
    "jax.lax.scaled_dot": _QUANTIZED,
    "jax.lax.scatter_sub_p": _HANDLE,
    "jax.lax.select_and_scatter_p": _HANDLE,
    "jax.lax.stack_p": _HANDLE,
    "jax.lax.stage": _SPECIFIC,
    "jax.lax.stage_p": _HANDLE,
    "jax.lax.tile_p": _HANDLE,
    "jax.lax.unstack_p": _HANDLE,
    "jax.memory": "the CPU has one kind of memory",
    "jax.nn.get_scaled_dot_general_config": _QUANTIZED,
    "jax.nn.scaled_dot_general": _QUANTIZED,
    "jax.nn.scaled_matmul": _QUANTIZED,
    "jax.profiler.ProfileData": "profiles are files in Perfetto's format",
    "jax.profiler.ProfileEvent": "profiles are files in Perfetto's format",
    "jax.profiler.ProfilePlane": "profiles are files in Perfetto's format",
    "jax.profiler.register_subprocess": _ONE_PROCESS,
    "jax.random.random_gamma_p": _HANDLE,
    "jax.sharding.ManualAxisType": "types express along which axes values vary only by aval.vma",
    "jax.tools": _TOOL,
}
"""What kiln deliberately does not have. A module stands for all its missing names."""

_LATER = "not implemented yet"

NOT_YET: dict[str, str] = dict.fromkeys(
    [
        "jax.core",
        "jax.custom_derivatives",
        "jax.experimental.ode",
        "jax.experimental.topologies",
        "jax.extend",
        "jax.interpreters",
        "jax.scipy",
    ],
    _LATER,
)
"""Planned."""


def reason(name: str) -> str:
    """Return why kiln does not have a name; an empty string if no reason is stated."""
    while name:
        for table in (REFUSED, NOT_YET):
            if name in table:
                return table[name]
        name = name.rpartition(".")[0]
    return ""
