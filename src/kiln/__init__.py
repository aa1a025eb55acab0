"""kiln: a just-in-time compiler for NumPy-style Python."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from kiln import (
    core,
    custom_derivatives,
    debug,
    dtypes,
    errors,
    lax,
    sharding,
    stages,
    tree,
    tree_util,
)
from kiln import numpy as numpy
from kiln.api.arrays import (
    block_until_ready,
    default_backend,
    device_count,
    device_get,
    device_put,
    devices,
    live_arrays,
    local_device_count,
    local_devices,
    make_array_from_callback,
    make_array_from_single_device_arrays,
    process_count,
    process_index,
)
from kiln.api.contexts import (
    checking_leaks,
    debug_infs,
    debug_key_reuse,
    debug_nans,
    default_device,
    default_matmul_precision,
    default_prng_impl,
    enable_checks,
    enable_x64,
    explain_cache_misses,
    log_compiles,
    numpy_dtype_promotion,
    numpy_rank_promotion,
    threefry_partitionable,
    transfer_guard,
)
from kiln.api.grad import grad, value_and_grad
from kiln.api.jacobian import hessian, jacfwd, jacobian, jacrev
from kiln.api.jit import disable_jit, jit
from kiln.api.linear import jvp, linear_transpose, linearize, vjp
from kiln.api.make_jaxpr import eval_shape, make_jaxpr
from kiln.api.shard_map import shard_map
from kiln.api.vmap import vmap
from kiln.base.config import config
from kiln.base.lazy import on_first_use as _on_first_use
from kiln.control import checkpoint_policies
from kiln.control.callback import effects_barrier, pure_callback
from kiln.control.checkpoint import checkpoint, remat
from kiln.control.closure import closure_convert, custom_gradient
from kiln.control.custom_jvp import custom_jvp
from kiln.control.custom_vjp import custom_vjp
from kiln.core.array import Array
from kiln.jit.cache import clear_caches
from kiln.jit.explain import explain_recompiles
from kiln.jit.struct import ShapeDtypeStruct
from kiln.sharding import make_mesh

if _TYPE_CHECKING:
    from kiln import dlpack, linen, nn, random, serialization, struct, traverse_util

__version__ = "0.1.0"

# Modules that programs may do without.
__getattr__, __dir__ = _on_first_use(
    globals(), "dlpack", "linen", "nn", "random", "serialization", "struct", "traverse_util"
)
