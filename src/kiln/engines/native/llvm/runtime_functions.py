"""Functions of the extension, applied to vectors, which are passed through memory.

They handle rare values, so that the code of a program stays short and compiles quickly.
"""

from __future__ import annotations

from kiln.engines.native.llvm.instructions import type_text
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES, Value

UNLIKELY = '!0 = !{!"branch_weights", i32 1, i32 4000}'
"""What `!prof !0` refers to, at the end of a module."""

_MOST = 64
"""The largest alignment that the assembler gives, in bytes: that of a vector register."""


def symbol(x: Value) -> str:
    """Return the name of the function that computes a node `of_runtime`."""
    return f"kiln_{x.attr}_{x.dtype}"


def declaration(name: str) -> str:
    """Return the declaration of such a function."""
    return f"declare void @{name}(ptr, i64)"


def of_vectors(x: Value, name: str, width: int) -> str:
    """Return a function of one vector, or number, that calls it."""
    kind, align = type_text(x.dtype, width), min(NUMPY_TYPES[x.dtype].itemsize * width, _MOST)
    return f"""define internal {kind} {name}({kind} %x0) #0 {{
  %place = alloca {kind}, align {align}
  store {kind} %x0, ptr %place, align {align}
  call void @{symbol(x)}(ptr %place, i64 {width})
  %found = load {kind}, ptr %place, align {align}
  ret {kind} %found
}}
"""
