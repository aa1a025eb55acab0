"""What each primitive becomes in loops: one file per family, merged here."""

from __future__ import annotations

from kiln.engines.native.building.builder import Lowering
from kiln.engines.native.lowerings.arrays import (
    generators,
    indexing,
    random_bits,
    shape,
    slicing,
    static_slicing,
)
from kiln.engines.native.lowerings.elements import conversion, elementwise, special
from kiln.engines.native.lowerings.linear import contraction, convolution, fft, linalg, linear_solve
from kiln.engines.native.lowerings.programs import (
    call,
    callback,
    control,
    custom_rules,
    generic_reduction,
    sharding,
)
from kiln.engines.native.lowerings.reductions import (
    cumulative,
    reduction,
    sorting,
    window,
    window_winners,
)
from kiln.ir.operation import Operation

LOWERINGS: dict[Operation, Lowering] = {
    **call.LOWERINGS,
    **callback.LOWERINGS,
    **contraction.LOWERINGS,
    **control.LOWERINGS,
    **conversion.LOWERINGS,
    **convolution.LOWERINGS,
    **cumulative.LOWERINGS,
    **custom_rules.LOWERINGS,
    **elementwise.LOWERINGS,
    **fft.LOWERINGS,
    **generators.LOWERINGS,
    **generic_reduction.LOWERINGS,
    **indexing.LOWERINGS,
    **linalg.LOWERINGS,
    **linear_solve.LOWERINGS,
    **random_bits.LOWERINGS,
    **reduction.LOWERINGS,
    **shape.LOWERINGS,
    **sharding.LOWERINGS,
    **slicing.LOWERINGS,
    **sorting.LOWERINGS,
    **special.LOWERINGS,
    **static_slicing.LOWERINGS,
    **window.LOWERINGS,
    **window_winners.LOWERINGS,
}
