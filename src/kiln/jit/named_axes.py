"""`abstracted_axes`: which axes of which arguments have names instead of sizes.

The option is a pytree prefix of the tuple of arguments whose leaves are dicts from axis to name, or
tuples with a name or None for each axis; None names no axis.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source, name_of
from kiln.base.tree import broadcast_prefix, tree_flatten
from kiln.ir.sizes.size import Dim, symbol
from kiln.ir.types import ShapedArray
from kiln.jit.signatures.argument_binding import unflatten_call
from kiln.jit.signatures.parameters import POSITIONAL, Chosen, signature_of

Axes = tuple[tuple[int, str], ...]
"""The named axes of one leaf."""
Describe = Callable[[], Sequence[str]]
"""Returns the user's names of the leaves."""


def _is_axes(x: Any) -> bool:
    """Tell whether a part of the option names axes of arrays."""
    if isinstance(x, dict):
        return all(_is_int(k) and _is_name(v) for k, v in x.items())
    return x is None or (type(x) is tuple and all(map(_is_name, x)))


def _is_int(x: Any) -> bool:
    return isinstance(x, int) and not isinstance(x, bool)


def _is_name(x: Any) -> bool:
    return x is None or (isinstance(x, str) and x != "")


def _axes(leaf: Any) -> Axes:
    pairs = leaf.items() if isinstance(leaf, dict) else enumerate(leaf or ())
    return tuple((axis, name) for axis, name in pairs if name is not None)


