"""`ffi_call`: a call of a foreign function by XLA's typed FFI.

Only the function itself defines what it computes: it has no derivative but a custom one, and no
NumPy rule. Engines that cannot call it report it as unsupported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.control.effects.callback import AS_GIVEN, METHODS, ONE_BY_ONE, stacked
from kiln.control.loops.loops import map as sequential_map
from kiln.control.regions.region import merge, select_by
from kiln.core.foreign import Attribute, ForeignTarget
from kiln.core.primitive import Primitive
from kiln.ir.effects import IO, Effects
from kiln.ir.types import ShapedArray
from kiln.ops.shape import mapped_at, move_axis, to_front

Layout = tuple[int, ...]
"""The order of axes in memory, the fastest-varying first."""


class ForeignCall(NamedTuple):
    """How a function is called: its attributes, the layouts of arrays, and their aliasing.

    `aliases` are pairs of an operand and the result that reuses its memory. Before version 4 of the
    interface, `config` is the text that the function gets instead of attributes.
    """

    target: ForeignTarget
    attributes: tuple[tuple[str, Attribute], ...]
    in_layouts: tuple[Layout, ...]
    out_layouts: tuple[Layout, ...]
    aliases: tuple[tuple[int, int], ...] = ()
    api_version: int = 4
    config: str | None = None


class FfiCall(Primitive):
    """Call a foreign function on arrays, for results of declared types."""

    name = "ffi_call"
    multiple = True

    def infer(self, *xs: Any, result_avals: Any, **_: Any) -> list[ShapedArray]:
        return list(result_avals)

    def effects(self, params: dict[str, Any]) -> Effects:
        return frozenset({IO}) if params["has_side_effect"] else frozenset()

    def numpy(self, *xs: Any, call: ForeignCall, **_: Any) -> Any:
        raise NotImplementedError(
            three_lines(
                f"call of the foreign function {call.target} on the reference engine",
                "it is called by XLA alone",
                "choose another engine: KILN_ENGINE=xla, or none",
            )
        )

    def jvp(
        self, primals: Sequence[Any], tangents: Sequence[Any], *, call: ForeignCall, **_: Any
    ) -> NoReturn:
        raise ValueError(
            three_lines(
                f"derivative of the foreign function {call.target} at {current_source()}",
                f"The FFI call to `{call.target}` cannot be differentiated.",
                "You can use `custom_jvp` or `custom_vjp` to add support.",
            )
        )

    def batch(
        self,
        size: Any,
        xs: Sequence[Any],
        axes: Sequence[Any],
        /,
        *,
        call: ForeignCall,
        vmap_method: str | None,
        result_avals: tuple[ShapedArray, ...],
        has_side_effect: bool,
    ) -> Any:
        params: dict[str, Any] = {"vmap_method": vmap_method, "has_side_effect": has_side_effect}
        if vmap_method in ONE_BY_ONE:
            mapped = [axis is not None for axis in axes]
            moved = [x if a is None else move_axis(x, a, 0) for x, a in zip(xs, axes, strict=True)]

            def one(elements: Any) -> Any:
                merged = merge(mapped, elements, select_by(mapped, moved, False))
                return self.bind(*merged, call=call, result_avals=result_avals, **params)

            outs = sequential_map(one, select_by(mapped, moved))
            return outs, [0] * len(outs)
        if vmap_method not in METHODS:
            raise NotImplementedError(
                three_lines(
                    f"vmap of the foreign function {call.target} at {current_source()}",
                    "vmap is only supported for the ffi_call primitive when vmap_method is one of "
                    f"{', '.join(map(repr, METHODS))}. Got vmap_method={vmap_method}.",
                    "pass vmap_method='sequential', or 'broadcast_all' if the function takes "
                    "arrays with a leading axis",
                )
            )
        lead = size if vmap_method == "broadcast_all" else 1
        kept = [a is None and vmap_method == AS_GIVEN for a in axes]
        operands = [
            x if k else mapped_at(x, lead, None, 0) if a is None else to_front(x, a)
            for x, a, k in zip(xs, axes, kept, strict=True)
        ]
        over = call._replace(
            in_layouts=tuple(
                layout if k else _with_leading_axis(layout)
                for layout, k in zip(call.in_layouts, kept, strict=True)
            ),
            out_layouts=tuple(map(_with_leading_axis, call.out_layouts)),
        )
        outs = self.bind(*operands, call=over, result_avals=stacked(result_avals, size), **params)
        return outs, [0] * len(outs)


def _with_leading_axis(layout: Layout) -> Layout:
    return (*[axis + 1 for axis in layout], 0)


ffi_call_p = FfiCall()
