"""The C++ header of a library, for C++20: contexts that free themselves, arrays as spans."""

from __future__ import annotations

from kiln.export.libraries.c_types import size_text
from kiln.export.libraries.signature import Argument, Array, Signature

_BEGIN = """\
// Written by kiln {version}. A wrapper of {p}.h for C++20.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <utility>

#include "{p}.h"

namespace {p}_library {{

// A call that failed, with its status.
class error : public std::runtime_error {{
 public:
  explicit error(int status) : std::runtime_error({p}_error(status)), status(status) {{}}
  int status;
}};

inline void check(int status) {{
  if (status != {P}_OK) throw error(status);
}}

template <typename T>
T *sized(std::span<T> array, std::int64_t elements) {{
  if (array.size() != static_cast<std::size_t>(elements)) throw error({P}_ERROR_SIZE);
  return array.data();
}}

// What calls need besides their arguments. Threads use one each at a time.
class context {{
 public:
  explicit context(std::int64_t workspace_bytes) : made_({p}_create(workspace_bytes)) {{
    if (made_ == nullptr) throw error({P}_ERROR_OUT_OF_MEMORY);
  }}
  context(context &&other) noexcept : made_(std::exchange(other.made_, nullptr)) {{}}
  context &operator=(context &&other) noexcept {{
    std::swap(made_, other.made_);
    return *this;
  }}
  ~context() {{ {p}_destroy(made_); }}
"""


def cpp_header_text(
    prefix: str, signatures: list[Signature], version: str, *, threads: bool, has_file: bool
) -> str:
    """Return the header."""
    parts = [_BEGIN.format(p=prefix, P=prefix.upper(), version=version)]
    if threads:
        parts.append(
            f"  void set_threads(int threads) {{ check({prefix}_set_threads(made_, threads)); }}\n"
        )
    if has_file:
        parts.append(
            "  void map_constants(const char *path) {\n"
            f"    check({prefix}_map_constants(made_, path));\n  }}\n"
        )
    parts += [_method(signature) for signature in signatures]
    parts.append(f" private:\n  {prefix}_context *made_;\n}};\n\n}}  // namespace {prefix}_library")
    return "\n".join(parts) + "\n"


def _method(signature: Signature) -> str:
    sizes = [f"std::int64_t {name}" for name in signature.sizes]
    declared = [*sizes, *[_declared(argument) for argument in signature.arguments]]
    given = ["made_", *signature.sizes, *[_given(argument) for argument in signature.arguments]]
    joint = ",\n      "
    return (
        f"  // {signature.fun_name}\n"
        f"  void {signature.symbol}(\n      {joint.join(declared)}) {{\n"
        f"    check(::{signature.symbol}(\n      {joint.join(given)}));\n  }}\n"
    )


def _declared(argument: Argument) -> str:
    value = argument.value
    if not isinstance(value, Array):
        return f"const {argument.type_name} &{argument.name}"
    return f"std::span<{'' if value.is_written else 'const '}{value.type}> {argument.name}"


def _given(argument: Argument) -> str:
    value = argument.value
    if not isinstance(value, Array):
        return f"&{argument.name}"
    return f"sized({argument.name}, {size_text(value.elements)})"
