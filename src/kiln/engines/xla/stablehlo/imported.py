"""Stored programs as functions of the module under construction.

A portable artifact is parsed, specialized to the sizes and platform of the call, and its functions
are renamed to avoid collisions with those of the module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.errors import one_line, three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.control.exported_call import PortableProgram, number_of_platform
from kiln.engines.xla.stablehlo.mlir import bindings, from_artifact, refined
from kiln.engines.xla.stablehlo.writer import type_of
from kiln.ir.sizes.size import is_constant
from kiln.ir.types import ShapedArray

_MAIN = "main"


class Imported(NamedTuple):
    """The functions of a stored program as text; `symbol` is the one to call, with the kept inputs.

    `operands` and `results` are its types as text. With `numbers`, its first operand is the number
    of the platform: `numbers` has one for each platform of the module.
    """

    symbol: str
    functions: Sequence[str]
    operands: Sequence[str]
    results: Sequence[str]
    numbers: Sequence[int]


def imported(
    program: PortableProgram,
    types: Sequence[ShapedArray],
    results: Sequence[ShapedArray],
    prefix: str,
    platforms: Sequence[str],
) -> Imported:
    """Return a stored program for operands and results of given types, with prefixed symbols.

    Raises: ValueError for a module for other platforms, or an artifact that XLA cannot read.
    """
    numbers = [number_of_platform(program, platform) for platform in platforms]
    asked = f"call of the exported function {program.name} at {current_source()}"
    try:
        with bindings() as ir:
            module = from_artifact(program.stored)
            takes_number = len(program.platforms) > 1
            # If types have named sizes, these are determined when the calling program is compiled.
            is_known = all(is_constant(aval.shape) for aval in types) and len({*numbers}) == 1
            if program.is_refined and is_known:
                kept = [types[i] for i in program.kept]
                number = numbers[0] if takes_number else None
                module = _refined(ir, module, kept, results, number)
                takes_number = False
            found = _renamed(ir, module, prefix, numbers if takes_number else ())
            _check_counts(program, found)
            return found
    except Exception as error:  # noqa: BLE001, jaxlib raises what it likes for other modules
        wrong = f"its StableHLO cannot be used: {one_line(error)}"
        raise ValueError(three_lines(asked, wrong, "export it again")) from None


def _check_counts(program: PortableProgram, found: Imported) -> None:
    """Check that a module has the arguments and results that its container specifies."""
    takes = len(found.operands) - bool(found.numbers)
    if (takes, len(found.results)) != (len(program.kept), len(program.out_avals)):
        raise ValueError(
            f"it takes {takes} arrays and returns {len(found.results)}, but should take "
            f"{len(program.kept)} and return {len(program.out_avals)}"
        )


def for_types(
    stored: bytes, types: Sequence[ShapedArray], results: Sequence[ShapedArray], number: int | None
) -> None:
    """Check that an artifact can be compiled for operands of given types.

    Raises: jaxlib's error if it cannot.
    """
    with bindings() as ir:
        _refined(ir, from_artifact(stored), types, results, number)


def static_module(
    ir: Any,
    stored: bytes,
    types: Sequence[ShapedArray],
    results: Sequence[ShapedArray],
    number: int | None,
    is_refined: bool,
) -> Any:
    """Return the module of an artifact for operands of given types; call it inside `bindings()`.

    `number` is the number of the platform, if the module takes one. With named sizes, the module
    computes them, and takes the number.
    """
    module = from_artifact(stored)
    is_known = all(is_constant(aval.shape) for aval in (*types, *results))
    if not is_known or (not is_refined and number is None):
        return module
    return _refined(ir, module, types, results, number)


def _refined(
    ir: Any,
    module: Any,
    types: Sequence[ShapedArray],
    results: Sequence[ShapedArray],
    number: int | None,
) -> Any:
    """Return a module whose main function takes and returns only arrays of these types.

    `number` is the number of the platform, if the module takes one.
    """
    symbols = ir.SymbolTable(module.operation)
    main = symbols[_MAIN]
    wanted, outs = [str(t) for t in main.type.inputs], [str(t) for t in main.type.results]
    _hide(ir, module, symbols, main, "written_main")
    lines, operands = [], []
    if number is not None:
        kind = wanted.pop(0)
        lines.append(f"%number = stablehlo.constant dense<{number}> : {kind}")
        operands.append(("%number", kind))
    given = [type_of(aval) for aval in types]
    for i, (have, want) in enumerate(zip(given, wanted, strict=True)):
        operands.append((_converted(lines, f"%arg{i}", have, want), want))
    found = [f"%out#{i}" if len(outs) > 1 else "%out" for i in range(len(outs))]
    bound = "" if not outs else f"%out:{len(outs)} = " if len(outs) > 1 else "%out = "
    lines.append(
        f"{bound}func.call @written_main({', '.join(n for n, _ in operands)}) : "
        f"({', '.join(t for _, t in operands)}) -> ({', '.join(outs)})"
    )
    returned = [type_of(aval) for aval in results]
    ends = [_converted(lines, *each) for each in zip(found, outs, returned, strict=True)]
    types_text = ", ".join(returned)
    lines.append(f"return {', '.join(ends)} : {types_text}" if outs else "return")
    heads = ", ".join(f"%arg{i}: {kind}" for i, kind in enumerate(given))
    written = "\n".join([f"func.func public @{_MAIN}({heads}) -> ({types_text}) {{", *lines, "}"])
    text = module.operation.get_asm(enable_debug_info=False)
    start = text.rindex("\n}")
    return refined(ir.Module.parse(f"{text[:start]}\n{written}{text[start:]}"))


def _converted(lines: list[str], name: str, have: str, want: str) -> str:
    """Convert a value between two types of the same array, and return its name."""
    if have == want:
        return name
    made = f"%to_{len(lines)}"
    lines.append(f"{made} = stablehlo.convert {name} : ({have}) -> {want}")
    return made


def _hide(ir: Any, module: Any, symbols: Any, function: Any, name: str) -> None:
    """Make a function private, under another name."""
    symbols.replace_all_symbol_uses(_MAIN, name, module.operation)
    symbols.set_symbol_name(function, name)
    function.attributes["sym_visibility"] = ir.StringAttr.get("private")


def _renamed(ir: Any, module: Any, prefix: str, numbers: Sequence[int]) -> Imported:
    symbols = ir.SymbolTable(module.operation)
    main = symbols[_MAIN].type
    operations = list(module.body.operations)
    for operation in operations:
        name = ir.StringAttr(operation.attributes["sym_name"]).value
        symbols.replace_all_symbol_uses(name, prefix + name, module.operation)
        symbols.set_symbol_name(operation, prefix + name)
        if operation.operation.name == "func.func":
            operation.attributes["sym_visibility"] = ir.StringAttr.get("private")
            _forget_memory(ir, operation)
    return Imported(
        prefix + _MAIN,
        [o.operation.get_asm(use_local_scope=True, enable_debug_info=False) for o in operations],
        [str(kind) for kind in main.inputs],
        [str(kind) for kind in main.results],
        numbers,
    )


def _forget_memory(ir: Any, function: Any) -> None:
    """Drop a function's attributes about donation: the calling program decides it."""
    if "arg_attrs" not in function.attributes:
        return
    kept = [
        ir.DictAttr.get({a.name: a.attr for a in each if a.name.startswith("sdy.")})
        for each in (ir.DictAttr(each) for each in function.arg_attrs)
    ]
    function.arg_attrs = ir.ArrayAttr.get(kept)
