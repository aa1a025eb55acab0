"""The estimate of a program's memory."""

from __future__ import annotations

import numpy as np

from kiln.control.call import jit_p
from kiln.core.staging import stage_pure
from kiln.ir.analysis.footprint import BASE_BYTES, EQUATION_BYTES, footprint
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import mul, sin

F = ShapedArray((3,), np.dtype(np.float32))


def test_equations_count_inside_regions_too() -> None:
    inner = stage_pure(lambda x: [mul(sin(x), x)], [F])
    outer = stage_pure(lambda x: jit_p.bind(sin(x), jaxpr=inner, name="inner"), [F])
    assert footprint(inner) == BASE_BYTES + 2 * EQUATION_BYTES
    assert footprint(outer) == BASE_BYTES + 2 * EQUATION_BYTES + footprint(inner)
