"""From the arguments of a call to the signature that its program is cached under.

Static arguments, parameters and the names of leaves are collected once per call, as `Arguments`.
Keys of static values are made in `static_values.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source, name_of
from kiln.base.tree import PyTreeDef, settled
from kiln.core.trace import aval_of
from kiln.ir.sizes.numbers import as_number
from kiln.ir.types import ShapedArray
from kiln.jit.signatures.argument_binding import flatten_call, unflatten_call
from kiln.jit.signatures.argument_types import argument_names, check_leaves
from kiln.jit.signatures.explain import Naming
from kiln.jit.signatures.parameters import Chosen, parameter_name
from kiln.jit.signatures.static_values import static_key
from kiln.jit.signatures.struct import type_of_struct

_CHEAP = frozenset([bool, int, float, complex])
"""Leaves whose type needs no check on a hit; ints are range-checked when they are converted."""


class Statics(NamedTuple):
    """The static arguments of a call by place, and its number of positional arguments."""

    positional: int
    values: tuple[tuple[int | str, Hashable], ...]


StaticsKey = Statics | tuple[()]
"""The second form is that of functions without static parameters."""


class Signature(NamedTuple):
    """The cache key of a call: calls with equal signatures share a program.

    `tree` is the structure of the arguments that are not static and `avals` the types of their
    leaves; `options` are those that affect programs, `axes` the mapped axes in scope.
    """

    tree: PyTreeDef
    avals: tuple[ShapedArray, ...]
    statics: StaticsKey
    options: Hashable
    axes: Hashable

    def settled(self) -> Signature:
        """Return an equal signature without mutable parts, to be kept."""
        return self if self.tree.is_hashable else self._replace(tree=settled(self.tree))


Kind = tuple[PyTreeDef, tuple[ShapedArray, ...], Hashable, Hashable, Hashable]
"""A kind of call of functions of one content: structure and types of the arguments, options."""


class Arguments:
    """The arguments of one call: static ones, and the leaves of all others.

    `positional` counts the positional arguments and `places` numbers those that are not static.
    `statics` holds the static ones with their numbers or names, `key` their comparable form.

    Raises: ValueError naming a static argument that is not hashable.
    """

    __slots__ = (
        "_dynamic",
        "_named",
        "fun",
        "key",
        "leaves",
        "places",
        "positional",
        "statics",
        "tree",
    )

    def __init__(
        self,
        fun: Callable[..., Any],
        static: Chosen | None,
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> None:
        self.fun = fun
        self.positional = len(args)
        self.statics: Sequence[tuple[int | str, Any]] = ()
        self.key: StaticsKey = ()
        self.places: Sequence[int] = range(len(args))
        if static is not None:
            nums, names = static.argnums, static.argnames
            given: list[tuple[int | str, Any]] = [(i, args[i]) for i in nums if i < len(args)]
            given += [(name, kwargs[name]) for name in names if name in kwargs]
            self.statics = given
            self.key = Statics(len(args), static_keys(fun, given))
            self.places = [i for i in self.places if i not in nums]
            args = tuple([args[i] for i in self.places])
            kwargs = {k: v for k, v in kwargs.items() if k not in names} if kwargs else kwargs
        self._dynamic = args
        self._named = kwargs
        self.leaves: Sequence[Any]
        self.leaves, self.tree = flatten_call(args, kwargs)

    def signature(self, options: Hashable, axes: Hashable) -> Signature:
        """Return the signature of the call.

        Raises: TypeError naming a leaf that is not an array, OverflowError naming an int that does
            not fit.
        """
        try:
            avals = tuple([aval_of(x) if type(x) in _CHEAP else x.aval for x in self.leaves])
        except AttributeError:
            self.leaves = list(map(as_number, self.leaves))
            avals = self.check()
        return Signature(self.tree, avals, self.key, options, axes)

    def signature_of_types(self, options: Hashable, axes: Hashable) -> Signature:
        """Return the signature of a call whose arguments may be ShapeDtypeStructs."""
        self.leaves = list(map(as_number, self.leaves))
        structs = [type_of_struct(x) for x in self.leaves]
        pairs = zip(structs, self.leaves, strict=True)
        found = self.check([x if a is None else np.int32(0) for a, x in pairs])
        avals = tuple([b if a is None else a for a, b in zip(structs, found, strict=True)])
        return Signature(self.tree, avals, self.key, options, axes)

    def check(self, leaves: Sequence[Any] | None = None) -> tuple[ShapedArray, ...]:
        """Check the leaves, or others in their places, and return their types."""
        leaves = self.leaves if leaves is None else leaves
        return tuple(check_leaves(self.fun, leaves, self.names, "jit"))

    def naming(self) -> Naming:
        """Return the names of the arguments and their leaves for messages."""
        names = argument_names(self.fun, self._dynamic, self._named, self.places)
        return Naming(self.fun, self.places, names)

    def names(self) -> Sequence[str]:
        """Return the names of the leaves for messages, as in `x` and `d['a'][0]`."""
        return self.naming().leaves

    def structure(self) -> tuple[tuple[Any, ...], dict[str, Any], Sequence[int]]:
        """Return the arguments that are not static, by position and by name, and their numbers."""
        return tuple(self._dynamic), self._named, self.places

    def by_place(self) -> list[tuple[int | str, Any]]:
        """Return the arguments that are not static with their numbers or names, in tree order."""
        positional: list[tuple[int | str, Any]] = list(zip(self.places, self._dynamic, strict=True))
        return positional + [(name, self._named[name]) for name in sorted(self._named)]

    def apply(self, fun: Callable[..., Any], leaves: Sequence[Any]) -> Any:
        """Call a function with the arguments of this call, its leaves replaced."""
        dynamic, named = unflatten_call(self.tree, leaves)
        if not self.statics:
            return fun(*dynamic, **named)
        given = iter(dynamic)
        by_number = {i: x for i, x in self.statics if isinstance(i, int)}
        by_name = {name: x for name, x in self.statics if isinstance(name, str)}
        count = range(self.positional)
        full = [by_number[i] if i in by_number else next(given) for i in count]
        return fun(*full, **named, **by_name)


class Subject(NamedTuple):
    """What is recorded: a function, and the options of its wrapper that affect programs.

    `static` are its static parameters, None if there are none. With `static_result` the function
    returns a pair of arrays and Python values.
    """

    fun: Callable[..., Any]
    static: Chosen | None
    options: Hashable
    static_result: bool = False

    def arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Arguments:
        """Return the arguments of a call, static ones separated."""
        return Arguments(self.fun, self.static, args, kwargs)

    def kind_of(self, signature: Signature) -> Kind:
        """Return what, besides content, distinguishes the recording for a signature."""
        tree, avals, _, options, axes = signature
        return (tree, avals, options, axes, self.options)


def static_keys(
    fun: Callable[..., Any], values: Iterable[tuple[int | str, Any]]
) -> tuple[tuple[int | str, Hashable], ...]:
    """Return the keys of static arguments, given with their numbers or names.

    Raises: ValueError naming an argument that is not hashable.
    """
    keys = []
    for place, value in values:
        try:
            keys.append((place, static_key(value)))
        except TypeError as error:
            raise ValueError(
                three_lines(
                    f"call of {name_of(fun)} with the static argument "
                    f"{parameter_name(fun, place)!r} of type {type(value)} at {current_source()}",
                    "Non-hashable static arguments are not supported: they are keys of compiled "
                    f"programs, and a value of type {type(value)} has no hash ({error})",
                    "pass a tuple instead of a list, an array as a non-static argument, or an "
                    "object that defines __hash__ and __eq__",
                )
            ) from None
    return tuple(keys)
