"""The number of the platform: a constant, except in programs that are stored for several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kiln.core.primitive import Primitive
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value, type_of
from kiln.engines.xla.stablehlo.writer import PLATFORM
from kiln.ir.types import ShapedArray
from kiln.ops.platform import platform_index_p

_NUMBER = ShapedArray((), np.dtype(np.int32))


def number_of_platform(b: Builder, numbers: Sequence[int], kind: str) -> Value:
    """Return the number for the program's platform, as a scalar of an integer type.

    `numbers` has one for each platform of the module.
    """

    def constant(inner: Builder, number: int) -> Value:
        return inner.emit(f"stablehlo.constant dense<{number}> : {kind}", _NUMBER)

    if len({*numbers}) == 1:
        return constant(b, numbers[0])
    regions = [b.region([], lambda inner, n=n: [constant(inner, n)]) for n in numbers]
    return b.emit(
        f'"stablehlo.case"({PLATFORM}) ({", ".join(regions)}) : (tensor<i32>) -> {kind}', _NUMBER
    )


def _platform_index(b: Builder, out: Sequence[ShapedArray], *, platforms: tuple[str, ...]) -> Value:
    numbers = [platforms.index(platform) for platform in b.module.platforms]
    return number_of_platform(b, numbers, type_of(out[0]))


LOWERINGS: dict[Primitive, Lowering] = {platform_index_p: _platform_index}
