"""Sizes as text: `n`, `n+1`, `2*n`, `(n+1)//2`, `max(n, 3)`.

Works on the normal form of `sizes.py`: terms are (atoms, factor) pairs, sizes have `terms`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def terms_text(terms: Iterable[tuple[Any, int]]) -> str:
    """Format a sum of terms."""
    out = ""
    for monomial, factor in terms:
        text = _term_text(monomial, factor)
        out += text if not out or text.startswith("-") else "+" + text
    return out


def _term_text(monomial: tuple[Any, ...], factor: int) -> str:
    if not monomial:
        return str(factor)
    if factor < 0 and len(monomial) == 1 and monomial[0][0] == "max":
        dims = monomial[0][1]
        if any(not isinstance(dim, int) and dim.terms[0][1] < 0 for dim in dims):
            minimum_text = "min(" + ", ".join(str(-dim) for dim in dims) + ")"
            return minimum_text if factor == -1 else f"{-factor}*{minimum_text}"
    texts = [atom_text(atom) for atom in monomial]
    if factor == 1 and len(monomial) == 1:
        return texts[0]
    texts = [
        f"({text})" if atom[0] == "floordiv" else text
        for atom, text in zip(monomial, texts, strict=True)
    ]
    return {1: "", -1: "-"}.get(factor, f"{factor}*") + "*".join(texts)


def atom_text(atom: tuple[Any, ...]) -> str:
    """Format a name, a floor division or a maximum."""
    kind = atom[0]
    if kind == "name":
        return str(atom[1])
    if kind == "max":
        return "max(" + ", ".join(map(str, atom[1])) + ")"
    inner, divisor = (str(x) if _is_atom(x) else f"({x})" for x in atom[1:])
    return f"{inner}//{divisor}"


def _is_atom(size: Any) -> bool:
    if isinstance(size, int):
        return True
    if len(size.terms) != 1:
        return False
    monomial, factor = size.terms[0]
    return factor == 1 and len(monomial) == 1
