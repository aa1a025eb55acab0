"""The functions that C calls, as LLVM IR: they fill the context of a call and run a program.

A context is a `Context` of `_runtime/library/context.h`, of which this file reads and writes the
first words by number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kiln.base.records import Record
from kiln.core.engines.linking import LinkedFunction, Parameter
from kiln.engines.native.library.constants import HEADER
from kiln.engines.native.library.size_code import Lines, SizeCode
from kiln.engines.native.loop_ir.extents import Grain
from kiln.ir.sizes.facts import facts_of
from kiln.ir.sizes.size import Dim

_OPERANDS, _RESULTS, _SIZES, _WORKSPACE, _WORKSPACE_BYTES, _CONSTANTS = 0, 1, 2, 3, 7, 8
"""The numbers of words in a context."""
_NO_CONTEXT, _BAD_SIZE, _SMALL_WORKSPACE, _NO_CONSTANTS = 3, 4, 5, 9
"""`LibraryStatus`."""
LARGEST_SIZE = (1 << 31) - 1
"""Of a named axis: products of two sizes do not overflow."""
_LINE = 64
RUN = "kiln_library_run"
PREPARE = "kiln_fft_prepare"


class Entry(Record):
    """The code of a program: its symbol, and what its call must supply.

    `blocks` are the symbols of embedded operands by number, `places` their places in the file of
    constants, if there is one. Results are pairs of a result and an
    operand: `shared` ones are copies of it, `taken` ones may overwrite it. `scratch` are bytes for
    its kernels, None if they take none, besides those of its Fourier transforms, which are given by
    their numbers.
    """

    symbol: str
    operands: int
    blocks: Mapping[int, str]
    places: Mapping[int, int]
    result_bytes: tuple[Dim, ...]
    shared: Mapping[int, int]
    taken: Mapping[int, int]
    workspace: Dim
    numbers: tuple[Dim | Grain, ...]
    scratch: Dim | None
    transforms: tuple[tuple[Dim, ...], ...]


def needed_workspace(function: LinkedFunction, entry: Entry) -> Dim:
    """Return the bytes of workspace of a call: temporaries, results that it moves, scratch memory.

    Fourier transforms need more, which the runtime computes.
    """
    held = _held(function, entry)
    return held if entry.scratch is None else _rounded(held) + entry.scratch


def _held(function: LinkedFunction, entry: Entry) -> Dim:
    """Return the bytes of workspace without scratch memory."""
    total = entry.workspace
    for result in _moved(function, entry):
        total = _rounded(total) + entry.result_bytes[result]
    return total


def wrappers_text(
    prefix: str,
    functions: Sequence[LinkedFunction],
    entries: Sequence[Entry],
    *,
    threads: bool,
    file: bytes | None,
    allocates: bool = False,
) -> str:
    """Return the module that defines a library's public functions, with a file of constants.

    If it `allocates`, they include those for memory of the caller's arrays.
    """
    defined: list[str] = []
    declared = {
        "declare hidden ptr @kiln_library_create(i64)",
        "declare hidden void @kiln_library_destroy(ptr)",
        "declare hidden ptr @kiln_library_error(i32)",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        "declare i64 @llvm.smax.i64(i64, i64)",
    }
    for function, entry in zip(functions, entries, strict=True):
        defined.append(_call_text(function, entry, is_mapped=file is not None))
        defined.append(_workspace_text(function.symbol, [(function, entry)]))
        if entry.transforms:
            declared.add(f"declare hidden i64 @{PREPARE}(ptr)")
        declared.add(f"declare hidden i32 @{entry.symbol}(ptr)")
        if file is None:
            declared |= {f"@{name} = external hidden constant i8" for name in entry.blocks.values()}
        if entry.scratch is not None:
            declared.add(f"declare hidden i32 @{RUN}(ptr, ptr, i64)")
    if [f.symbol for f in functions] != [prefix]:
        defined.append(_workspace_text(prefix, list(zip(functions, entries, strict=True))))
    defined += [
        _forwarded("ptr", f"{prefix}_create", "i64"),
        _forwarded("void", f"{prefix}_destroy", "ptr"),
        _forwarded("ptr", f"{prefix}_error", "i32"),
    ]
    if allocates:
        declared.add("declare hidden ptr @kiln_library_allocate(i64)")
        declared.add("declare hidden void @kiln_library_free(ptr)")
        defined.append(_forwarded("ptr", f"{prefix}_allocate", "i64"))
        defined.append(_forwarded("void", f"{prefix}_free", "ptr"))
    if threads:
        given = f"ptr %context, i32 %threads, i64 {_scratch_of_threads(entries)}"
        declared.add("declare hidden i32 @kiln_library_set_threads(ptr, i32, i64)")
        defined.append(
            f"define i32 @{prefix}_set_threads(ptr %context, i32 %threads) #0 {{\n"
            f"  %status = call i32 @kiln_library_set_threads({given})\n"
            "  ret i32 %status\n}"
        )
    if file is not None:
        kind = "ptr, ptr, ptr, i64"
        declared.add(f"declare hidden i32 @kiln_library_map_constants({kind})")
        header = "".join(f"\\{byte:02x}" for byte in file[:HEADER])
        declared.add(f'@constants_header = private constant [{HEADER} x i8] c"{header}"')
        given = f"ptr %context, ptr %path, ptr @constants_header, i64 {len(file)}"
        defined.append(
            f"define i32 @{prefix}_map_constants(ptr %context, ptr %path) #0 {{\n"
            f"  %status = call i32 @kiln_library_map_constants({given})\n  ret i32 %status\n}}"
        )
    rest = ["attributes #0 = { nounwind }", '!0 = !{!"branch_weights", i32 1, i32 4000}']
    return "\n".join([*sorted(declared), *defined, *rest]) + "\n"


def _forwarded(kind: str, symbol: str, argument: str) -> str:
    """Return a function that a function of the runtime computes."""
    call = f"call {kind} @kiln_library_{symbol.rpartition('_')[2]}({argument} %x)"
    body = f"  {call}\n  ret void" if kind == "void" else f"  %made = {call}\n  ret {kind} %made"
    return f"define {kind} @{symbol}({argument} %x) #0 {{\n{body}\n}}"


def public_symbols(
    prefix: str,
    functions: Sequence[LinkedFunction],
    *,
    threads: bool,
    has_file: bool,
    allocates: bool = False,
) -> list[str]:
    """Return the names that a library defines for its users."""
    names = [f"{prefix}_allocate", f"{prefix}_free"] * allocates
    names += [f"{prefix}_set_threads"] * threads + [f"{prefix}_map_constants"] * has_file
    names += [f"{prefix}_{end}" for end in ("create", "destroy", "error", "workspace_size")]
    for function in functions:
        names += [function.symbol, f"{function.symbol}_workspace_size"]
    return sorted({*names})


def _rounded(size: Dim) -> Dim:
    return (size + (_LINE - 1)) // _LINE * _LINE


def _moved(function: LinkedFunction, entry: Entry) -> list[int]:
    """Return the results that take the memory of an operand, but are not safe to write there."""
    leaves = [leaf for parameter in function.parameters for leaf in parameter.leaves]
    return [
        leaf.result
        for leaf in leaves
        if leaf.operand is not None
        and leaf.result is not None
        and entry.taken.get(leaf.result) != leaf.operand
        and entry.shared.get(leaf.result) != leaf.operand
    ]


def _registers(sizes: Sequence[str]) -> dict[str, str]:
    return {name: f"%size{i}" for i, name in enumerate(sizes)}


def _scratch_of_threads(entries: Sequence[Entry]) -> int:
    """Return the bytes of scratch memory of each thread; -1 if they depend on sizes."""
    found = [entry.scratch for entry in entries if entry.scratch is not None]
    known = [size for size in found if isinstance(size, int)]
    is_known = len(known) == len(found) and not any(entry.transforms for entry in entries)
    return max(known, default=0) if is_known else -1


def _workspace_text(prefix: str, needed: Sequence[tuple[LinkedFunction, Entry]]) -> str:
    """Return the function that computes the bytes of workspace that some functions need.

    It is where tables of Fourier transforms are made: calls do not know their sizes before.
    """
    names = sorted({name for function, _ in needed for name in function.program.sizes})
    registers, lines = _registers(names), Lines()
    code = SizeCode(lines, registers)
    largest = "0"
    for function, entry in needed:
        value = code.value(needed_workspace(function, entry))
        largest = lines.emit(f"call i64 @llvm.smax.i64(i64 {largest}, i64 {value})")
        for numbers in entry.transforms:
            array = _array(lines, "i64", [code.value(number) for number in numbers])
            scratch = lines.emit(f"call i64 @{PREPARE}(ptr {array})")
            held = code.value(_rounded(_held(function, entry)))
            value = lines.emit(f"add i64 {held}, {scratch}")
            largest = lines.emit(f"call i64 @llvm.smax.i64(i64 {largest}, i64 {value})")
    lines.do(f"ret i64 {largest}")
    given = ", ".join(f"i64 {register}" for register in registers.values())
    body = "\n".join(lines.lines)
    return f"define i64 @{prefix}_workspace_size({given}) #0 {{\n{body}\n}}"


def _call_text(function: LinkedFunction, entry: Entry, *, is_mapped: bool) -> str:
    lines = Lines()
    needed = needed_workspace(function, entry)
    registers = _registers(function.program.sizes)
    code = SizeCode(lines, registers)
    lines.when(lines.emit("icmp eq ptr %context, null"), _NO_CONTEXT)
    _check_sizes(function, lines, code, registers)
    if needed != 0:
        room = lines.emit(f"load i64, ptr {_word(lines, _WORKSPACE_BYTES)}, align 8")
        lines.when(lines.emit(f"icmp slt i64 {room}, {code.value(needed)}"), _SMALL_WORKSPACE)
    operands, results = _addresses(function, entry, lines, is_mapped=is_mapped)
    moves: list[tuple[str, str, str]] = []
    offset: Dim = entry.workspace
    for result in _moved(function, entry):
        offset = _rounded(offset)
        base = lines.emit(f"load ptr, ptr {_word(lines, _WORKSPACE)}, align 8")
        place = lines.emit(f"getelementptr i8, ptr {base}, i64 {code.value(offset)}")
        moves.append((results[result], place, code.value(entry.result_bytes[result])))
        results[result] = place
        offset = offset + entry.result_bytes[result]
    for result, operand in entry.shared.items():
        if results[result] != operands[operand]:
            size = code.value(entry.result_bytes[result])
            _copy(lines, results[result], operands[operand], size)
    _fill(lines, _OPERANDS, "ptr", operands)
    _fill(lines, _RESULTS, "ptr", results)
    _fill(lines, _SIZES, "i64", [code.value(number) for number in entry.numbers])
    if entry.scratch is not None:
        held = code.value(_rounded(_held(function, entry)))
        status = lines.emit(f"call i32 @{RUN}(ptr %context, ptr @{entry.symbol}, i64 {held})")
    else:
        status = lines.emit(f"call i32 @{entry.symbol}(ptr %context)")
    for to, place, size in moves:
        _copy(lines, to, place, size)
    lines.do(f"ret i32 {status}")
    given = ["ptr %context", *[f"i64 {register}" for register in registers.values()]]
    given += [f"ptr %p{i}" for i in range(len(function.parameters))]
    body = "\n".join(lines.lines)
    return f"define i32 @{function.symbol}({', '.join(given)}) #0 {{\n{body}\n}}"


def _check_sizes(
    function: LinkedFunction, lines: Lines, code: SizeCode, registers: Mapping[str, str]
) -> None:
    for register in registers.values():
        less = lines.emit(f"icmp slt i64 {register}, 1")
        more = lines.emit(f"icmp sgt i64 {register}, {LARGEST_SIZE}")
        lines.when(lines.emit(f"or i1 {less}, {more}"), _BAD_SIZE)
    dims = [n for v in function.program.jaxpr.invars for n in v.aval.shape]
    facts = facts_of(*dims)
    for fact in () if facts is None else facts.facts:
        found = code.value(fact.difference)
        test = "ne" if fact.is_equality else "slt"
        lines.when(lines.emit(f"icmp {test} i64 {found}, 0"), _BAD_SIZE)


def _addresses(
    function: LinkedFunction, entry: Entry, lines: Lines, *, is_mapped: bool
) -> tuple[list[str], list[str]]:
    """Return the addresses of operands and of results; null for those that are not used."""
    operands, results = ["null"] * entry.operands, ["null"] * len(entry.result_bytes)
    if is_mapped and entry.places:
        base = lines.emit(f"load ptr, ptr {_word(lines, _CONSTANTS)}, align 8")
        lines.when(lines.emit(f"icmp eq ptr {base}, null"), _NO_CONSTANTS)
        for number, place in entry.places.items():
            operands[number] = lines.emit(f"getelementptr i8, ptr {base}, i64 {place}")
    else:
        for number, block in entry.blocks.items():
            operands[number] = f"@{block}"
    for i, parameter in enumerate(function.parameters):
        for leaf, address in zip(parameter.leaves, _leaves(parameter, i, lines), strict=True):
            if leaf.operand is not None:
                operands[leaf.operand] = address
            if leaf.result is not None:
                results[leaf.result] = address
    return operands, results


def _leaves(parameter: Parameter, number: int, lines: Lines) -> list[str]:
    if not parameter.is_struct:
        return [f"%p{number}"]
    found = []
    for i, leaf in enumerate(parameter.leaves):
        if leaf.operand is None and leaf.result is None:
            found.append("null")
            continue
        place = lines.emit(f"getelementptr ptr, ptr %p{number}, i64 {i}")
        found.append(lines.emit(f"load ptr, ptr {place}, align 8"))
    return found


def _word(lines: Lines, number: int) -> str:
    return lines.emit(f"getelementptr i64, ptr %context, i64 {number}")


def _copy(lines: Lines, to: str, place: str, size: str) -> None:
    lines.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {place}, i64 {size}, i1 false)")


def _fill(lines: Lines, word: int, kind: str, values: Sequence[str]) -> None:
    """Store values in an array on the stack, whose address is a word of the context."""
    if not values:
        return
    array = _array(lines, kind, values)
    lines.do(f"store ptr {array}, ptr {_word(lines, word)}, align 8")


def _array(lines: Lines, kind: str, values: Sequence[str]) -> str:
    """Return the address of an array on the stack that holds values."""
    array = lines.emit(f"alloca [{len(values)} x {kind}], align 8")
    for i, value in enumerate(values):
        place = lines.emit(f"getelementptr {kind}, ptr {array}, i64 {i}")
        lines.do(f"store {kind} {value}, ptr {place}, align 8")
    return array
