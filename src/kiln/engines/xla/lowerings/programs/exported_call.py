"""Stored programs: their functions are added to the module, and called."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.exported_call import PortableProgram, call_exported_p
from kiln.core.primitive import Primitive
from kiln.engines.xla.lowerings.programs.platform import number_of_platform
from kiln.engines.xla.stablehlo.builder import Builder, Lowering, Value, type_of
from kiln.ir.shardings.sharding import NamedSharding
from kiln.ir.types import ShapedArray

Out = Sequence[ShapedArray]


def _call_exported(b: Builder, out: Out, *xs: Value, program: PortableProgram) -> list[Value]:
    count = b.module.partition.count
    if program.nr_devices not in (1, count):
        raise ValueError(
            three_lines(
                f"call of the exported function {program.name} at {current_source()}",
                f"Function {program.name} was exported for {program.nr_devices} devices and is "
                f"called in a context with {count} devices",
                "put its arguments on a mesh of that many devices: kiln.device_put(x, sharding)",
            )
        )
    # The large constants that may follow are in the stored program.
    xs = xs[: len(program.in_avals)]
    made = b.module.imported(program, [x.aval for x in xs], out)
    operands = _placed(b, xs, program.in_shardings)
    wanted = list(made.operands)
    given: list[str] = []
    if made.numbers:
        given.append(str(number_of_platform(b, made.numbers, wanted[0])))
    for i, want in zip(program.kept, wanted[len(given) :], strict=True):
        given.append(str(_as_type(b, operands[i], type_of(operands[i].aval), want)))
    found = b.emit(
        f"func.call @{made.symbol}({', '.join(given)}) : ({', '.join(wanted)}) -> "
        f"({', '.join(made.results)})",
        list(out),
    )
    outs = [
        _as_type(b, x, have, type_of(x.aval)) for x, have in zip(found, made.results, strict=True)
    ]
    return _placed(b, outs, program.out_shardings)


def _as_type(b: Builder, x: Value, have: str, want: str) -> Value:
    """Convert a value between two types of the same array: sizes may be static in one of them."""
    if have == want:
        return x
    return b.emit(f"stablehlo.convert {x} : ({have}) -> {want}", x.aval)


def _placed(
    b: Builder, xs: Sequence[Value], shardings: Sequence[NamedSharding | None]
) -> list[Value]:
    """Constrain values to the shardings of the stored program, over the devices of this one."""
    partition = b.module.partition
    if partition.placement is None or not any(shardings):
        return list(xs)
    placed = []
    for x, sharding in zip(xs, shardings, strict=True):
        if sharding is not None and sharding.mesh.axis_names:
            body = partition.body(partition.over_devices(sharding), x.ndim)
            x = b.emit(f"sdy.sharding_constraint {x} {body} : {type_of(x.aval)}", x.aval)
        placed.append(x)
    return placed


LOWERINGS: dict[Primitive, Lowering] = {call_exported_p: _call_exported}
