"""Facts: what is known of named sizes beyond that they are at least 1.

Users state them when they make a symbolic shape. A name carries those of its scope, as the last
part of its atom; facts are written in names without facts, so that no fact refers to itself. Code
that assigns values to names must check them (`broken`), because decisions rely on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from kiln.base.pickled import pickled_as, reduced
from kiln.base.records import Record

Atom = tuple[Any, ...]
Poly = dict[tuple[Atom, ...], Any]


class Fact(Record):
    """A difference of sizes, in names without facts, that is 0 or, if not `is_equality`, >= 0."""

    text: str
    difference: Any
    is_equality: bool


class Facts:
    """The facts of one scope; equal if their texts are."""

    __slots__ = ("_hash", "compound", "facts", "least", "names", "simple", "solved")

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.facts = tuple(facts)
        self._hash = hash(tuple([fact.text for fact in self.facts]))
        self.names = frozenset(name for fact in self.facts for name in _names(fact.difference))
        """All names that facts are about."""
        self.solved = _solved(self.facts)
        """Names that equal an expression in others."""
        above = list(_above(self.facts, self.solved))
        self.compound = tuple([poly for poly in above if not _of_names(poly)])
        """Polynomials that are at least 0, with floor divisions or maxima."""
        self.simple = tuple([poly for poly in above if _of_names(poly)])
        """The others, in names only."""
        self.least = _least(self.simple)
        """Lower bounds of names, from facts about a single name."""

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Facts)
            and self._hash == other._hash
            and self._texts() == other._texts()
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        facts = [(fact.text, fact.difference, fact.is_equality) for fact in self.facts]
        return reduced("Facts", facts)

    def __repr__(self) -> str:
        return f"Facts({', '.join(self._texts())})"

    def _texts(self) -> list[str]:
        return [fact.text for fact in self.facts]


@pickled_as("Facts")
def _unpickled(facts: Iterable[tuple[str, Any, bool]]) -> Facts:
    return Facts(Fact(*fact) for fact in facts)


def _solved(facts: Iterable[Fact]) -> dict[str, Any]:
    """Return the names that equalities express by others, with these expressions."""
    solved: dict[str, Any] = {}
    for fact in facts:
        difference = bare(fact.difference, solved)
        for monomial, factor in getattr(difference, "terms", ()) if fact.is_equality else ():
            if len(monomial) == 1 and monomial[0][0] == "name" and abs(factor) == 1:
                name = monomial[0][1]
                value = type(difference)(((monomial, 1),)) - factor * difference
                if name not in _names(value):
                    solved = {known: bare(dim, {name: value}) for known, dim in solved.items()}
                    solved[name] = value
                    break
    return solved


def _above(facts: Iterable[Fact], solved: Mapping[str, Any]) -> Iterator[Poly]:
    """Yield polynomials that are at least 0, in names that are not solved."""
    found = [bare(fact.difference, solved) for fact in facts]
    found += [-bare(fact.difference, solved) for fact in facts if fact.is_equality]
    for dim in (*found, *solved.values()):
        if not isinstance(dim, int):
            yield dict(dim.terms)


def _of_names(poly: Poly) -> bool:
    return all(atom[0] == "name" for monomial in poly for atom in monomial)


def _least(polys: Iterable[Poly]) -> dict[Atom, int]:
    """Return the names that are at least a number, and that number."""
    found: dict[Atom, int] = {}
    for poly in polys:
        varying = {monomial: factor for monomial, factor in poly.items() if monomial}
        ((monomial, factor), *others) = varying.items()
        if not others and len(monomial) == 1 and factor > 0:
            low = math.ceil(-poly.get((), 0) / factor)
            found[monomial[0]] = max(low, found.get(monomial[0], low))
    return found


def _names(dim: Any) -> Iterator[str]:
    for monomial, _ in getattr(dim, "terms", ()):
        for atom in monomial:
            if atom[0] == "name":
                yield atom[1]
            for part in parts_of(atom):
                yield from _names(part)


def parts_of(atom: Atom) -> tuple[Any, ...]:
    """Return the dimensions that a floor division or a maximum consists of."""
    match atom[0]:
        case "name":
            return ()
        case "floordiv":
            return atom[1:]
    return tuple(atom[1])


def facts_of(*dims: Any) -> Facts | None:
    """Return all facts that the names in some dimensions carry; None if they carry none."""
    found: dict[Facts, None] = {}
    for dim in dims:
        _collect(dim, found)
    if len(found) <= 1:
        return next(iter(found), None)
    return Facts({fact: None for facts in found for fact in facts.facts})


def _collect(dim: Any, found: dict[Facts, None]) -> None:
    for monomial, _ in getattr(dim, "terms", ()):
        for atom in monomial:
            if atom[0] == "name" and len(atom) == 3:
                found[atom[2]] = None
            for part in parts_of(atom):
                _collect(part, found)


def bare(dim: Any, solved: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """Return a dimension in names without facts; `solved` ones are replaced.

    Names of several scopes that are spelled alike are one size, so that terms may cancel.
    """
    if isinstance(dim, int):
        return dim
    total: Any = 0
    for monomial, factor in dim.terms:
        term: Any = factor
        for atom in monomial:
            term = term * _bare_atom(atom, solved, type(dim))
        total = total + term
    return total


def _bare_atom(atom: Atom, solved: Mapping[str, Any], size: Callable[[Any], Any]) -> Any:
    match atom[0]:
        case "name":
            return solved[atom[1]] if atom[1] in solved else size((((atom[:2],), 1),))
        case "floordiv":
            return bare(atom[1], solved) // bare(atom[2], solved)
    found = (atom[0], tuple([bare(dim, solved) for dim in atom[1]]))
    return size((((found,), 1),))


def broken(
    facts: Facts, values: Mapping[str, Any], substitute: Callable[[Any, Mapping[str, Any]], Any]
) -> tuple[Fact, Any] | None:
    """Return a fact that does not hold for values of all its names, and its difference.

    Raises: InconclusiveSizeError if that depends on the value of a name.
    """
    for fact in facts.facts:
        found = substitute(fact.difference, values)
        if not (found == 0 if fact.is_equality else found >= 0):
            return fact, found
    return None
