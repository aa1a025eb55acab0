"""The entry function of a program with named sizes: it finds the sizes, and calls the rest."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.engines.xla.builder import numbers
from kiln.engines.xla.sized_builder import SizedBuilder, size_name
from kiln.engines.xla.writer import PLATFORM, Module, Value, listed, type_of, types_of
from kiln.ir.size_solving import steps
from kiln.ir.types import ShapedArray

SIZED_MAIN = "for_all_sizes"
"""What functions are called whose first arguments are sizes."""


def sized_main(
    module: Module,
    callee: str,
    sizes: Sequence[str],
    avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    leading: Sequence[str],
    attributes: tuple[Sequence[str], Sequence[str]],
) -> str:
    """Return the function `main` that calls another with the sizes its arguments have.

    `leading` is the argument for the number of the platform, if there is one; `attributes` are
    those of arguments and results. All sizes follow from the types of the arguments.
    """
    b = SizedBuilder(module, numbers())
    args = [Value(f"%arg{i}", aval) for i, aval in enumerate(avals)]
    for step in steps([aval.shape for aval in avals]):
        arg = args[step.array]
        found = b.emit(
            f"stablehlo.get_dimension_size {arg}, dim = {step.axis} : "
            f"({type_of(arg.aval)}) -> tensor<i32>",
            b.size(0).aval,
        )
        found = b.apply("subtract", found, b.size(step.rest))
        found = b.apply("divide", found, b.size(step.factor))
        b.lines.append(f"    {size_name(step.name)} = stablehlo.convert {found} : tensor<i32>")
    number = [Value(PLATFORM, b.size(0).aval)] * len(leading)
    operands = [*number, *[Value(size_name(name), b.size(0).aval) for name in sizes], *args]
    kinds = ", ".join(map(type_of, out_avals))
    outs = b.emit(
        f"func.call @{callee}({listed(operands)}) : ({types_of(operands)}) -> ({kinds})",
        list(out_avals),
    )
    heads, tails = attributes
    head = [*leading, *[f"{x}: {type_of(x.aval)}{a}" for x, a in zip(args, heads, strict=True)]]
    results = [type_of(x.aval) + a for x, a in zip(outs, tails, strict=True)]
    end = f" {listed(outs)} : {types_of(outs)}" if outs else ""
    return "\n".join(
        [
            f"  func.func public @main({', '.join(head)}) -> ({', '.join(results)}) {{",
            *b.lines,
            f"    return{end}",
            "  }",
        ]
    )
