"""Programs and primitives, for libraries that read programs or have primitives of their own.

The names are those of `jax.extend.core`.
"""

from kiln.base.errors import InconclusiveDimensionOperation as InconclusiveDimensionOperation
from kiln.base.errors import JaxprTypeError as JaxprTypeError
from kiln.core.primitive import Primitive as Primitive
from kiln.extend.core import primitives as primitives
from kiln.extend.core.inspection import DebugInfo as DebugInfo
from kiln.extend.core.inspection import DropVar as DropVar
from kiln.extend.core.inspection import check_jaxpr as check_jaxpr
from kiln.extend.core.inspection import gensym as gensym
from kiln.extend.core.inspection import jaxpr_as_fun as jaxpr_as_fun
from kiln.extend.core.inspection import jaxprs_in_params as jaxprs_in_params
from kiln.extend.core.inspection import mapped_aval as mapped_aval
from kiln.extend.core.inspection import new_jaxpr_eqn as new_jaxpr_eqn
from kiln.extend.core.inspection import (
    primal_dtype_to_tangent_dtype as primal_dtype_to_tangent_dtype,
)
from kiln.extend.core.inspection import subjaxprs as subjaxprs
from kiln.extend.core.inspection import unmapped_aval as unmapped_aval
from kiln.extend.core.tracing import CallPrimitive as CallPrimitive
from kiln.extend.core.tracing import TraceTag as TraceTag
from kiln.extend.core.tracing import array_types as array_types
from kiln.extend.core.tracing import call_impl as call_impl
from kiln.extend.core.tracing import concrete_or_error as concrete_or_error
from kiln.extend.core.tracing import find_top_trace as find_top_trace
from kiln.extend.core.tracing import get_opaque_trace_state as get_opaque_trace_state
from kiln.extend.core.tracing import nonempty_axis_env_DO_NOT_USE as nonempty_axis_env_DO_NOT_USE
from kiln.extend.core.tracing import set_current_trace as set_current_trace
from kiln.extend.core.tracing import take_current_trace as take_current_trace
from kiln.extend.core.tracing import trace_state_clean as trace_state_clean
from kiln.extend.core.tracing import (
    unsafe_am_i_under_a_jit_DO_NOT_USE as unsafe_am_i_under_a_jit_DO_NOT_USE,
)
from kiln.extend.core.tracing import (
    unsafe_am_i_under_a_vmap_DO_NOT_USE as unsafe_am_i_under_a_vmap_DO_NOT_USE,
)
from kiln.extend.core.tracing import (
    unsafe_get_axis_names_DO_NOT_USE as unsafe_get_axis_names_DO_NOT_USE,
)
from kiln.extend.core.tracing import valid_jaxtype as valid_jaxtype
from kiln.ir.effects import NO_EFFECTS as no_effects
from kiln.ir.effects import Effect as Effect
from kiln.ir.effects import Effects as Effects
from kiln.ir.jaxpr import ClosedJaxpr as ClosedJaxpr
from kiln.ir.jaxpr import Eqn as JaxprEqn
from kiln.ir.jaxpr import Jaxpr as Jaxpr
from kiln.ir.jaxpr import Literal as Literal
from kiln.ir.jaxpr import Var as Var

__all__ = [
    "CallPrimitive",
    "ClosedJaxpr",
    "DebugInfo",
    "DropVar",
    "Effect",
    "Effects",
    "InconclusiveDimensionOperation",
    "Jaxpr",
    "JaxprEqn",
    "JaxprTypeError",
    "Literal",
    "Primitive",
    "TraceTag",
    "Var",
    "array_types",
    "call_impl",
    "check_jaxpr",
    "concrete_or_error",
    "find_top_trace",
    "gensym",
    "get_opaque_trace_state",
    "jaxpr_as_fun",
    "jaxprs_in_params",
    "mapped_aval",
    "new_jaxpr_eqn",
    "no_effects",
    "nonempty_axis_env_DO_NOT_USE",
    "primal_dtype_to_tangent_dtype",
    "primitives",
    "set_current_trace",
    "subjaxprs",
    "take_current_trace",
    "trace_state_clean",
    "unmapped_aval",
    "unsafe_am_i_under_a_jit_DO_NOT_USE",
    "unsafe_am_i_under_a_vmap_DO_NOT_USE",
    "unsafe_get_axis_names_DO_NOT_USE",
    "valid_jaxtype",
]
