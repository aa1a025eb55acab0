"""Sharding constraints: there is only one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.element_types import Unsupported
from kiln.engines.native.loop_ir.layout import Layout
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops.sharding import reshard_p, sharding_constraint_p


def _sharding_constraint(
    b: Builder, out: Sequence[ShapedArray], x: Layout, *, sharding: Any
) -> Layout:
    if sharding.num_devices != 1:
        raise Unsupported("the native engine compiles for one device")
    return x


LOWERINGS: dict[Operation, Lowering] = {
    sharding_constraint_p: _sharding_constraint,
    reshard_p: _sharding_constraint,
}
