"""What each primitive becomes in StableHLO: one file per family, merged here.

An entry is `lower(b, out, *operands, **params)`; see the README one folder up.
"""

from __future__ import annotations

from kiln.core.primitive import Primitive
from kiln.engines.xla.builder import Lowering
from kiln.engines.xla.lowerings import (
    call,
    callback,
    checkpoint,
    collective,
    contraction,
    control,
    conversion,
    convolution,
    custom_rules,
    elementwise,
    exported_call,
    fft,
    foreign_call,
    generators,
    identity,
    indexing,
    linalg,
    linear_solve,
    platform,
    random_bits,
    reduction,
    shape,
    shard_map,
    sharding,
    slicing,
    sorting,
    special,
    window,
)

LOWERINGS: dict[Primitive, Lowering] = {
    **shape.LOWERINGS,
    **slicing.LOWERINGS,
    **indexing.LOWERINGS,
    **conversion.LOWERINGS,
    **elementwise.LOWERINGS,
    **special.LOWERINGS,
    **identity.LOWERINGS,
    **sharding.LOWERINGS,
    **shard_map.LOWERINGS,
    **collective.LOWERINGS,
    **call.LOWERINGS,
    **control.LOWERINGS,
    **linear_solve.LOWERINGS,
    **custom_rules.LOWERINGS,
    **checkpoint.LOWERINGS,
    **callback.LOWERINGS,
    **exported_call.LOWERINGS,
    **foreign_call.LOWERINGS,
    **platform.LOWERINGS,
    **contraction.LOWERINGS,
    **reduction.LOWERINGS,
    **sorting.LOWERINGS,
    **window.LOWERINGS,
    **convolution.LOWERINGS,
    **linalg.LOWERINGS,
    **fft.LOWERINGS,
    **random_bits.LOWERINGS,
    **generators.LOWERINGS,
}
