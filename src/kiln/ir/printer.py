"""Jaxpr -> text, in the grammar of the documentation.

    { lambda CONSTS ; INVARS . let EQNS in (OUTS) }

Everything on one line if it fits, else one equation per indented line. Names run a, b, ..., z, ba,
bb, ... in order of appearance. The printer knows programs only by their attributes, so that
`jaxpr.py` can print itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

WIDTH = 80
INDENT = "  "


def to_text(jaxpr: Any) -> str:
    """Return the program's text."""
    return "\n".join(_program(jaxpr, _Names()))


def eqn_to_text(eqn: Any) -> str:
    """Return one equation's text, with names of its own."""
    return "\n".join(_equation(eqn, _Names(), frozenset(map(id, eqn.outvars))))


class _Names:
    def __init__(self) -> None:
        self.of: dict[int, str] = {}
        self.kept: list[Any] = []

    def __call__(self, atom: Any) -> str:
        if atom.is_literal:
            return literal(atom.val)
        name = self.of.get(id(atom))
        if name is None:
            name = self.of[id(atom)] = letters(len(self.of))
            self.kept.append(atom)
        return name

    def binder(self, var: Any) -> str:
        return f"{self(var)}:{var.aval.str_short()}"


def letters(index: int) -> str:
    """Return the name of the variable number `index`: a, ..., z, ba, ..., bz, ca, ..."""
    text = chr(ord("a") + index % 26)
    index //= 26
    while index:
        text = chr(ord("a") + index % 26) + text
        index //= 26
    return text


def literal(value: Any) -> str:
    """Return the text of a scalar constant."""
    if isinstance(value, np.ndarray) and value.shape:
        return "[...]"
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.item() if value.dtype.kind in "biufc" else float(value)
    return str(value)


def _program(jaxpr: Any, names: _Names) -> list[str]:
    consts = " ".join(map(names.binder, jaxpr.constvars))
    invars = " ".join(map(names.binder, jaxpr.invars))
    used = frozenset(
        id(atom)
        for atoms in [*(eqn.invars for eqn in jaxpr.eqns), jaxpr.outvars]
        for atom in atoms
        if not atom.is_literal
    )
    head = f"{{ lambda {consts}; {invars}. let" if consts else f"{{ lambda ; {invars}. let"
    eqns = [_equation(eqn, names, used) for eqn in jaxpr.eqns]
    outs = ", ".join(map(names, jaxpr.outvars)) + ("," if len(jaxpr.outvars) == 1 else "")
    tail = f"in ({outs}) }}"
    if all(len(lines) == 1 for lines in eqns):
        middle = "; ".join(lines[0] for lines in eqns)
        one = f"{head} {middle} {tail}" if middle else f"{head} {tail}"
        if len(one) <= WIDTH and len(eqns) <= 1:
            return [one]
    body = [INDENT + line for lines in eqns for line in lines]
    return [head, *body, tail]


def _equation(eqn: Any, names: _Names, used: frozenset[int]) -> list[str]:
    params = _params(eqn.params, names)
    operands = "".join(" " + names(atom) for atom in eqn.invars)
    outs = " ".join(
        names.binder(v) if id(v) in used else f"_:{v.aval.str_short()}" for v in eqn.outvars
    )
    left = f"{outs} = {eqn.primitive.name}" if outs else eqn.primitive.name
    if not params:
        return [left + operands]
    flat = " ".join(lines[0] for lines in params)
    if all(len(lines) == 1 for lines in params) and len(left) + len(flat) + len(operands) < WIDTH:
        return [f"{left}[{flat}]{operands}"]
    inner = [INDENT + line for lines in params for line in lines]
    return [left + "[", *inner, "]" + operands]


def _params(params: dict[str, Any], names: _Names) -> Iterable[list[str]]:
    return [
        _prefixed(f"{key}=", _value(value, names))
        for key, value in sorted(params.items())
        if not key.startswith("_")
    ]


def _value(value: Any, names: _Names) -> list[str]:
    if hasattr(value, "eqns"):
        return _program(getattr(value, "jaxpr", value), names)
    if isinstance(value, tuple) and value and all(hasattr(v, "eqns") for v in value):
        inner = [INDENT + line for v in value for line in _value(v, names)]
        return ["(", *inner, ")"]
    if isinstance(value, np.dtype):
        return [value.name]
    if callable(value) and hasattr(value, "__name__"):
        return [value.__name__]
    return str(value).split("\n")


def _prefixed(prefix: str, lines: list[str]) -> list[str]:
    return [prefix + lines[0], *lines[1:]]
