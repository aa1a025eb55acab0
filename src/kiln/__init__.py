"""kiln: a just-in-time compiler for NumPy-style Python."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from kiln.base.process.garbage_collection import Permanent as _Permanent

with _Permanent():
    from kiln import core as core
    from kiln import dtypes as dtypes
    from kiln import numpy as numpy
    from kiln.api.arrays import block_until_ready as block_until_ready
    from kiln.api.arrays import default_backend as default_backend
    from kiln.api.arrays import device_count as device_count
    from kiln.api.arrays import device_get as device_get
    from kiln.api.arrays import device_put as device_put
    from kiln.api.arrays import devices as devices
    from kiln.api.arrays import live_arrays as live_arrays
    from kiln.api.arrays import local_device_count as local_device_count
    from kiln.api.arrays import local_devices as local_devices
    from kiln.api.arrays import make_array_from_callback as make_array_from_callback
    from kiln.api.arrays import (
        make_array_from_single_device_arrays as make_array_from_single_device_arrays,
    )
    from kiln.api.arrays import process_count as process_count
    from kiln.api.arrays import process_index as process_index
    from kiln.api.jit import disable_jit as disable_jit
    from kiln.api.jit import jit as jit
    from kiln.base.lazy import on_first_use as _on_first_use
    from kiln.base.options.config import config as config
    from kiln.base.pickled import unpickled as _unpickled
    from kiln.control.custom_rules.jvp import custom_jvp as custom_jvp
    from kiln.core.arrays.array import Array as Array
    from kiln.execution.fallbacks import explain_fallbacks as explain_fallbacks
    from kiln.execution.fallbacks import fallback_counts as fallback_counts
    from kiln.jit.cache import clear_caches as clear_caches
    from kiln.jit.signatures.explain import explain_recompiles as explain_recompiles
    from kiln.jit.signatures.struct import ShapeDtypeStruct as ShapeDtypeStruct

if _TYPE_CHECKING:
    from kiln import ad_checkpoint as ad_checkpoint
    from kiln import api_util as api_util
    from kiln import checkpoints as checkpoints
    from kiln import custom_batching as custom_batching
    from kiln import custom_derivatives as custom_derivatives
    from kiln import data as data
    from kiln import debug as debug
    from kiln import distributed as distributed
    from kiln import dlpack as dlpack
    from kiln import errors as errors
    from kiln import example_libraries as example_libraries
    from kiln import experimental as experimental
    from kiln import export as export
    from kiln import extend as extend
    from kiln import flatten_util as flatten_util
    from kiln import image as image
    from kiln import interpreters as interpreters
    from kiln import lax as lax
    from kiln import linen as linen
    from kiln import monitoring as monitoring
    from kiln import nn as nn
    from kiln import profiler as profiler
    from kiln import quantize as quantize
    from kiln import random as random
    from kiln import ref as ref
    from kiln import scipy as scipy
    from kiln import serialization as serialization
    from kiln import sharding as sharding
    from kiln import stages as stages
    from kiln import struct as struct
    from kiln import test_util as test_util
    from kiln import traverse_util as traverse_util
    from kiln import tree as tree
    from kiln import tree_util as tree_util
    from kiln import typing as typing
    from kiln.ad_checkpoint import checkpoint_policies as checkpoint_policies
    from kiln.api.contexts.guards import allow_f16_reductions as allow_f16_reductions
    from kiln.api.contexts.guards import (
        array_garbage_collection_guard as array_garbage_collection_guard,
    )
    from kiln.api.contexts.guards import auto_pcast as auto_pcast
    from kiln.api.contexts.guards import check_tracer_leaks as check_tracer_leaks
    from kiln.api.contexts.guards import enable_custom_prng as enable_custom_prng
    from kiln.api.contexts.guards import (
        jax2tf_associative_scan_reductions as jax2tf_associative_scan_reductions,
    )
    from kiln.api.contexts.guards import legacy_prng_key as legacy_prng_key
    from kiln.api.contexts.guards import no_execution as no_execution
    from kiln.api.contexts.guards import no_tracing as no_tracing
    from kiln.api.contexts.guards import (
        remove_size_one_mesh_axis_from_type as remove_size_one_mesh_axis_from_type,
    )
    from kiln.api.contexts.guards import softmax_custom_jvp as softmax_custom_jvp
    from kiln.api.contexts.guards import thread_guard as thread_guard
    from kiln.api.contexts.guards import (
        transfer_guard_device_to_device as transfer_guard_device_to_device,
    )
    from kiln.api.contexts.guards import (
        transfer_guard_device_to_host as transfer_guard_device_to_host,
    )
    from kiln.api.contexts.guards import (
        transfer_guard_host_to_device as transfer_guard_host_to_device,
    )
    from kiln.api.contexts.options import batch_invariant as batch_invariant
    from kiln.api.contexts.options import checking_leaks as checking_leaks
    from kiln.api.contexts.options import debug_infs as debug_infs
    from kiln.api.contexts.options import debug_key_reuse as debug_key_reuse
    from kiln.api.contexts.options import debug_nans as debug_nans
    from kiln.api.contexts.options import default_device as default_device
    from kiln.api.contexts.options import default_matmul_precision as default_matmul_precision
    from kiln.api.contexts.options import default_prng_impl as default_prng_impl
    from kiln.api.contexts.options import enable_checks as enable_checks
    from kiln.api.contexts.options import enable_x64 as enable_x64
    from kiln.api.contexts.options import explain_cache_misses as explain_cache_misses
    from kiln.api.contexts.options import log_compiles as log_compiles
    from kiln.api.contexts.options import numpy_dtype_promotion as numpy_dtype_promotion
    from kiln.api.contexts.options import numpy_rank_promotion as numpy_rank_promotion
    from kiln.api.contexts.options import threefry_partitionable as threefry_partitionable
    from kiln.api.contexts.options import transfer_guard as transfer_guard
    from kiln.api.contexts.scopes import make_user_context as make_user_context
    from kiln.api.contexts.scopes import named_call as named_call
    from kiln.api.contexts.scopes import named_scope as named_scope
    from kiln.api.derivatives.forward_and_backward import fwd_and_bwd as fwd_and_bwd
    from kiln.api.derivatives.grad import grad as grad
    from kiln.api.derivatives.grad import value_and_grad as value_and_grad
    from kiln.api.derivatives.jacobian import hessian as hessian
    from kiln.api.derivatives.jacobian import jacfwd as jacfwd
    from kiln.api.derivatives.jacobian import jacobian as jacobian
    from kiln.api.derivatives.jacobian import jacrev as jacrev
    from kiln.api.derivatives.linear import jvp as jvp
    from kiln.api.derivatives.linear import linear_transpose as linear_transpose
    from kiln.api.derivatives.linear import linearize as linearize
    from kiln.api.derivatives.linear import vjp as vjp
    from kiln.api.inspection import Device as Device
    from kiln.api.inspection import copy_to_host_async as copy_to_host_async
    from kiln.api.inspection import host_count as host_count
    from kiln.api.inspection import host_id as host_id
    from kiln.api.inspection import host_ids as host_ids
    from kiln.api.inspection import print_environment_info as print_environment_info
    from kiln.api.inspection import process_indices as process_indices
    from kiln.api.inspection import typeof as typeof
    from kiln.api.make_jaxpr import eval_shape as eval_shape
    from kiln.api.make_jaxpr import make_jaxpr as make_jaxpr
    from kiln.api.mapping.vmap import vmap as vmap
    from kiln.api.sharding.meshes import reshard as reshard
    from kiln.api.sharding.meshes import set_mesh as set_mesh
    from kiln.api.sharding.per_device import pmap as pmap
    from kiln.api.sharding.per_device import smap as smap
    from kiln.api.sharding.process_arrays import (
        make_array_from_process_local_data as make_array_from_process_local_data,
    )
    from kiln.api.sharding.shard_map import shard_map as shard_map
    from kiln.api.threads import get_num_threads as get_num_threads
    from kiln.api.threads import num_threads as num_threads
    from kiln.api.threads import set_num_threads as set_num_threads
    from kiln.control.checkpoint import checkpoint as checkpoint
    from kiln.control.checkpoint import remat as remat
    from kiln.control.custom_rules.closure import closure_convert as closure_convert
    from kiln.control.custom_rules.closure import custom_gradient as custom_gradient
    from kiln.control.custom_rules.vjp import custom_vjp as custom_vjp
    from kiln.control.effects.callback import effects_barrier as effects_barrier
    from kiln.control.effects.callback import pure_callback as pure_callback
    from kiln.control.effects.check import check as check
    from kiln.control.references.refs import empty_ref as empty_ref
    from kiln.control.references.refs import free_ref as free_ref
    from kiln.control.references.refs import freeze as freeze
    from kiln.control.references.refs import new_ref as new_ref
    from kiln.core.arrays.shards import Shard as Shard
    from kiln.core.compile_time import ensure_compile_time_eval as ensure_compile_time_eval
    from kiln.core.ref import Ref as Ref
    from kiln.core.slices import ds as ds
    from kiln.dtypes import float0 as float0
    from kiln.execution.cache_report import cache_info as cache_info
    from kiln.sharding import NamedSharding as NamedSharding
    from kiln.sharding import P as P
    from kiln.sharding import make_mesh as make_mesh

__version__ = "0.1.0"

# Modules and functions that programs may do without.
__getattr__, __dir__ = _on_first_use(
    globals(),
    "custom_derivatives",
    "debug",
    "dtypes",
    "errors",
    "lax",
    "numpy",
    "sharding",
    "stages",
    "tree",
    "tree_util",
    "ad_checkpoint",
    "api_util",
    "checkpoints",
    "data",
    "custom_batching",
    "dlpack",
    "distributed",
    "example_libraries",
    "experimental",
    "export",
    "extend",
    "ffi",
    "flatten_util",
    "image",
    "interpreters",
    "linen",
    "monitoring",
    "nn",
    "profiler",
    "quantize",
    "random",
    "ref",
    "scipy",
    "serialization",
    "struct",
    "test_util",
    "traverse_util",
    "typing",
    "kiln.api.contexts.options: batch_invariant checking_leaks debug_infs debug_key_reuse",
    "kiln.api.contexts.options: debug_nans default_device default_matmul_precision",
    "kiln.api.contexts.options: default_prng_impl enable_checks enable_x64 explain_cache_misses",
    "kiln.api.contexts.options: log_compiles numpy_dtype_promotion numpy_rank_promotion",
    "kiln.api.contexts.options: threefry_partitionable transfer_guard",
    "kiln.api.derivatives.forward_and_backward: fwd_and_bwd",
    "kiln.api.derivatives.grad: grad value_and_grad",
    "kiln.api.contexts.guards: allow_f16_reductions array_garbage_collection_guard auto_pcast",
    "kiln.api.contexts.guards: check_tracer_leaks enable_custom_prng",
    "kiln.api.contexts.guards: jax2tf_associative_scan_reductions legacy_prng_key no_execution",
    "kiln.api.contexts.guards: no_tracing softmax_custom_jvp thread_guard",
    "kiln.api.contexts.guards: remove_size_one_mesh_axis_from_type transfer_guard_device_to_device",
    "kiln.api.contexts.guards: transfer_guard_device_to_host transfer_guard_host_to_device",
    "kiln.api.derivatives.jacobian: hessian jacfwd jacobian jacrev",
    "kiln.api.derivatives.linear: jvp linear_transpose linearize vjp",
    "kiln.api.sharding.shard_map: shard_map",
    "kiln.api.threads: get_num_threads num_threads set_num_threads",
    "kiln.api.mapping.vmap: vmap",
    "kiln.ad_checkpoint: checkpoint_policies",
    "kiln.control.effects.callback: effects_barrier pure_callback",
    "kiln.control.effects.check: check",
    "kiln.control.checkpoint: checkpoint remat",
    "kiln.control.custom_rules.closure: closure_convert custom_gradient",
    "kiln.control.custom_rules.vjp: custom_vjp",
    "kiln.execution.cache_report: cache_info",
    "kiln.api.inspection: Device copy_to_host_async host_count host_id host_ids process_indices",
    "kiln.api.inspection: print_environment_info typeof",
    "kiln.api.make_jaxpr: eval_shape make_jaxpr",
    "kiln.api.sharding.meshes: reshard set_mesh",
    "kiln.api.sharding.per_device: pmap smap",
    "kiln.api.sharding.process_arrays: make_array_from_process_local_data",
    "kiln.api.contexts.scopes: make_user_context named_call named_scope",
    "kiln.control.references.refs: empty_ref free_ref freeze new_ref",
    "kiln.core.compile_time: ensure_compile_time_eval",
    "kiln.core.ref: Ref",
    "kiln.core.arrays.shards: Shard",
    "kiln.core.slices: ds",
    "kiln.dtypes: float0",
    "kiln.sharding: NamedSharding P make_mesh",
)
