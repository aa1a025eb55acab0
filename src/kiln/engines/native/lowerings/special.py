"""Special functions, each an elementary function that a pass expands."""

from __future__ import annotations

from kiln.engines.native.builder import Lowering
from kiln.engines.native.lowerings.elementwise import operation
from kiln.ir.operation import Operation
from kiln.ops import special as ops

LOWERINGS: dict[Operation, Lowering] = {
    p: operation(p.name)
    for p in (
        ops.erf_p,
        ops.erfc_p,
        ops.erf_inv_p,
        ops.lgamma_p,
        ops.digamma_p,
        ops.polygamma_p,
        ops.zeta_p,
    )
}
