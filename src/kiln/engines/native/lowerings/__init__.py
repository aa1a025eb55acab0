"""What each primitive becomes in loops: one file per family, merged here."""

from __future__ import annotations

from kiln.engines.native.builder import Lowering
from kiln.engines.native.lowerings import (
    call,
    contraction,
    conversion,
    elementwise,
    generators,
    indexing,
    random_bits,
    reduction,
    shape,
    slicing,
    static_slicing,
)
from kiln.ir.operation import Operation

LOWERINGS: dict[Operation, Lowering] = {
    **call.LOWERINGS,
    **contraction.LOWERINGS,
    **conversion.LOWERINGS,
    **elementwise.LOWERINGS,
    **generators.LOWERINGS,
    **indexing.LOWERINGS,
    **random_bits.LOWERINGS,
    **reduction.LOWERINGS,
    **shape.LOWERINGS,
    **slicing.LOWERINGS,
    **static_slicing.LOWERINGS,
}
