"""Layer 2: how operations become programs. Its public names are those of `jax.core`."""

from kiln.core.primitive import Primitive
from kiln.core.staging import eval_jaxpr
from kiln.core.trace import Trace, Tracer
from kiln.ir.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var
from kiln.ir.jaxpr import Eqn as JaxprEqn
from kiln.ir.types import ShapedArray

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
