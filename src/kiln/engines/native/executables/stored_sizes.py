"""Sizes of named axes as JSON data: what code requires of calls, in stored executables."""

from __future__ import annotations

from typing import Any

from kiln.engines.native.loop_ir.extents import Grain
from kiln.ir.sizes.polynomial import Atom, terms_of
from kiln.ir.sizes.size import Dim, Size


def dim_data(dim: Dim) -> Any:
    """Return a dimension as data: a number, or terms, each a list of atoms and their factor."""
    if isinstance(dim, int):
        return dim
    return [[[_atom_data(atom) for atom in atoms], factor] for atoms, factor in terms_of(dim)]


def dim_of(data: Any) -> Dim:
    """Return a dimension from data."""
    if isinstance(data, int):
        return data
    # They are in normal form already.
    return Size(tuple((tuple(map(_atom_of, atoms)), factor) for atoms, factor in data))


def number_data(number: Dim | Grain) -> Any:
    """Return a number that calls supply as data."""
    if isinstance(number, Grain):
        return {
            "most": number.most,
            "points": dim_data(number.points),
            "multiple": number.multiple,
        }
    return dim_data(number)


def number_of(data: Any) -> Dim | Grain:
    """Return a number that calls supply from data."""
    if isinstance(data, dict):
        return Grain(data["most"], dim_of(data["points"]), data["multiple"])
    return dim_of(data)


def _atom_data(atom: Atom) -> list[Any]:
    kind, *parts = atom
    match kind:
        case "name":
            return [kind, *parts]
        case "floordiv":
            return [kind, *map(dim_data, parts)]
    return [kind, list(map(dim_data, parts[0]))]


def _atom_of(data: list[Any]) -> Atom:
    kind, *parts = data
    match kind:
        case "name":
            return (kind, *parts)
        case "floordiv":
            return (kind, *map(dim_of, parts))
    return kind, tuple(map(dim_of, parts[0]))
