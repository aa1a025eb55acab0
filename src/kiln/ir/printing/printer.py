"""Jaxpr -> text, in the grammar of the documentation.

    { lambda CONSTS ; INVARS . let EQNS in (OUTS) }

Everything on one line if it fits, else one equation per indented line. Names run a, b, ..., z, ba,
bb, ... in order of appearance. The printer knows programs only by their attributes, so that
`jaxpr.py` can print itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

WIDTH = 80
INDENT = "  "


def to_text(jaxpr: Any) -> str:
    """Return the program's text."""
    return "\n".join(_program(jaxpr, Names(), WIDTH))


def lines_of(jaxpr: Any) -> list[tuple[str, Any]]:
    """Return the lines of a program's text, each with the equation that it belongs to, or None.

    Each equation begins a line, except those of short programs inside an equation, which is then
    that of the line.
    """
    names = Names()
    lines = _program(jaxpr, names, WIDTH, is_short=False)
    owners = {
        names.of[id(v)]: eqn
        for eqn in _all_equations(jaxpr)
        for v in eqn.outvars
        if id(v) in names.of
    }
    found: list[tuple[str, Any]] = []
    outer: list[Any] = []
    owner: Any = None
    for line in lines:
        first = line.split()[0] if line.strip() else ""
        if first == "in":
            # The end of a program: what follows belongs to the equation that it is in.
            owner = outer.pop()
        elif " = " in line and ":" in first:
            # Results that nothing reads are all named `_`.
            owner = owners.get(first.partition(":")[0])
        found.append((line, owner))
        if "{ lambda" in line and not line.endswith("}"):
            outer.append(owner)
    return found


def _all_equations(jaxpr: Any) -> Iterator[Any]:
    for eqn in jaxpr.eqns:
        yield eqn
        for value in eqn.params.values():
            for part in value if isinstance(value, tuple) else (value,):
                if hasattr(part, "eqns"):
                    yield from _all_equations(getattr(part, "jaxpr", part))


def eqn_to_text(eqn: Any) -> str:
    """Return the text of one equation, with its own variable names."""
    return "\n".join(_equation(eqn, Names(), frozenset(map(id, eqn.outvars)), WIDTH))


class Names:
    """The names of a program's variables, in order of appearance."""

    def __init__(self) -> None:
        self.of: dict[int, str] = {}
        self.kept: list[Any] = []

    def __call__(self, atom: Any) -> str:
        """Return the name of a variable, or the text of a literal."""
        if atom.is_literal:
            return literal(atom.val)
        name = self.of.get(id(atom))
        if name is None:
            name = self.of[id(atom)] = letters(len(self.of))
            self.kept.append(atom)
        return name

    def binder(self, var: Any) -> str:
        """Return a variable's name with its type."""
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
        if value.dtype.names:
            # Its dtype is float0, which has no value.
            return "0"
        value = value.item() if value.dtype.kind in "biufc" else float(value)
    return str(value)


def _program(jaxpr: Any, names: Names, width: int, *, is_short: bool = True) -> list[str]:
    consts = list(map(names.binder, jaxpr.constvars))
    invars = list(map(names.binder, jaxpr.invars))
    used = frozenset(
        id(atom)
        for atoms in [*(eqn.invars for eqn in jaxpr.eqns), jaxpr.outvars]
        for atom in atoms
        if not atom.is_literal
    )
    head = f"{{ lambda {' '.join(consts)}; {' '.join(invars)}. let"
    eqns = [_equation(eqn, names, used, width - len(INDENT)) for eqn in jaxpr.eqns]
    outs = ", ".join(map(names, jaxpr.outvars)) + ("," if len(jaxpr.outvars) == 1 else "")
    tail = f"in ({outs}) }}"
    if is_short and all(len(lines) == 1 for lines in eqns):
        middle = "; ".join(lines[0] for lines in eqns)
        one = f"{head} {middle} {tail}" if middle else f"{head} {tail}"
        if len(one) <= width:
            return [one]
    body = [INDENT + line for lines in eqns for line in lines]
    return [*_wrapped(head, width), *body, tail]


def _wrapped(head: str, width: int) -> list[str]:
    lines = [""]
    for word in head.split(" "):
        if lines[-1].strip() and len(lines[-1]) + 1 + len(word) > width:
            lines.append(2 * INDENT + word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return lines


def _equation(eqn: Any, names: Names, used: frozenset[int], width: int) -> list[str]:
    # Names are assigned in order of appearance: results, programs among the parameters, operands.
    outs = " ".join(
        names.binder(v) if id(v) in used else f"_:{v.aval.str_short()}" for v in eqn.outvars
    )
    if eqn.primitive.write is not None:
        given = list(map(names, eqn.invars))
        return [
            eqn.primitive.write(
                [names.binder(v) for v in eqn.outvars if id(v) in used], given, **eqn.params
            )
        ]
    params = _params(eqn.params, names, width - len(INDENT))
    operands = "".join(" " + names(atom) for atom in eqn.invars)
    left = f"{outs} = {eqn.primitive.name}" if outs else eqn.primitive.name
    if not params:
        return [left + operands]
    if all(len(lines) == 1 for lines in params):
        one = f"{left}[{' '.join(lines[0] for lines in params)}]{operands}"
        if len(one) <= width:
            return [one]
    inner = [INDENT + line for lines in params for line in lines]
    return [left + "[", *inner, "]" + operands]


def _params(params: dict[str, Any], names: Names, width: int) -> list[list[str]]:
    return [
        _prefixed(f"{key}=", _value(value, names, width - len(key) - 1))
        for key, value in sorted(params.items(), key=lambda item: (item[0] != "name", item[0]))
        if not key.startswith("_")
    ]


def _value(value: Any, names: Names, width: int) -> list[str]:
    if hasattr(value, "eqns"):
        return _program(getattr(value, "jaxpr", value), names, width)
    if isinstance(value, tuple) and value and all(hasattr(v, "eqns") for v in value):
        inner = [INDENT + line for v in value for line in _value(v, names, width - len(INDENT))]
        return ["(", *inner, ")"]
    return value_lines(value)


def value_lines(value: Any) -> list[str]:
    """Return the text of a parameter that is not a program, as lines."""
    if isinstance(value, np.dtype):
        return [value.name]
    if callable(value) and hasattr(value, "__name__"):
        return [value.__name__]
    return str(value).split("\n")


def _prefixed(prefix: str, lines: list[str]) -> list[str]:
    return [prefix + lines[0], *lines[1:]]
