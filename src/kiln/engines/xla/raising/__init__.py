"""What each StableHLO operation is among kiln's primitives: one file per family, merged here.

An entry is `raise_(r, operation, *operands)`; see the README of this folder.
"""

from __future__ import annotations

from kiln.engines.xla.raising import (
    control,
    conversion,
    custom_calls,
    elementwise,
    generators,
    indexing,
    linear,
    reduction,
    shape,
    sizes,
    sorting,
    window,
)
from kiln.engines.xla.raising.raiser import Raising

OF_SIZES: dict[str, Raising] = sizes.RAISINGS
"""Operations in modules whose sizes are computed: on sizes, and of arrays with such sizes."""

RAISINGS: dict[str, Raising] = {
    **elementwise.RAISINGS,
    **conversion.RAISINGS,
    **shape.RAISINGS,
    **indexing.RAISINGS,
    **reduction.RAISINGS,
    **window.RAISINGS,
    **sorting.RAISINGS,
    **linear.RAISINGS,
    **generators.RAISINGS,
    **control.RAISINGS,
    **custom_calls.RAISINGS,
}
