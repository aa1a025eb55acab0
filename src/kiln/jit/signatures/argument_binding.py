"""Binding of keyword arguments to positions, so that equivalent calls share one signature.

Every argument that can be passed by position is.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.named_tuples import NamedTuple
from kiln.base.tree import PyTreeDef, tree_flatten, tree_structure, tree_unflatten, treedef_tuple
from kiln.jit.signatures.parameters import Chosen

_NO_KEYWORDS = tree_structure({})

Call = tuple[tuple[Any, ...], dict[str, Any]]


class Named(NamedTuple):
    """A call with keywords as a pytree, distinct from a call with a tuple and a dict."""

    args: Sequence[Any]
    kwargs: dict[str, Any]


class ArgumentBinding:
    """Rewrites the calls of one function.

    Parameters that are `chosen` (as static, say) by number but not by name, or vice versa, stay as
    passed: for them the difference matters.
    """

    __slots__ = ("_chosen", "_code", "_fun", "_known")

    def __init__(self, fun: Callable[..., Any], static: Chosen, *others: Chosen) -> None:
        self._fun = fun
        self._chosen = (static, *others)
        self._code: types.CodeType | None = None
        self._known: dict[tuple[int, tuple[str, ...]], tuple[str, ...]] = {}

    def by_position(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return a call with keyword arguments moved to positions where possible."""
        moved = self.moved(len(args), tuple(kwargs))
        if not moved:
            return args, kwargs
        rest = {k: v for k, v in kwargs.items() if k not in moved}
        return (*args, *[kwargs[name] for name in moved]), rest

    def moved(self, positional: int, keywords: tuple[str, ...]) -> tuple[str, ...]:
        """Return the keywords of a call that move to positions, in order."""
        code = _code_of(self._fun)
        if code is None:
            return ()
        if code is not self._code:
            # The code of a function can be replaced.
            self._code, self._known = code, {}
        spelled = (positional, keywords)
        moved = self._known.get(spelled)
        if moved is None:
            moved = self._known[spelled] = self._movable(*spelled)
        return moved

    def dynamic_names(self) -> tuple[str, ...]:
        """Return the names of the parameters that take arrays by position, in order."""
        names = self._names()
        static = self._chosen[0].argnums
        return tuple([name for i, name in enumerate(names) if i not in static])

    def _names(self) -> tuple[str, ...]:
        code = _code_of(self._fun)
        if code is None:
            return ()
        bound = 1 if type(self._fun) is types.MethodType else 0
        return code.co_varnames[bound : code.co_argcount]

    def _movable(self, given: int, keywords: tuple[str, ...]) -> tuple[str, ...]:
        code, names = _code_of(self._fun), self._names()
        assert code is not None
        positional_only = code.co_posonlyargcount - (code.co_argcount - len(names))
        if given < positional_only:
            return ()
        moved = []
        for i in range(given, len(names)):
            name = names[i]
            if name not in keywords:
                break
            if any((i in c.argnums) != (name in c.argnames) for c in self._chosen):
                break
            moved.append(name)
        return tuple(moved)


def _code_of(fun: Any) -> types.CodeType | None:
    if type(fun) is types.MethodType:
        fun = fun.__func__
    return fun.__code__ if type(fun) is types.FunctionType else None


@functools.cache
def structure_of(count: int) -> PyTreeDef:
    """Return the structure of a call with `count` arrays, passed by position."""
    return tree_structure((0,) * count)


def flatten_call(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], PyTreeDef]:
    """Return the leaves and the structure of a call."""
    return tree_flatten(Named(args, kwargs) if kwargs else args)


def unflatten_call(tree: PyTreeDef, leaves: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return the arguments of a call, by position and by keyword."""
    call = tree_unflatten(tree, leaves)
    return call if type(call) is Named else (call, {})


def respelled(
    args: tuple[Any, ...], kwargs: dict[str, Any], tree: PyTreeDef, names: Sequence[str]
) -> Call:
    """Return a call bound like the one with the structure `tree`, if its keywords allow it."""
    data, children = tree.node_data(), tree.children()
    named = data is not None and data[0] is Named
    moved = names[len(args) : len(children[0].children() if named else children)]
    if not all(name in kwargs for name in moved):
        return args, kwargs
    rest = {k: v for k, v in kwargs.items() if k not in moved}
    return (*args, *[kwargs[name] for name in moved]), rest


class CallForm(NamedTuple):
    """How a call was made: the structure of its `(args, kwargs)`, static arguments left out.

    `tree` is the structure of the same call bound by position, and `order` says which of its leaves
    each leaf of the call is. `parameters` names those that take arrays by position.
    """

    in_tree: PyTreeDef
    tree: PyTreeDef
    order: tuple[int, ...]
    parameters: tuple[str, ...]


def form_of(
    tree: PyTreeDef,
    places: Sequence[int],
    positional: int,
    moved: Sequence[str],
    parameters: tuple[str, ...],
) -> CallForm:
    """Return the original form of a call that is now bound by position, with the structure `tree`.

    `places` numbers its positional arguments that are not static; the caller passed `positional`
    arguments by position, static ones included, and the following ones by the keywords `moved`.
    """
    args, kwargs = in_tree_of(tree).children()
    pieces, start = [], 0
    for child in [*args.children(), *kwargs.children()]:
        pieces.append((child, range(start, start + child.num_leaves)))
        start += child.num_leaves
    by_place = dict(zip(places, pieces, strict=False))
    data = kwargs.node_data()
    named = dict(zip(data[1] if data else (), pieces[len(places) :], strict=True))
    for i, name in enumerate(moved, positional):
        if i in by_place:
            named[name] = by_place.pop(i)
    names = sorted(named)
    found = [*by_place.values(), *[named[name] for name in names]]
    keywords = PyTreeDef.from_node_data_and_children(
        (dict, names), [named[name][0] for name in names]
    )
    in_tree = treedef_tuple([treedef_tuple([t for t, _ in by_place.values()]), keywords])
    return CallForm(in_tree, tree, tuple([i for _, leaves in found for i in leaves]), parameters)


def in_tree_of(tree: PyTreeDef) -> PyTreeDef:
    """Return the structure of `(args, kwargs)` of a flattened call."""
    root = tree.node_data()
    if root is not None and root[0] is Named:
        return treedef_tuple(tree.children())
    return treedef_tuple([tree, _NO_KEYWORDS])
