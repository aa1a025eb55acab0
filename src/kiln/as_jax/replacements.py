"""Replacements for names of JAX that kiln does not have."""

from __future__ import annotations

from collections.abc import Iterable

from kiln.as_jax.names import public_names
from kiln.base.lazy import difflib

_NOTHING = "leave it out: nothing depends on it on a CPU"
_PLAIN = "write the computation with jax.numpy and jax.lax, in a jitted function"
_FUNCTION = "call the function of that name, without _p"
_EFFECTS = "check whether a jaxpr has any effects: jaxpr.effects"
_POLICY = "pass jax.checkpoint a policy that returns True or False"
_PROFILE = "open the files of jax.profiler.trace in Perfetto"
_SCALED = "scale before and after jax.lax.dot_general"
_GATHER = "call jax.device_put with a sharding, or jax.make_array_from_callback"

REPLACEMENTS: dict[str, str] = {
    "jax.ad": "jax.vjp, which returns gradients as values",
    "jax.ad_checkpoint.Offloadable": _POLICY,
    "jax.ad_checkpoint.Recompute": _POLICY,
    "jax.ad_checkpoint.Saveable": _POLICY,
    "jax.cloud_tpu_init": _NOTHING,
    "jax.collect_profile": "jax.profiler.trace",
    "jax.core": "jax.extend.core, where its counterpart is",
    "jax.custom_derivatives": "jax.custom_jvp or jax.custom_vjp",
    "jax.debug": _EFFECTS,
    "jax.ds": "jax.lax.dynamic_slice",
    "jax.experimental.array_serialization": "kiln.checkpoints",
    "jax.experimental.colocated_python": "jax.pure_callback",
    "jax.experimental.compilation_cache": "the options cache_dir and disk_cache_mb",
    "jax.experimental.compute_on": _NOTHING,
    "jax.experimental.control_deps": "jax.lax.optimization_barrier",
    "jax.experimental.custom_partitioning": "jax.shard_map",
    "jax.experimental.EArray": "jax.experimental.hijax.HiType",
    "jax.experimental.fused": "jax.jit, which fuses",
    "jax.experimental.hijax.TransformedRef": "the reference, indexed where it is read or written",
    "jax.experimental.jax2tf": "jax.export, whose StableHLO TensorFlow reads",
    "jax.experimental.jet": "jax.experimental.jet.jet",
    "jax.experimental.key_reuse": "jax.debug_key_reuse",
    "jax.experimental.mesh_utils": "jax.make_mesh",
    "jax.experimental.mosaic": _PLAIN,
    "jax.experimental.multihost_utils": _GATHER,
    "jax.experimental.ode": "jax.experimental.ode.odeint",
    "jax.experimental.pallas": _PLAIN,
    "jax.experimental.primal_tangent_dtype": "jax.experimental.hijax.HiType",
    "jax.experimental.profiler": "jax.profiler",
    "jax.experimental.rnn": "jax.experimental.rnn.lstm",
    "jax.experimental.roofline": "jax.jit(f).lower(x).compile().cost_analysis()",
    "jax.experimental.scheduling_groups": _NOTHING,
    "jax.experimental.shard_alike": "jax.lax.with_sharding_constraint",
    "jax.experimental.source_mapper": "KILN_DUMP=jaxpr or stablehlo",
    "jax.experimental.sparse": "the class's methods, or jax.experimental.sparse.sparsify",
    "jax.experimental.sparse.test_util": "jax.test_util.check_grads on dense arrays",
    "jax.experimental.topologies": "jax.sharding.AbstractMesh",
    "jax.experimental.transfer": "jax.device_put within one program",
    "jax.extend": "the public function that it implements",
    "jax.extend.ifrt_programs": "jax.jit(f).lower(x).compile()",
    "jax.extend.lowering": "jax.jit(f).lower(x).as_text()",
    "jax.extend.mlir": "jax.jit(f).lower(x).as_text()",
    "jax.extend.pallas": _PLAIN,
    "jax.extend.xla": _NOTHING,
    "jax.ffi": "jax.pure_callback",
    "jax.interpreters": "rules of kiln.extend, as docs/extend.md describes",
    "jax.lax": "the function of jax.numpy or jax.lax closest in meaning",
    "jax.lax.after_all": _NOTHING,
    "jax.lax.create_token": _NOTHING,
    "jax.lax.dce_sink": _NOTHING,
    "jax.lax.precv": "jax.lax.ppermute",
    "jax.lax.psend": "jax.lax.ppermute",
    "jax.lax.ragged_all_to_all": "jax.lax.all_to_all of padded operands",
    "jax.lax.scaled_dot": _SCALED,
    "jax.lax.stage": _NOTHING,
    "jax.memory": _NOTHING,
    "jax.nn": _SCALED,
    "jax.profiler": _PROFILE,
    "jax.profiler.register_subprocess": "jax.profiler.trace in each process",
    "jax.random": "jax.random.gamma",
    "jax.scipy": "scipy's function in jax.pure_callback",
    "jax.sharding.ManualAxisType": "jax.typeof(x).vma",
    "jax.tools": "jax.jit(f).lower(x).as_text()",
}
"""By name; a module stands for its names that have no row."""


def replacement(name: str) -> str:
    """Return what to write instead of a missing name, as the end of a message."""
    stated = _stated(name)
    if stated:
        return f"instead: {stated}"
    module, _, last = name.rpartition(".")
    if module.startswith("jax._src"):
        public = _public_namesakes(last)
        if public:
            return f"instead: {' or '.join(public)}, if it is that function"
        return "a private name of JAX: use public ones"
    close = nearest(last, public_names().get(module, ()))
    return f"{close} of {module}" if close else "see docs/differences.md"


def nearest(name: str, names: Iterable[str]) -> str:
    """Return `instead: NAME` with the most similar name, or an empty string."""
    close = difflib.get_close_matches(name, sorted({*names} - {name}), 1, 0.8)
    return f"instead: {close[0]}" if close else ""


def _stated(name: str) -> str:
    if name.endswith("_p") and name not in REPLACEMENTS:
        stated = REPLACEMENTS.get(name.removesuffix("_p"), "")
        return stated or (_FUNCTION if name.startswith(("jax.lax.", "jax.random.")) else "")
    while name:
        if name in REPLACEMENTS:
            return REPLACEMENTS[name]
        name = name.rpartition(".")[0]
    return ""


def _public_namesakes(last: str) -> list[str]:
    """Return public names of JAX with a given last component, shortest modules first."""
    found = [f"{module}.{last}" for module, names in public_names().items() if last in names]
    return sorted(found, key=lambda name: (name.count("."), name))[:2]
