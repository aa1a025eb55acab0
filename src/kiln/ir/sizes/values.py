"""Values of sizes: names replaced by numbers, or by other sizes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from kiln.ir.sizes.facts import Atom, Facts, broken
from kiln.ir.sizes.size import Dim, Size, maximum, names, symbol

_LARGER = (8, 16, 32, 64, 100, 128, 256, 1024)
_MOST_TRIED = 4096


def evaluate(dim: Dim, env: Mapping[str, int]) -> int:
    """Return the value of a dimension for given axis sizes.

    Raises: KeyError for a name that `env` lacks.
    """
    if type(dim) is not Size:
        return int(dim)
    missing = [name for name in names(dim) if name not in env]
    if missing:
        raise KeyError(f"size {dim}: no value for the axis {missing[0]!r}")
    return int(substitute(dim, env))


def is_nonzero(dim: Dim, env: Mapping[str, Dim]) -> bool:
    """Tell whether a dimension has a nonzero value there; one that divides by 0 has no value."""
    try:
        found = substitute(dim, env)
    except ZeroDivisionError:
        return False
    return type(found) is Size or found != 0


def substitute(dim: Dim, env: Mapping[str, Dim]) -> Dim:
    """Replace names by dimensions; names that are not in `env` are kept."""
    if type(dim) is not Size:
        return dim
    out: Dim = 0
    for monomial, factor in dim.terms:
        term: Dim = factor
        for atom in monomial:
            term = term * _substitute_atom(atom, env)
        out = out + term
    return out


def _substitute_atom(atom: Atom, env: Mapping[str, Dim]) -> Dim:
    kind = atom[0]
    if kind == "name":
        return env[atom[1]] if atom[1] in env else symbol(*atom[1:])
    if kind == "floordiv":
        return substitute(atom[1], env) // substitute(atom[2], env)
    return maximum(*(substitute(dim, env) for dim in atom[1]))


def example(wanted: Sequence[str], facts: Facts | None) -> dict[str, int] | None:
    """Return values of names that satisfy facts: small ones, and different if possible.

    Returns None if none were found, since few values may satisfy the facts.
    """
    found = {name: 2 + i for i, name in enumerate(wanted)}
    if facts is None:
        return found
    bound = [name for name in wanted if name in facts.names]
    tried = [
        dict.fromkeys([found[name], *range(low, low + 5), *(n for n in _LARGER if n > low)])
        for name in bound
        for low in [max(1, facts.least.get(("name", name), 1))]
    ]
    for values in itertools.islice(itertools.product(*tried), _MOST_TRIED):
        made = {**found, **dict(zip(bound, values, strict=True))}
        if broken(facts, made, substitute) is None:
            return made
    return None
