"""Lifting: a method of a bound module as a pure function of its variables and keys.

A transformation acts on functions of arrays. `Lift` extracts the variables of a module, and of all
modules and `Variable`s it holds or is called with, from their scopes, in groups; runs the method on
copies of the modules in scopes made from those groups; and writes changes back to the scopes.

The scopes that no other one contains are the *tops*. Inside, the variables of top number `i` are
under the name `str(i)`, so they look the same wherever the module is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiln.base.tree import register_pytree_node
from kiln.core.arrays.array import ConcreteArray
from kiln.linen.errors import (
    TransformedMethodReturnValueError,
)
from kiln.linen.module import Module
from kiln.linen.module.fields import map_modules, modules_in
from kiln.linen.scopes.filters import CollectionFilter, in_filter, intersect_filters, union_filters
from kiln.linen.scopes.rng import DrawCounts, Path
from kiln.linen.scopes.scope import Application, Scope, Variable
from kiln.random.keys import fold_in

Group = dict[str, dict[str, Any]]
"""Variables: by collection, then by number of the top."""
Roots = dict[str, Any]
"""The key each stream starts from, by name."""


Standing = Module | Variable[Any]
"""What has a position in a scope."""


def _stands(value: Any) -> bool:
    return isinstance(value, (Module, Variable))


class Slot:
    """A placeholder, in the arguments of a pure function, for a module or variable."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slot) and other.number == self.number

    def __hash__(self) -> int:
        return hash((Slot, self.number))


register_pytree_node(Slot, lambda slot: ((), slot.number), lambda number, _: Slot(number))


class LiftedKeys:
    """Keys inside a transformation: roots are passed in, folded numbers are those outside."""

    __slots__ = ("_lift", "roots")

    def __init__(self, roots: Roots, lift: Lift) -> None:
        self.roots = roots
        self._lift = lift

    def __contains__(self, name: object) -> bool:
        return name in self.roots

    def number(self, name: str, path: Path, count: int) -> Any:
        """Return the number of a draw, as outside."""
        return self._lift.number(name, path, count)

    def draw(self, name: str, path: Path, count: int) -> Any:
        """Return the key of a draw."""
        return fold_in(self.roots[name], self.number(name, path, count))


