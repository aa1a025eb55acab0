"""C's types, names and size expressions."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable
from typing import Any

from kiln.base.dtypes import long_name
from kiln.ir.sizes.polynomial import Atom, terms_of
from kiln.ir.sizes.size import Dim

C_TYPES = {
    "float32": "float",
    "float64": "double",
    "bool": "bool",
    **{f"{sign}int{bits}": f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    # C has no types for these: their bits.
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
}
COMPLEX = {"complex64": "float", "complex128": "double"}
"""A complex number is two of these."""
_WORDS = frozenset(
    {
        "and",
        "asm",
        "auto",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "class",
        "const",
        "context",
        "continue",
        "default",
        "delete",
        "do",
        "double",
        "else",
        "enum",
        "explicit",
        "export",
        "extern",
        "false",
        "float",
        "for",
        "friend",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "mutable",
        "namespace",
        "new",
        "not",
        "operator",
        "or",
        "private",
        "protected",
        "public",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "template",
        "this",
        "throw",
        "true",
        "try",
        "typedef",
        "typename",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "while",
        "xor",
    }
)
"""Keywords of C and C++, and names of parameters."""


def c_type(dtype: Any, prefix: str) -> str | None:
    """Return the type of elements; None for those that C has no type for."""
    name = long_name(dtype)
    if name in COMPLEX:
        return f"{prefix}_{name}"
    return C_TYPES.get(name)


def is_name(text: str) -> bool:
    """Tell whether a text may name a library: it begins the names of all its symbols."""
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", text) is not None and text not in _WORDS


def identifier(text: str, taken: set[str]) -> str:
    """Return a name like a text, which is none of those taken; it is taken from now on."""
    made = re.sub(r"\W", "_", text, flags=re.ASCII)
    if not made or made[0].isdigit():
        made = f"_{made}" if made else "unnamed"
    if made in _WORDS or keyword.iskeyword(made):
        made += "_"
    found, count = made, 1
    while found in taken:
        count += 1
        found = f"{made}_{count}"
    taken.add(found)
    return found


def size_text(dim: Dim) -> str:
    """Return a dimension as a C expression of the named sizes, which are `int64_t`."""
    return polynomial(dim, _atom_text)


def polynomial(dim: Dim, atom_text: Callable[[Atom], str]) -> str:
    """Return a dimension as an expression of a language that writes products as C does.

    `atom_text` writes a named size, a quotient or a maximum in it.
    """
    if isinstance(dim, int):
        return str(dim)
    terms = []
    for atoms, factor in terms_of(dim):
        parts = [atom_text(atom) for atom in atoms]
        if factor != 1 or not parts:
            parts.insert(0, str(factor) if factor >= 0 else f"({factor})")
        terms.append(" * ".join(parts))
    return " + ".join(terms) or "0"


def _atom_text(atom: Atom) -> str:
    kind, *parts = atom
    match kind:
        case "name":
            return str(parts[0])
        case "floordiv":
            # Sizes are not negative where arrays exist.
            return f"(({size_text(parts[0])}) / ({size_text(parts[1])}))"
    found, *others = [f"({size_text(dim)})" for dim in parts[0]]
    for other in others:
        found = f"({found} > {other} ? {found} : {other})"
    return found
