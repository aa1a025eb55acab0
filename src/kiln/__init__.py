"""kiln: a just-in-time compiler for NumPy-style Python."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from kiln.base.collection import Permanent as _Permanent

with _Permanent():
    from kiln import core as core
    from kiln import custom_derivatives as custom_derivatives
    from kiln import debug as debug
    from kiln import dtypes as dtypes
    from kiln import errors as errors
    from kiln import lax as lax
    from kiln import numpy as numpy
    from kiln import sharding as sharding
    from kiln import stages as stages
    from kiln import tree as tree
    from kiln import tree_util as tree_util
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
    from kiln.api.contexts import checking_leaks as checking_leaks
    from kiln.api.contexts import debug_infs as debug_infs
    from kiln.api.contexts import debug_key_reuse as debug_key_reuse
    from kiln.api.contexts import debug_nans as debug_nans
    from kiln.api.contexts import default_device as default_device
    from kiln.api.contexts import default_matmul_precision as default_matmul_precision
    from kiln.api.contexts import default_prng_impl as default_prng_impl
    from kiln.api.contexts import enable_checks as enable_checks
    from kiln.api.contexts import enable_x64 as enable_x64
    from kiln.api.contexts import explain_cache_misses as explain_cache_misses
    from kiln.api.contexts import log_compiles as log_compiles
    from kiln.api.contexts import numpy_dtype_promotion as numpy_dtype_promotion
    from kiln.api.contexts import numpy_rank_promotion as numpy_rank_promotion
    from kiln.api.contexts import threefry_partitionable as threefry_partitionable
    from kiln.api.contexts import transfer_guard as transfer_guard
    from kiln.api.grad import grad as grad
    from kiln.api.grad import value_and_grad as value_and_grad
    from kiln.api.jacobian import hessian as hessian
    from kiln.api.jacobian import jacfwd as jacfwd
    from kiln.api.jacobian import jacobian as jacobian
    from kiln.api.jacobian import jacrev as jacrev
    from kiln.api.jit import disable_jit as disable_jit
    from kiln.api.jit import jit as jit
    from kiln.api.linear import jvp as jvp
    from kiln.api.linear import linear_transpose as linear_transpose
    from kiln.api.linear import linearize as linearize
    from kiln.api.linear import vjp as vjp
    from kiln.api.make_jaxpr import eval_shape as eval_shape
    from kiln.api.make_jaxpr import make_jaxpr as make_jaxpr
    from kiln.api.shard_map import shard_map as shard_map
    from kiln.api.threads import get_num_threads as get_num_threads
    from kiln.api.threads import num_threads as num_threads
    from kiln.api.threads import set_num_threads as set_num_threads
    from kiln.api.vmap import vmap as vmap
    from kiln.base.config import config as config
    from kiln.base.lazy import on_first_use as _on_first_use
    from kiln.control import checkpoint_policies as checkpoint_policies
    from kiln.control.callback import effects_barrier as effects_barrier
    from kiln.control.callback import pure_callback as pure_callback
    from kiln.control.check import check as check
    from kiln.control.checkpoint import checkpoint as checkpoint
    from kiln.control.checkpoint import remat as remat
    from kiln.control.closure import closure_convert as closure_convert
    from kiln.control.closure import custom_gradient as custom_gradient
    from kiln.control.custom_jvp import custom_jvp as custom_jvp
    from kiln.control.custom_vjp import custom_vjp as custom_vjp
    from kiln.core.array import Array as Array
    from kiln.execution.fallbacks import explain_fallbacks as explain_fallbacks
    from kiln.execution.fallbacks import fallback_counts as fallback_counts
    from kiln.jit.cache import clear_caches as clear_caches
    from kiln.jit.explain import explain_recompiles as explain_recompiles
    from kiln.jit.struct import ShapeDtypeStruct as ShapeDtypeStruct
    from kiln.sharding import make_mesh as make_mesh

if _TYPE_CHECKING:
    from kiln import dlpack as dlpack
    from kiln import linen as linen
    from kiln import nn as nn
    from kiln import random as random
    from kiln import serialization as serialization
    from kiln import struct as struct
    from kiln import traverse_util as traverse_util

__version__ = "0.1.0"

# Modules that programs may do without.
__getattr__, __dir__ = _on_first_use(
    globals(), "dlpack", "linen", "nn", "random", "serialization", "struct", "traverse_util"
)
