"""Foreign functions: custom calls with typed attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.control.effects.foreign_call import ForeignCall, Layout, ffi_call_p
from kiln.core.foreign import Attribute, number_of
from kiln.core.primitive import Primitive
from kiln.engines.xla.runtime.foreign import make_known
from kiln.engines.xla.stablehlo import text
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value
from kiln.ir.types import ShapedArray

Out = Sequence[ShapedArray]


def _ffi_call(
    b: Builder, out: Out, *xs: Value, call: ForeignCall, has_side_effect: bool, **_: Any
) -> list[Value]:
    make_known(call.target)
    if call.api_version < 4:
        config = text.quoted(call.config or "")
    else:
        # The second name is the one in JAX's programs, which tools search for.
        written = _dictionary(call.attributes)
        config = f"{written}, mhlo.backend_config = {written}"
    several = len(out) > 1
    aliases = ", ".join(
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{result if several else ''}], "
        f"operand_index = {operand}, operand_tuple_indices = []>"
        for operand, result in call.aliases
    )
    attrs = (
        f"api_version = {call.api_version} : i32, "
        f"call_target_name = {text.quoted(call.target.name)}, "
        f"has_side_effect = {'true' if has_side_effect else 'false'}, backend_config = {config}, "
        f"operand_layouts = [{', '.join(map(_layout, call.in_layouts))}], "
        f"result_layouts = [{', '.join(map(_layout, call.out_layouts))}], "
        f"output_operand_aliases = [{aliases}]"
    )
    return b.op("stablehlo.custom_call", list(xs), list(out), attrs)


def _layout(order: Layout) -> str:
    return f"dense<{text.int_list(order) if order else ''}> : tensor<{len(order)}xindex>"


def _dictionary(attributes: Sequence[tuple[str, Attribute]]) -> str:
    return f"{{{', '.join(f'{text.quoted(name)} = {_written(a)}' for name, a in attributes)}}}"


def _written(attribute: Attribute) -> str:
    match attribute[0]:
        case "string":
            return text.quoted(attribute[1])
        case "dict":
            return _dictionary(attribute[1])
        case "list":
            return f"[{', '.join(map(_written, attribute[1]))}]"
    value = number_of(attribute)
    kind = text.element_type(value.dtype)
    if attribute[0] == "array":
        sizes = "".join(f"{size}x" for size in value.shape)
        return f"dense<{text.dense(value)}> : tensor<{sizes}{kind}>"
    number = text.scalar(value, value.dtype)
    return number if value.dtype == bool else f"{number} : {kind}"


LOWERINGS: dict[Primitive, Lowering] = {ffi_call_p: _ffi_call}
