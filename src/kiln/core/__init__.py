"""How operations become programs. The public names are those of `jax.core`."""

from kiln.core.primitive import Primitive as Primitive
from kiln.core.staging import eval_jaxpr as eval_jaxpr
from kiln.core.trace import Trace as Trace
from kiln.core.trace import Tracer as Tracer
from kiln.ir.jaxpr import ClosedJaxpr as ClosedJaxpr
from kiln.ir.jaxpr import Eqn as JaxprEqn
from kiln.ir.jaxpr import Jaxpr as Jaxpr
from kiln.ir.jaxpr import Literal as Literal
from kiln.ir.jaxpr import Var as Var
from kiln.ir.types import ShapedArray as ShapedArray

__all__ = [
    "ClosedJaxpr",
    "Jaxpr",
    "JaxprEqn",
    "Literal",
    "Primitive",
    "ShapedArray",
    "Trace",
    "Tracer",
    "Var",
    "eval_jaxpr",
]
