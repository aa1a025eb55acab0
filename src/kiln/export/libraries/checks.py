"""The checks of a debug build: functions of the header, which a macro turns on."""

from __future__ import annotations

from kiln.export.libraries.c_types import size_text
from kiln.export.libraries.signature import Argument, Array, Signature, Struct

_GENERAL = """\
typedef struct {{
  const void *pointer;
  int64_t bytes, alignment;
  int is_written;
}} {p}_checked_array;

/* The first of the errors that the arrays of a call show: null pointers, pointers that are not
 * aligned to the size of an element, results that overlap other arrays. */
static inline int {p}_check_arrays(const {p}_checked_array *arrays, int count) {{
  int i, j;
  for (i = 0; i < count; ++i) {{
    if (arrays[i].bytes == 0) continue;
    if (arrays[i].pointer == NULL) return {P}_ERROR_NULL_POINTER;
    if ((uintptr_t)arrays[i].pointer % (uintptr_t)arrays[i].alignment != 0)
      return {P}_ERROR_MISALIGNED;
  }}
  for (i = 0; i < count; ++i) {{
    for (j = 0; j < count; ++j) {{
      const uintptr_t a = (uintptr_t)arrays[i].pointer, b = (uintptr_t)arrays[j].pointer;
      if (i == j || !arrays[i].is_written || arrays[i].bytes == 0 || arrays[j].bytes == 0) continue;
      if (a < b + (uintptr_t)arrays[j].bytes && b < a + (uintptr_t)arrays[i].bytes)
        return {P}_ERROR_OVERLAP;
    }}
  }}
  return {P}_OK;
}}
"""


def checks_text(prefix: str, signatures: list[Signature]) -> str:
    """Return the part of the header that a debug build reads."""
    general = _GENERAL.format(p=prefix, P=prefix.upper())
    parts = [_checked(prefix, signature) for signature in signatures]
    return f"#ifdef {prefix.upper()}_DEBUG\n\n{general}\n" + "\n".join(parts) + "\n#endif\n"


def _checked(prefix: str, signature: Signature) -> str:
    symbol, upper = signature.symbol, prefix.upper()
    sizes = [f"int64_t {name}" for name in signature.sizes]
    declared = [declared_argument(argument) for argument in signature.arguments]
    given = ["context", *signature.sizes, *[a.name for a in signature.arguments]]
    structs = [a.name for a in signature.arguments if a.type_name]
    rows = [
        row
        for argument in signature.arguments
        for row in _rows(argument.value, argument.name if argument.type_name else "")
    ]
    lines = [
        f"static inline int {symbol}_checked("
        + ", ".join([f"{prefix}_context *context", *sizes, *declared])
        + ") {"
    ]
    for name in signature.sizes:
        lines.append(f"  if ({name} < 1) return {upper}_ERROR_SIZE;")
    for name in structs:
        lines.append(f"  if ({name} == NULL) return {upper}_ERROR_NULL_POINTER;")
    if rows:
        lines += ["  {", f"    {prefix}_checked_array arrays[{len(rows)}];", "    int status;"]
        for i, (pointer, size, alignment, written) in enumerate(rows):
            lines += [
                f"    arrays[{i}].pointer = {pointer};",
                f"    arrays[{i}].bytes = {size};",
                f"    arrays[{i}].alignment = {alignment};",
                f"    arrays[{i}].is_written = {written};",
            ]
        lines += [
            f"    status = {prefix}_check_arrays(arrays, {len(rows)});",
            f"    if (status != {upper}_OK) return status;",
            "  }",
        ]
    lines += [f"  return {symbol}({', '.join(given)});", "}"]
    lines.append(f"#define {symbol}(...) {symbol}_checked(__VA_ARGS__)")
    return "\n".join(lines) + "\n"


def _rows(value: Array | Struct, path: str) -> list[tuple[str, str, int, int]]:
    """Return a row for each array: its address, bytes, alignment, whether it is written."""
    if isinstance(value, Struct):
        own = path
        rows = []
        for field in value.fields:
            joint = "->" if own == value.name and "->" not in own and "." not in own else "."
            rows += _rows(field, f"{own}{joint}{field.name}")
        return rows
    if value.leaf.operand is None and value.leaf.result is None:
        return []
    bytes_ = f"({size_text(value.elements)}) * {value.item}"
    alignment = value.item // 2 if value.dtype.startswith("complex") else value.item
    return [(path or value.name, bytes_, alignment, int(value.is_written))]


def declared_argument(argument: Argument) -> str:
    """Return the declaration of a parameter."""
    if argument.type_name:
        return f"const {argument.type_name} *{argument.name}"
    assert isinstance(argument.value, Array)
    return declared_array(argument.value)


def declared_array(array: Array) -> str:
    """Return the declaration of a pointer to the elements of an array."""
    return f"{'' if array.is_written else 'const '}{array.type} *{array.name}"
