"""Named sizes from the shapes of a call: `f32[b, 2*b]` and `f32[3, 6]` give b = 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kiln.base.named_tuples import NamedTuple
from kiln.ir.sizes.decisions import divides
from kiln.ir.sizes.polynomial import terms_of
from kiln.ir.sizes.size import Dim, Size, equal, names
from kiln.ir.sizes.values import substitute

Shapes = Sequence[Sequence[Dim]]


class Step(NamedTuple):
    """How to compute a name: axis `axis` of array `array` is factor * name + rest.

    `rest` has only names of earlier steps.
    """

    name: str
    array: int
    axis: int
    factor: int
    rest: Dim

    def value(self, dim: Dim, known: Mapping[str, Dim]) -> Dim | None:
        """Return the name's value if the axis has the size `dim`; None if there is none."""
        difference = dim - substitute(self.rest, known)
        if not divides(abs(self.factor), difference):
            return None
        found: Dim = difference // self.factor
        return found


class Misfit(NamedTuple):
    """An axis whose size does not match the pattern, and the expected size."""

    array: int
    axis: int
    wanted: Dim


def steps(patterns: Shapes) -> list[Step]:
    """Return the steps that compute the names in shapes; names that do not follow are left out.

    A name follows from a dimension that is linear in it, and whose other names are known.
    """
    places = [
        (pattern, i, axis)
        for i, row in enumerate(patterns)
        for axis, pattern in enumerate(row)
        if type(pattern) is Size
    ]
    # Dimensions that are a name alone come first: they have a solution for each size.
    places.sort(key=lambda place: len(place[0].terms) + len(str(place[0])))
    found: dict[str, Step] = {}
    while True:
        before = len(found)
        for pattern, i, axis in places:
            unknown = [name for name in names(pattern) if name not in found]
            if len(unknown) == 1:
                parts = _linear(pattern, unknown[0])
                if parts is not None:
                    found[unknown[0]] = Step(unknown[0], i, axis, *parts)
        if len(found) == before:
            return list(found.values())


def _linear(pattern: Size, name: str) -> tuple[int, Dim] | None:
    """Return the factor and the rest where a size is factor * name + rest."""
    # Three points do not distinguish a floor division from a line.
    atoms = {atom for monomial, _ in terms_of(pattern) for atom in monomial}
    if any(a[0] != "name" and name in names(_as_size(a)) for a in atoms):
        return None
    at_0, at_1, at_2 = (substitute(pattern, {name: i}) for i in range(3))
    factor = at_1 - at_0
    is_linear = type(factor) is not Size and factor != 0 and at_2 - at_1 == factor
    return (int(factor), at_0) if is_linear else None


def _as_size(atom: tuple[object, ...]) -> Size:
    return Size((((atom,), 1),))


def solve(patterns: Shapes, shapes: Shapes) -> dict[str, Dim]:
    """Return the values of the names of `patterns`, which are shapes of the same ranks.

    A name without a value is left out. The values may disagree with other dimensions: `misfits`
    checks that.

    Raises: InconclusiveSizeError if that depends on a named axis.
    """
    found: dict[str, Dim] = {}
    for step in steps(patterns):
        if all(name in found for name in names(step.rest)):
            value = step.value(shapes[step.array][step.axis], found)
            if value is not None:
                found[step.name] = value
    return found


def misfits(patterns: Shapes, shapes: Shapes, values: dict[str, Dim]) -> list[Misfit]:
    """Return the axes whose sizes are not those of the patterns for values of all names.

    Raises: InconclusiveSizeError if that depends on a named axis.
    """
    found = []
    for i, (row, shape) in enumerate(zip(patterns, shapes, strict=True)):
        for axis, (pattern, dim) in enumerate(zip(row, shape, strict=True)):
            wanted = substitute(pattern, values)
            if not equal(wanted, dim):
                found.append(Misfit(i, axis, wanted))
    return found
