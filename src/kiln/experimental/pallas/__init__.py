"""Kernels: functions of references to blocks of arrays, run for each program of a grid.

The names are those of `jax.experimental.pallas`; docs/pallas.md introduces them. `load`, `store`
and `swap` with masks are here too, as in earlier releases of JAX.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from kiln.base.lazy import on_first_use as _on_first_use
from kiln.core.slices import Slice as Slice
from kiln.core.slices import ds as ds
from kiln.core.slices import dslice as dslice
from kiln.experimental.pallas.call import pallas_call as pallas_call
from kiln.experimental.pallas.costs import estimate_cost as estimate_cost
from kiln.experimental.pallas.kernels import align_to as align_to
from kiln.experimental.pallas.kernels import cdiv as cdiv
from kiln.experimental.pallas.kernels import debug_print as debug_print
from kiln.experimental.pallas.kernels import dot as dot
from kiln.experimental.pallas.kernels import empty as empty
from kiln.experimental.pallas.kernels import empty_like as empty_like
from kiln.experimental.pallas.kernels import empty_ref_like as empty_ref_like
from kiln.experimental.pallas.kernels import loop as loop
from kiln.experimental.pallas.kernels import multiple_of as multiple_of
from kiln.experimental.pallas.kernels import next_power_of_2 as next_power_of_2
from kiln.experimental.pallas.kernels import reciprocal as reciprocal
from kiln.experimental.pallas.kernels import run_scoped as run_scoped
from kiln.experimental.pallas.kernels import run_state as run_state
from kiln.experimental.pallas.kernels import strides_from_shape as strides_from_shape
from kiln.experimental.pallas.kernels import when as when
from kiln.experimental.pallas.kernels import with_scoped as with_scoped
from kiln.experimental.pallas.masked import load as load
from kiln.experimental.pallas.masked import store as store
from kiln.experimental.pallas.masked import swap as swap
from kiln.experimental.pallas.programs import num_programs as num_programs
from kiln.experimental.pallas.programs import program_id as program_id
from kiln.experimental.pallas.specs import BlockDim as BlockDim
from kiln.experimental.pallas.specs import Blocked as Blocked
from kiln.experimental.pallas.specs import BlockSpec as BlockSpec
from kiln.experimental.pallas.specs import Buffered as Buffered
from kiln.experimental.pallas.specs import CompilerParams as CompilerParams
from kiln.experimental.pallas.specs import CostEstimate as CostEstimate
from kiln.experimental.pallas.specs import Element as Element
from kiln.experimental.pallas.specs import GridSpec as GridSpec
from kiln.experimental.pallas.specs import MemoryRef as MemoryRef
from kiln.experimental.pallas.specs import MemorySpace as MemorySpace
from kiln.experimental.pallas.specs import Squeezed as Squeezed
from kiln.experimental.pallas.specs import no_block_spec as no_block_spec
from kiln.experimental.pallas.specs import squeezed as squeezed
from kiln.numpy.shapes import broadcast_to as broadcast_to

if _TYPE_CHECKING:
    from kiln.experimental.pallas import tpu as tpu
    from kiln.experimental.pallas import triton as triton

ANY = MemorySpace.ANY
HOST = MemorySpace.HOST

__getattr__, __dir__ = _on_first_use(globals(), "tpu", "triton")
