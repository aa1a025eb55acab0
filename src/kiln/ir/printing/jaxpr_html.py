"""Jaxpr -> HTML, with the names of the printer: colored, with inner programs folded."""

from __future__ import annotations

from typing import Any

from kiln.base.lazy import html, linecache
from kiln.base.source import Source
from kiln.ir.printing.display import attribute
from kiln.ir.printing.printer import INDENT, Names, value_lines

COLORS = {"name": "#0e8299", "type": "#7b7f85", "primitive": "#d6443c", "key": "#8b68e6"}
"""Readable on white and on black."""


def to_html(jaxpr: Any) -> str:
    """Return a program as HTML: a click unfolds inner programs, operations name their lines."""
    body = _program(jaxpr, Names(), "")
    return f'<div style="font-family:monospace;white-space:pre;line-height:1.35">{body}</div>'


def _colored(kind: str, text: str, hint: str = "") -> str:
    title = f' title="{attribute(hint)}"' if hint else ""
    return f'<span style="color:{COLORS[kind]}"{title}>{html.escape(text)}</span>'


def _place(source: Source | None) -> str:
    """Return the line of the user's code that recorded an equation, and its text."""
    if source is None:
        return ""
    text = linecache.getline(source.file, source.line).strip()
    return f"{source}\n{text}" if text else str(source)


def _binder(names: Names, var: Any) -> str:
    return f"{_colored('name', names(var))}:{_colored('type', var.aval.str_short())}"


def _program(jaxpr: Any, names: Names, indent: str) -> str:
    consts = " ".join(_binder(names, v) for v in jaxpr.constvars)
    invars = " ".join(_binder(names, v) for v in jaxpr.invars)
    inner = indent + INDENT
    used = {id(atom) for eqn in jaxpr.eqns for atom in eqn.invars if not atom.is_literal}
    used |= {id(atom) for atom in jaxpr.outvars if not atom.is_literal}
    lines = [f"{{ lambda {consts}; {invars}. let"]
    lines += [inner + _equation(eqn, names, used, inner) for eqn in jaxpr.eqns]
    outs = ", ".join(_atom(names, atom) for atom in jaxpr.outvars)
    comma = "," if len(jaxpr.outvars) == 1 else ""
    return "\n".join([*lines, f"{indent}in ({outs}{comma}) }}"])


def _atom(names: Names, atom: Any) -> str:
    text = names(atom)
    return f"{html.escape(text)}" if atom.is_literal else _colored("name", text)


def _equation(eqn: Any, names: Names, used: set[int], indent: str) -> str:
    # In the order in which the printer assigns names.
    outs = " ".join(
        _binder(names, v) if id(v) in used else f"_:{_colored('type', v.aval.str_short())}"
        for v in eqn.outvars
    )
    params = [
        f"{_colored('key', key)}={_value(value, names, indent + INDENT)}"
        for key, value in sorted(eqn.params.items(), key=lambda item: (item[0] != "name", item[0]))
        if not key.startswith("_")
    ]
    operands = "".join(" " + _atom(names, atom) for atom in eqn.invars)
    inside = f"[{' '.join(params)}]" if params else ""
    name = _colored("primitive", eqn.primitive.name, _place(eqn.source))
    return f"{outs} = {name}{inside}{operands}" if outs else f"{name}{inside}{operands}"


def _value(value: Any, names: Names, indent: str) -> str:
    if hasattr(value, "eqns"):
        program = getattr(value, "jaxpr", value)
        count = len(program.eqns)
        title = f"{{ lambda … }} {count} equation{'s' * (count != 1)}"
        return (
            '<details style="display:inline-block;vertical-align:top">'
            f'<summary style="cursor:pointer">{html.escape(title)}</summary>'
            f"{_program(program, names, indent)}</details>"
        )
    if isinstance(value, tuple) and value and all(hasattr(v, "eqns") for v in value):
        return f"({', '.join(_value(v, names, indent) for v in value)})"
    return f"{html.escape(' '.join(value_lines(value)))}"
