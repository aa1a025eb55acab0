"""How operations become programs. The public names are those of `jax.core`."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any

from kiln.base.lazy import on_first_use as _on_first_use
from kiln.core.primitive import Primitive as Primitive
from kiln.core.staging import eval_jaxpr as eval_jaxpr
from kiln.core.trace import Trace as Trace
from kiln.core.trace import Tracer as Tracer
from kiln.core.trace import eval_context as eval_context
from kiln.ir.jaxpr import Atom as Atom
from kiln.ir.jaxpr import ClosedJaxpr as ClosedJaxpr
from kiln.ir.jaxpr import Eqn as JaxprEqn
from kiln.ir.jaxpr import Jaxpr as Jaxpr
from kiln.ir.jaxpr import Literal as Literal
from kiln.ir.jaxpr import Var as Var
from kiln.ir.sizes.size import maximum as max_dim
from kiln.ir.sizes.size import minimum as min_dim
from kiln.ir.types import AbstractValue as AbstractValue
from kiln.ir.types import ShapedArray as ShapedArray

if _TYPE_CHECKING:
    from kiln.core.compile_time import ensure_compile_time_eval as ensure_compile_time_eval

# Names that moved to `extend.core`, whose layer is above this one.
__getattr__, __dir__ = _on_first_use(
    globals(),
    "kiln.core.compile_time: ensure_compile_time_eval",
    """kiln.extend.core:
        CallPrimitive DebugInfo DropVar Effect Effects InconclusiveDimensionOperation JaxprTypeError
        check_jaxpr concrete_or_error find_top_trace gensym get_opaque_trace_state jaxprs_in_params
        new_jaxpr_eqn no_effects nonempty_axis_env_DO_NOT_USE primal_dtype_to_tangent_dtype
        unsafe_am_i_under_a_jit_DO_NOT_USE unsafe_am_i_under_a_vmap_DO_NOT_USE
        unsafe_get_axis_names_DO_NOT_USE valid_jaxtype
    """,
)

ParamDict = dict[str, Any]
Value = Any


__all__ = [
    "AbstractValue",
    "Atom",
    "ClosedJaxpr",
    "Jaxpr",
    "JaxprEqn",
    "Literal",
    "ParamDict",
    "Primitive",
    "ShapedArray",
    "Trace",
    "Tracer",
    "Value",
    "Var",
    "ensure_compile_time_eval",
    "eval_context",
    "eval_jaxpr",
    "max_dim",
    "min_dim",
]