class Target:
    """The target of a transformation: a function of a module, and how to run it on a copy.

    `of_class` tells that it is the method of a transformed class.
    """

    __slots__ = ("fun", "is_compact", "is_lifted", "name", "of_class")

    def __init__(self, fun: Callable[..., Any], *, of_class: bool = False) -> None:
        self.of_class = of_class
        self.is_lifted = hasattr(fun, "lifted")
        if hasattr(fun, "method_of_module") and not self.is_lifted:
            fun = fun.__wrapped__  # type: ignore[attr-defined]
        self.fun = fun
        self.name = getattr(fun, "__name__", type(fun).__name__)
        self.is_compact = hasattr(fun, "compact")

    def run(self, module: Module, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run the function on a module, as a method of it."""
        if self.is_lifted:
            return self.fun(module, *args, **kwargs)
        return module._run_method(self.fun, self.name, self.is_compact, tuple(args), kwargs)


class Lift:
    """One application of a transformation to a module.

    `values` are arguments, which may hold modules too; the attribute `values` has slots in place of
    the modules. Without `set_up` the module is set up only inside, where variables may look
    different, as needed for a class with all its methods inside.
    """

    __slots__ = ("_held", "_left", "_places", "_slots", "module", "shared", "tops", "values")

    def __init__(self, module: Module, values: Any = (), *, set_up: bool = True) -> None:
        scope = module.scope
        assert scope is not None
        if set_up:
            module._set_up()
        self.module = module
        self.shared: Application = scope.shared
        self._slots: list[Standing] = []
        self.values = self._without_modules(values)
        self._held: list[Standing] = [module]
        for other in self._slots:
            _gather(other, self._held)
        _gather(module, self._held, known=True)
        self._places, self.tops = _places([m.scope for m in self._held if m.scope is not None])
        self._left: tuple[Any, ...] | None = None

    def _without_modules(self, values: Any) -> Any:
        slots = self._slots

        def replace(suffix: str, module: Standing) -> Any:
            for number, known in enumerate(slots):
                if known is module:
                    return Slot(number)
            slots.append(module)
            return Slot(len(slots) - 1)

        if type(values) in (tuple, list) and all(type(x) is ConcreteArray for x in values):
            return values
        return map_modules(replace, values, wanted=_stands)

    # ---- extracting variables and keys

    @property
    def mutable(self) -> CollectionFilter:
        """The filter of the collections that are mutable outside."""
        return self.shared.mutable

    def collections(self) -> list[str]:
        """Return the names of the non-empty collections."""
        return list(self.shared.collections)

    def variables(self, wanted: CollectionFilter) -> Group:
        """Return the variables of the collections that a filter selects."""
        group: Group = {}
        for collection in self.shared.collections:
            if wanted is not True and not in_filter(wanted, collection):
                continue
            trees = {}
            for i, top in enumerate(self.tops):
                tree = top.collection(collection)
                if tree:
                    trees[str(i)] = tree
            if trees:
                group[collection] = trees
        return group

    def groups(self, filters: Sequence[CollectionFilter]) -> list[Group]:
        """Divide the variables among filters: a collection goes to the first that selects it."""
        found: list[Group] = [{} for _ in filters]
        for collection, trees in self.variables(True).items():
            for wanted, group in zip(filters, found, strict=True):
                if in_filter(wanted, collection):
                    group[collection] = trees
                    break
        return found

    def roots(self, wanted: CollectionFilter = True) -> Roots:
        """Return the roots of the streams of keys that a filter selects."""
        roots = self.shared.keys.roots
        if wanted is True:
            return dict(roots)
        return {name: key for name, key in roots.items() if in_filter(wanted, name)}

    def number(self, name: str, path: Path, count: int) -> Any:
        """Return the number of a draw, for a path that begins with the number of a top."""
        top = self.tops[int(path[0])]
        return self.shared.keys.number(name, (*top.inner, *path[1:]), count)

    # ---- running inside

    def application(
        self, variables: Group, keys: Any, written: CollectionFilter = True
    ) -> Application:
        """Return the state shared by the modules inside: variables, keys, mutability."""
        mutable = self.mutable if written is True else intersect_filters(self.mutable, written)
        return Application(variables, keys, mutable, self.shared.flags)

    def run(
        self,
        target: Target,
        application: Application,
        values: Any,
        call: Callable[[Target, Module, Any], Any],
        counts: Sequence[DrawCounts] | None = None,
    ) -> Any:
        """Run `call(target, module, values)` on copies of the modules, in scopes of `application`.

        Draws are counted in `counts`, one per top, or in the counts outside.
        """
        scopes: dict[int, Scope] = {}
        copies: dict[int, Standing] = {}

        def inside(scope: Scope) -> Scope:
            made = scopes.get(id(scope))
            if made is None:
                number, steps = self._places[id(scope)]
                counted = scope.counts
                if counts is not None:
                    counted = counts[number].at(steps)
                inner = (str(number), *steps)
                made = Scope.within(application, None, scope.path, inner, counted)
                scopes[id(scope)] = made
            return made

        def copy(suffix: str, original: Standing) -> Standing:
            if original.scope is None:
                return original
            made = copies.get(id(original))
            if made is None:
                scope = inside(original.scope)
                made = copies[id(original)] = (
                    Variable(scope, original.collection, original.name, original.unbox)
                    if isinstance(original, Variable)
                    else _copy_into(original, scope, copy)
                )
            return made

        module = copy("", self.module)
        assert isinstance(module, Module)
        values = _filled(values, [copy("", m) for m in self._slots])
        _resume(module, self.module)
        try:
            result = call(target, module, values)
        finally:
            application.valid = False
        if modules_in(result, _stands):
            raise TransformedMethodReturnValueError(target.name)
        self._left = _left(module)
        return result

    @property
    def left(self) -> tuple[Any, ...]:
        """The names that the method has used, to be stored with a program."""
        assert self._left is not None
        return self._left

    def written(self, application: Application, wanted: CollectionFilter = True) -> Group:
        """Return the variables that may have been written, in the collections a filter selects."""
        return {
            name: {number: tree for number, tree in trees.items() if tree}
            for name, trees in application.collections.items()
            if trees
            and in_filter(application.mutable, name)
            and (wanted is True or in_filter(wanted, name))
        }

    # ---- writing back

    def commit(self, *groups: Group, left: tuple[Any, ...] | None = None) -> None:
        """Write variables back, and reserve the names that the method has used."""
        for group in groups:
            for collection, trees in group.items():
                for number, tree in trees.items():
                    target = self.tops[int(number)].writable(collection)
                    target.clear()
                    target.update(tree)
        left = self._left if left is None else left
        if left is not None:
            _take_over(self.module, left)

    def describe(self) -> tuple[Any, ...]:
        """Return the positions of the modules relative to each other."""
        return tuple([None if m.scope is None else self._places[id(m.scope)] for m in self._held])

    def held(self) -> list[Standing]:
        """Return the modules: the first is the one whose method runs."""
        return self._held

    def place(self, module: Standing) -> Any:
        """Return the position of a module or variable: its top's number and the path from there."""
        return None if module.scope is None else self._places.get(id(module.scope))

    def slots(self) -> list[Standing]:
        """Return the modules and variables in place of slots."""
        return self._slots


def _gather(module: Standing, found: list[Standing], known: bool = False) -> None:
    """Add a module, and the modules and variables in its fields, to those found."""
    if not known:
        if any(module is m for m in found):
            return
        found.append(module)
    if isinstance(module, Variable):
        return
    for name in module._hyperparameters:
        value = module.__dict__.get(name)
        if value is None or type(value) in _PLAIN:
            continue
        for inner in modules_in(value, _stands):
            _gather(inner, found)


_PLAIN = frozenset([int, str, float, bool, complex, ConcreteArray])

Places = dict[int, tuple[int, Path]]


def _places(scopes: Sequence[Scope]) -> tuple[Places, list[Scope]]:
    """Return for each scope its top and the path from there; and the tops."""
    if len(scopes) == 1:
        return {id(scopes[0]): (0, ())}, [scopes[0]]
    tops: list[Scope] = []
    for scope in sorted(scopes, key=lambda s: len(s.inner)):
        if not any(scope.inner[: len(top.inner)] == top.inner for top in tops):
            tops.append(scope)
    order = {id(s): i for i, s in reversed(list(enumerate(scopes)))}
    tops.sort(key=lambda s: order[id(s)])
    places: Places = {}
    for scope in scopes:
        for number, top in enumerate(tops):
            if scope.inner[: len(top.inner)] == top.inner:
                places[id(scope)] = (number, scope.inner[len(top.inner) :])
                break
    return places, tops


def _copy_into(module: Module, scope: Scope, copy: Callable[[str, Standing], Standing]) -> Module:
    values = {}
    for name in module._hyperparameters:
        value = module.__dict__[name]
        values[name] = value if type(value) in _PLAIN else map_modules(copy, value, wanted=_stands)
    return type(module)(**values, name=module.name, parent=scope)


def _filled(values: Any, modules: Sequence[Standing]) -> Any:
    if not modules:
        return values
    if isinstance(values, Slot):
        return modules[values.number]
    if isinstance(values, (list, tuple)):
        made = [_filled(v, modules) for v in values]
        return type(values)(*made) if hasattr(values, "_fields") else type(values)(made)
    if isinstance(values, Mapping):
        return type(values)({k: _filled(v, modules) for k, v in values.items()})  # type: ignore[call-arg]
    return values


def _resume(module: Module, original: Module) -> None:
    """Bring a copy to the state of the original: set up, perhaps in a compact method."""
    module._set_up()
    assert module.scope is not None
    assert original.scope is not None
    for name, taken in original.scope.names.items():
        # The names of submodules only: variables that exist may be used again inside.
        if None in taken:
            module.scope.names.setdefault(name, set()).add(None)
    module._state.in_compact = original._state.in_compact
    module._state.autonames = dict(original._state.autonames)


def state_of(module: Module) -> tuple[Any, ...]:
    """Return the part of a module's state that further names depend on."""
    state = module._state
    if not state.in_compact:
        return ()
    assert module.scope is not None
    return (tuple(state.autonames.items()), frozenset(module.scope.names))


def _left(module: Module) -> tuple[Any, ...]:
    assert module.scope is not None
    names = tuple([(name, tuple(taken)) for name, taken in module.scope.names.items()])
    return (names, tuple(module._state.autonames.items()))


def _take_over(module: Module, left: tuple[Any, ...]) -> None:
    names, autonames = left
    assert module.scope is not None
    for name, taken in names:
        module.scope.names.setdefault(name, set()).update(taken)
    if module._state.in_compact:
        module._state.autonames.update(autonames)


# ---- targets


def written_by(*groups: CollectionFilter) -> CollectionFilter:
    """Return the filter of the collections that several groups may write."""
    together: CollectionFilter = False
    for group in groups:
        together = union_filters(together, group)
    return together
