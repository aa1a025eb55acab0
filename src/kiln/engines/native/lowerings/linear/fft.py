"""Fourier transforms by a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.by_kernel import kernel_results
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.lowerings.elements.conversion import convert
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops.linear import fft as ops


def _fft(b: Builder, out: Sequence[ShapedArray], x: Layout, **params: Any) -> Layout:
    if not params["fft_lengths"]:
        return b.map(out[0], lambda v: convert(v, out[0].dtype), x)
    found = kernel_results(b, ops.fft_p, out, [x], params, shares=True)
    if found is not None:
        return found[0]
    made = b.room(out[0])
    b.fill(made, 0)
    return made


LOWERINGS: dict[Operation, Lowering] = {ops.fft_p: _fft}