class NamedAxes:
    """The named axes of a function's arguments.

    Raises: TypeError unless given a tree of dicts and tuples of names.
    """

    def __init__(self, fun: Callable[..., Any], given: Any, static: Chosen) -> None:
        self.fun = fun
        self.given = tuple(given) if isinstance(given, list) else given
        self.static = static
        leaves, tree = tree_flatten(self.given, _is_axes)
        if not all(map(_is_axes, leaves)) or not (_is_axes(self.given) or _is_tuple(self.given)):
            raise TypeError(
                three_lines(
                    f"jit({name_of(fun)}, abstracted_axes={given!r:.120}) at {current_source()}",
                    "abstracted_axes must be a tuple with an entry for each argument, or one entry "
                    "for all; an entry is a dict from axis to name, a tuple of names, or a tree "
                    "of these",
                    "write abstracted_axes=({0: 'n'}, None)",
                )
            )
        self.key: Hashable = (tree, tuple(map(_axes, leaves)))
        self.names = {name for leaf in leaves for _, name in _axes(leaf)}
        self._known: dict[Hashable, list[Axes]] = {}

    def of_leaves(self, count: int, tree: Any) -> list[Axes]:
        """Return the named axes of each leaf of a call with `count` positional arguments.

        `tree` is the structure of the dynamic arguments, as `flatten_call` gives it.

        Raises: ValueError unless `abstracted_axes` is a tree prefix of the arguments.
        """
        key = (count, tree)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._of_leaves(count, tree)
        return found

    def _of_leaves(self, count: int, tree: Any) -> list[Axes]:
        dynamic, named = unflatten_call(tree, range(tree.num_leaves))
        if _is_axes(self.given):
            return [_axes(self.given)] * tree.num_leaves
        places = [i for i in range(count) if i not in self.static.argnums]
        entries = {place: self._entry(place, count, len(places) + len(named)) for place in places}
        found: list[Axes] = []
        for place, argument in zip(places, dynamic, strict=True):
            found += self._covering(entries[place], argument)
        for name in sorted(named):
            found += self._covering(self._entry(name, count, len(places) + len(named)), named[name])
        return found

    def _entry(self, place: int | str, count: int, dynamic: int) -> Any:
        given = self.given
        number: int | None = place if isinstance(place, int) else self._number(place)
        if number is None:
            return None
        if len(given) == dynamic and self.static:
            # One entry for each argument that is not static.
            number -= sum(i < number for i in self.static.argnums)
        if number < len(given):
            return given[number]
        if isinstance(place, int) and count > len(given):
            raise ValueError(
                three_lines(
                    f"call of {name_of(self.fun)} with {count} positional arguments at "
                    f"{current_source()}",
                    f"abstracted_axes={given!r:.120} has {len(given)} entries",
                    "give one entry per argument; None names no axis",
                )
            )
        return None

    def _number(self, name: str) -> int | None:
        signature = signature_of(self.fun)
        if signature is None:
            return None
        positional = [p.name for p in signature.parameters.values() if p.kind in POSITIONAL]
        return positional.index(name) if name in positional else None

    def _covering(self, entry: Any, argument: Any) -> list[Axes]:
        try:
            return [_axes(leaf) for leaf in broadcast_prefix(entry, argument, _is_axes)]
        except ValueError as error:
            raise ValueError(
                three_lines(
                    f"call of {name_of(self.fun)} with abstracted_axes={self.given!r:.120} at "
                    f"{current_source()}",
                    f"the entry {entry!r:.120} is not a tree prefix of its argument: {error}",
                    "give one entry for the whole argument, or a tree of its structure",
                )
            ) from None

    def sizes(
        self, avals: Sequence[ShapedArray], axes: Sequence[Axes], describe: Describe
    ) -> dict[str, Dim]:
        """Return the size of each named axis.

        Raises: ValueError for an axis that an argument lacks, and for two sizes of one name.
        """
        env: dict[str, Dim] = {}
        first: dict[str, tuple[int, int]] = {}
        for i, (aval, named) in enumerate(zip(avals, axes, strict=True)):
            for axis, name in named:
                if not -aval.ndim <= axis < aval.ndim:
                    raise ValueError(
                        three_lines(
                            f"call of {name_of(self.fun)} with argument {describe()[i]} of type "
                            f"{aval} at {current_source()}",
                            f"abstracted_axes gives its axis {axis} the name {name!r}, but it has "
                            f"{aval.ndim} axes",
                            "name axes that the argument has, or give None for this argument",
                        )
                    )
                size = aval.shape[axis]
                if env.setdefault(name, size) != size:
                    raise self._two_sizes(name, first[name], (i, axis), avals, describe())
                first.setdefault(name, (i, axis))
        return env

    def _two_sizes(
        self,
        name: str,
        first: tuple[int, int],
        second: tuple[int, int],
        avals: Sequence[ShapedArray],
        names: Sequence[str],
    ) -> ValueError:
        (i, a), (j, b) = first, second
        both = f"{names[i]} of type {avals[i]}"
        if i != j:
            both += f" and {names[j]} of type {avals[j]}"
        return ValueError(
            three_lines(
                f"call of {name_of(self.fun)} with {both} at {current_source()}",
                f"abstracted_axes says that axis {a} of {names[i]} and axis {b} of {names[j]} both "
                f"have the size {name!r}, but their sizes are {avals[i].shape[a]} and "
                f"{avals[j].shape[b]}",
                f"pass arrays with one size along {name!r}, or name the axes differently",
            )
        )


def _is_tuple(x: Any) -> bool:
    return type(x) is tuple


def with_names(
    avals: Sequence[ShapedArray], axes: Sequence[Axes], called: Mapping[str, str]
) -> tuple[ShapedArray, ...]:
    """Return types with named axes in place of sizes; `called` says how names are written.

    Axes whose name is missing from `called` keep their sizes.
    """
    found = []
    for aval, named in zip(avals, axes, strict=True):
        shape = list(aval.shape)
        for axis, name in named:
            if name in called:
                shape[axis] = symbol(called[name])
        found.append(aval.with_(shape=shape) if named else aval)
    return tuple(found)


def numbered(
    avals: Sequence[ShapedArray], axes: Sequence[Axes], names: Sequence[str]
) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return the named axes of each leaf, from 0 on, with the numbers of their names."""
    return tuple(
        tuple([(axis % aval.ndim, names.index(name)) for axis, name in named if name in names])
        for aval, named in zip(avals, axes, strict=True)
    )


def fresh_names(names: set[str], taken: Sequence[str]) -> dict[str, str]:
    """Return the spelling of names, distinct from equal names that are already in scope."""
    called: dict[str, str] = {}
    for name in sorted(names):
        spelled, count = name, 0
        while spelled in taken or (count and (spelled in names or spelled in called.values())):
            count += 1
            spelled = f"{name}{count}"
        called[name] = spelled
    return called
