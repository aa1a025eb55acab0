"""The lowering of each primitive to StableHLO: one file per family, merged here.

An entry is `lower(b, out, *operands, **params)`; see the README one folder up.
"""

from __future__ import annotations

from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings.arrays import generators, indexing, random_bits, shape, slicing
from kiln.engines.xla.lowerings.elements import conversion, elementwise, identity, special
from kiln.engines.xla.lowerings.linear import contraction, convolution, fft, linalg, linear_solve
from kiln.engines.xla.lowerings.programs import (
    call,
    callback,
    checkpoint,
    collective,
    control,
    custom_rules,
    exported_call,
    foreign_call,
    platform,
    shard_map,
    sharding,
)
from kiln.engines.xla.lowerings.reductions import reduction, sorting, window
from kiln.engines.xla.stablehlo.builder import Lowering

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
