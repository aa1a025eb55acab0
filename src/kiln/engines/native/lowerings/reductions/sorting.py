"""Sorting, and selecting the largest elements, by kernels."""

from __future__ import annotations

from kiln.engines.native.building.builder import Lowering
from kiln.engines.native.building.by_kernel import by_kernel
from kiln.ir.operation import Operation
from kiln.ops.reductions import sorting as ops

LOWERINGS: dict[Operation, Lowering] = {p: by_kernel(p) for p in (ops.sort_p, ops.top_k_p)}
