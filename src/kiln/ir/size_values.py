"""Values of sizes: names replaced by numbers, or by other sizes."""

from __future__ import annotations

from collections.abc import Mapping

from kiln.ir.polynomial import Atom
from kiln.ir.sizes import Dim, Size, maximum, names, symbol


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
        return env[atom[1]] if atom[1] in env else symbol(atom[1])
    if kind == "floordiv":
        return substitute(atom[1], env) // atom[2]  # type: ignore[no-any-return]
    return maximum(*(substitute(dim, env) for dim in atom[1]))
