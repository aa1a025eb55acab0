"""What each primitive becomes in loops: one file per family, merged here."""

from __future__ import annotations

from kiln.engines.native.builder import Lowering
from kiln.engines.native.lowerings import (
    call,
    callback,
    control,
    conversion,
    custom_rules,
    elementwise,
    linear_solve,
    reduction,
    shape,
    static_slicing,
)
from kiln.ir.operation import Operation

LOWERINGS: dict[Operation, Lowering] = {
    **call.LOWERINGS,
    **callback.LOWERINGS,
    **control.LOWERINGS,
    **conversion.LOWERINGS,
    **custom_rules.LOWERINGS,
    **elementwise.LOWERINGS,
    **linear_solve.LOWERINGS,
    **reduction.LOWERINGS,
    **shape.LOWERINGS,
    **static_slicing.LOWERINGS,
}
