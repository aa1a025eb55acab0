"""What each primitive becomes in loops: one file per family, merged here."""

from __future__ import annotations

from kiln.engines.native.builder import Lowering
from kiln.engines.native.lowerings import (
    call,
    callback,
    contraction,
    control,
    conversion,
    convolution,
    cumulative,
    custom_rules,
    elementwise,
    fft,
    generators,
    generic_reduction,
    indexing,
    linalg,
    linear_solve,
    random_bits,
    reduction,
    shape,
    sharding,
    slicing,
    sorting,
    special,
    static_slicing,
    window,
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
}
