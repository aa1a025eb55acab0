"""The entry function of a program with named sizes: it computes the sizes, and calls the rest."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.engines.xla.stablehlo import text
from kiln.engines.xla.stablehlo.builder import numbers
from kiln.engines.xla.stablehlo.sized_builder import SizedBuilder, size_name
from kiln.engines.xla.stablehlo.writer import PLATFORM, Module, Value, listed, type_of, types_of
from kiln.ir.sizes.facts import Facts, facts_of
from kiln.ir.sizes.solving import steps
from kiln.ir.types import ShapedArray

SIZED_MAIN = "for_all_sizes"
"""The name of functions whose first arguments are sizes."""


def sized_main(
    module: Module,
    callee: str,
    sizes: Sequence[str],
    avals: Sequence[ShapedArray],
    out_avals: Sequence[ShapedArray],
    leading: Sequence[str],
    attributes: tuple[Sequence[str], Sequence[str]],
) -> str:
    """Return the function `main` that calls another with the sizes of its arguments.

    `leading` is the argument for the number of the platform, if there is one; `attributes` are
    those of arguments and results. All sizes follow from the types of the arguments; constraints
    are checked when the module is compiled for given sizes.
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
    _assert_facts(b, facts_of(*[dim for aval in avals for dim in aval.shape]))
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


def _assert_facts(b: SizedBuilder, facts: Facts | None) -> None:
    """Emit assertions, in JAX's format, which XLA checks when it refines a module."""
    for fact in facts.facts if facts is not None else ():
        difference, relation = b.size(fact.difference), "EQ" if fact.is_equality else "GE"
        holds = b.emit(
            f"stablehlo.compare {relation}, {difference}, {b.size(0)}, SIGNED : "
            "(tensor<i32>, tensor<i32>) -> tensor<i1>",
            ShapedArray((), bool),
        )
        message = text.quoted(
            f"Input shapes do not match the symbolic shape constraint {fact.text}: "
            f"{fact.difference} is {{0}}"
        )
        b.lines.append(
            f"    stablehlo.custom_call @shape_assertion({holds}, {difference}) "
            f"{{api_version = 2 : i32, error_message = {message}, has_side_effect = true}} : "
            "(tensor<i1>, tensor<i32>) -> ()"
        )
