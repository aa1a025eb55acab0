"""The checker of jaxprs: every variable is bound once, before use; every equation is well typed."""

from __future__ import annotations

from kiln.base.errors import CheckError, three_lines
from kiln.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from kiln.ir.printing.printer import eqn_to_text
from kiln.ir.types import ShapedArray, plain


def check(jaxpr: Jaxpr, after: str = "") -> None:
    """Check a jaxpr and the jaxprs inside it.

    Raises: CheckError with the equation.
    """
    bound: set[Var] = set()

    def bind(var: Var, place: Eqn | str) -> None:
        if var in bound:
            raise _error(after, f"a variable is bound twice, the second time by {_text(place)}")
        bound.add(var)

    def read(atom: Atom, place: Eqn | str) -> None:
        if isinstance(atom, Var) and atom not in bound:
            where = _text(place)
            raise _error(after, f"{where} uses a variable of type {atom.aval} before it is bound")

    for var in [*jaxpr.constvars, *jaxpr.invars]:
        bind(var, "the inputs")
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            read(atom, eqn)
        _check_types(eqn, after)
        for value in eqn.params.values():
            for inner in value if isinstance(value, tuple) else (value,):
                if isinstance(inner, Jaxpr):
                    check(inner, after)
        for var in eqn.outvars:
            bind(var, eqn)
    for atom in jaxpr.outvars:
        read(atom, "the result")


def _text(place: Eqn | str) -> str:
    """Return the text of an equation, made for errors only: that takes longer than checking it."""
    return place if isinstance(place, str) else eqn_to_text(place)


def _check_types(eqn: Eqn, after: str) -> None:
    avals = [atom.aval for atom in eqn.invars]
    if not eqn.primitive.infers_shardings:
        avals = list(map(plain, avals))
    inferred = eqn.primitive.infer(*avals, **eqn.params)
    expected: list[ShapedArray] = list(inferred) if eqn.primitive.multiple else [inferred]
    found = [var.aval for var in eqn.outvars]
    if len(expected) != len(found) or not all(
        a.same_type(b) for a, b in zip(expected, found, strict=True)
    ):
        raise _error(after, f"{_text(eqn)}\n  has results {found}, its rule says {expected}")


def _error(after: str, what: str) -> CheckError:
    return CheckError(
        three_lines(
            f"check of a program{' after ' + after if after else ''}",
            what,
            "this is a bug in kiln: report it with the program (KILN_DUMP=jaxpr prints it)",
        )
    )
