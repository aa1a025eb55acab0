"""Special functions that CHLO has; the others expand into simpler operations."""

from __future__ import annotations

from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings.elements.elementwise import nary
from kiln.engines.xla.stablehlo.builder import Lowering
from kiln.ops.elements import special as ops

LOWERINGS: dict[Primitive, Lowering] = {
    ops.erf_p: nary("chlo.erf"),
    ops.erfc_p: nary("chlo.erfc"),
    ops.erf_inv_p: nary("chlo.erf_inv"),
    ops.lgamma_p: nary("chlo.lgamma"),
    ops.digamma_p: nary("chlo.digamma"),
    ops.polygamma_p: nary("chlo.polygamma"),
    ops.zeta_p: nary("chlo.zeta"),
}
