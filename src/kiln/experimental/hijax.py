"""High values: types and primitives that a library defines on its own classes.

The names are those of `jax.experimental.hijax`.
"""

from kiln.control.high.hi_primitive import HiPrimitive
from kiln.control.high.vjp_hi_primitive import VJPHiPrimitive
from kiln.core.absent import Zero
from kiln.core.absent import is_linear as is_undefined_primal
from kiln.core.hitypes import (
    AvalMutableQDD,
    AvalQDD,
    HiPspec,
    HiType,
    MutableHiType,
    aval_method,
    aval_property,
    register_hitype,
)
from kiln.core.ref import RefView as TransformedRef
from kiln.ir.own_effects import control_flow_allowed_effects
from kiln.ir.ref_type import AbstractRef
from kiln.ir.types import AbstractValue, ShapedArray
from kiln.ops.shape import filled as instantiate_zeros

__all__ = [
    "AbstractRef",
    "AbstractValue",
    "AvalMutableQDD",
    "AvalQDD",
    "HiPrimitive",
    "HiPspec",
    "HiType",
    "MutableHiType",
    "ShapedArray",
    "TransformedRef",
    "VJPHiPrimitive",
    "Zero",
    "aval_method",
    "aval_property",
    "control_flow_allowed_effects",
    "instantiate_zeros",
    "is_undefined_primal",
    "register_hitype",
]
