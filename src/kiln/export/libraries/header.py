"""The header of a library, for C11 and C++17."""

from __future__ import annotations

from kiln.export.libraries.c_types import COMPLEX, size_text
from kiln.export.libraries.checks import checks_text, declared_argument, declared_array
from kiln.export.libraries.signature import Argument, Array, Signature, Struct, arrays_in

ABI_VERSION = 1
"""Incremented when libraries are called in another way."""
ERRORS = {
    "OK": 0,
    "ERROR_OUT_OF_MEMORY": 1,
    "ERROR_UNSUPPORTED": 2,
    "ERROR_NULL_CONTEXT": 3,
    "ERROR_SIZE": 4,
    "ERROR_WORKSPACE": 5,
    "ERROR_NULL_POINTER": 6,
    "ERROR_MISALIGNED": 7,
    "ERROR_OVERLAP": 8,
    "ERROR_CONSTANTS": 9,
}
"""The statuses of calls: those of `_runtime/library/context.h`."""

_THREADS = """\
/* Give a context this many threads, the calling one included: for calls from now on. Results have
 * the same bits. */
int {p}_set_threads({p}_context *context, int threads);
"""
_CONSTANTS = """\
/* Map the file {p}.constants, which calls read: once for each context. */
int {p}_map_constants({p}_context *context, const char *path);
"""


def header_text(
    prefix: str, signatures: list[Signature], version: str, *, threads: bool, has_file: bool
) -> str:
    """Return the header."""
    upper = prefix.upper()
    sizes = sorted({name for signature in signatures for name in signature.sizes})
    errors = [f"  {upper}_{name} = {number}" for name, number in ERRORS.items()]
    kinds = {a.dtype for s in signatures for arg in s.arguments for a in arrays_in(arg.value)}
    numbers = [
        f"typedef struct {prefix}_{name} {{\n  {COMPLEX[name]} real, imag;\n}} {prefix}_{name};\n"
        for name in sorted(kinds & COMPLEX.keys())
    ]
    structs = [
        _struct_text(argument)
        for signature in signatures
        for argument in signature.arguments
        if argument.type_name
    ]
    functions = [_function_text(prefix, signature) for signature in signatures]
    parts = [
        f"/* Written by kiln {version}. Link with lib{prefix}.a and libm, or dynamically. */",
        f"#ifndef {upper}_H\n#define {upper}_H\n",
        "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n",
        f"#define {upper}_ABI_VERSION {ABI_VERSION}\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n',
        "/* What a call returns. */\nenum {\n" + ",\n".join(errors) + "\n};\n",
        f"/* The text of a status. */\nconst char *{prefix}_error(int status);\n",
        "/* What calls need besides their arguments. Threads use one each at a time. */",
        f"typedef struct {prefix}_context {prefix}_context;\n",
        f"{_needed(upper)}\nint64_t {prefix}_workspace_size({_sizes(sizes)});\n",
        "/* A context for calls that need no more workspace; NULL if memory runs out. */",
        f"{prefix}_context *{prefix}_create(int64_t workspace_bytes);",
        f"void {prefix}_destroy({prefix}_context *context);\n",
        *[_THREADS.format(p=prefix)] * threads,
        *[_CONSTANTS.format(p=prefix)] * has_file,
        *numbers,
        *structs,
        *functions,
        checks_text(prefix, signatures),
        "#ifdef __cplusplus\n}\n#endif\n\n#endif",
    ]
    return "\n".join(parts) + "\n"


def _needed(upper: str) -> str:
    return f"/* Bytes of workspace for any call with these sizes. Debug builds: {upper}_DEBUG. */"


def _sizes(sizes: list[str]) -> str:
    return ", ".join(f"int64_t {name}" for name in sizes) or "void"


def _struct_text(argument: Argument) -> str:
    assert isinstance(argument.value, Struct)
    body = "\n".join(_fields(argument.value, "  "))
    return f"typedef struct {argument.type_name} {{\n{body}\n}} {argument.type_name};\n"


def _fields(struct: Struct, indent: str) -> list[str]:
    lines = []
    for field in struct.fields:
        if isinstance(field, Struct):
            lines += [f"{indent}struct {{", *_fields(field, indent + "  ")]
            lines.append(f"{indent}}} {field.name};")
        else:
            lines.append(f"{indent}{declared_array(field)}; /* {_described(field)} */")
    return lines


def _described(array: Array) -> str:
    shape = ", ".join(size_text(size) for size in array.shape)
    how = "replaced by the result" if array.is_written and array.leaf.operand is not None else ""
    unused = "not used" if array.leaf.operand is None and array.leaf.result is None else ""
    return "; ".join(filter(None, [f"{array.dtype}[{shape}]", how, unused]))


def _function_text(prefix: str, signature: Signature) -> str:
    lines = [f"/* {signature.fun_name}"]
    for argument in signature.arguments:
        value = argument.value
        if isinstance(value, Array):
            lines.append(f" *   {argument.name}: {_described(value)}")
        else:
            lines.append(f" *   {argument.name}: see {argument.type_name}")
    lines.append(" */")
    sizes = [f"int64_t {name}" for name in signature.sizes]
    declared = [declared_argument(argument) for argument in signature.arguments]
    given = ",\n    ".join([f"{prefix}_context *context", *sizes, *declared])
    lines.append(f"int {signature.symbol}(\n    {given});")
    if signature.symbol != prefix:
        own = _sizes(list(signature.sizes))
        lines.append(f"int64_t {signature.symbol}_workspace_size({own});")
    return "\n".join(lines) + "\n"
