"""Calls to Python functions: custom calls, in program order if requested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.control.effects import callback as control
from kiln.core.primitive import Primitive
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.types import ShapedArray

Out = Sequence[ShapedArray]


def _debug_callback(
    b: Builder, out: Out, *xs: Value, callback: Any, ordered: bool, partitioned: bool
) -> Sequence[Value]:
    def effect(*arrays: Any) -> list[Any]:
        callback(*arrays)
        return []

    return b.callback(effect, xs, out, ordered=ordered, partitioned=partitioned)


def _pure_callback(b: Builder, out: Out, *xs: Value, callback: Any, **_: Any) -> Sequence[Value]:
    return b.callback(callback, xs, out, pure=True)


def _io_callback(
    b: Builder, out: Out, *xs: Value, callback: Any, ordered: bool, **_: Any
) -> Sequence[Value]:
    return b.callback(callback, xs, out, ordered=ordered)


LOWERINGS: dict[Primitive, Lowering] = {
    control.debug_callback_p: _debug_callback,
    control.pure_callback_p: _pure_callback,
    control.io_callback_p: _io_callback,
}
