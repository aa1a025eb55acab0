"""Scopes: what a module may read and write, and which random keys it gets.

A scope is a position in the variables of one application. The application owns the collections, the
keys and the filter of mutable collections; a scope adds a path, the names in use there and the
count of draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from kiln.api.make_jaxpr import eval_shape
from kiln.base.tree import tree_leaves
from kiln.base.weak import WeakKeyDictionary
from kiln.core.trace import Trace, Tracer, aval_of, is_typed, state
from kiln.linen.errors import (
    InvalidRngError,
    InvalidScopeError,
    JaxTransformError,
    ModifyScopeVariableError,
    NameInUseError,
    ScopeCollectionNotFound,
    ScopeParamNotFoundError,
    ScopeParamShapeError,
    ScopeVariableNotFoundError,
)
from kiln.linen.metadata import is_axis_metadata, replace_boxed
from kiln.linen.metadata import unbox as unboxed
from kiln.linen.scopes.filters import CollectionFilter, in_filter
from kiln.linen.scopes.rng import DrawCounts, FoldedKeys, Keys, Path, streams
from kiln.random.keys import key as random_key

T = TypeVar("T")
Tree = Mapping[str, Any]
_NOTHING: dict[str, Any] = {}


class Application:
    """The shared state of one init, apply or bind. Immutable collections are not copied."""

    __slots__ = ("adopted", "collections", "flags", "keys", "mutable", "trace", "valid")

    def __init__(
        self,
        variables: Mapping[str, Tree],
        keys: Keys,
        mutable: CollectionFilter = False,
        flags: Mapping[str, Any] = _NOTHING,
    ) -> None:
        self.collections: dict[str, Any] = dict(variables)
        if mutable is not False:
            for name, tree in variables.items():
                if in_filter(mutable, name):
                    self.collections[name] = thawed(tree)
        self.keys = keys
        self.mutable = mutable
        self.flags = flags
        self.valid = True
        self.trace: Trace = state.trace
        # Modules passed from outside, by identity: the originals and the copies in use.
        self.adopted: dict[int, tuple[Any, Any]] = {}


class Scope:
    """A module's position: variables are read and written, and keys drawn, under its path.

    `path` leads here from the outermost module, for messages. `inner` leads here from the root of
    the application, in its variables; it is shorter inside lifted transformations. `drawing` is the
    path that keys are drawn for: it is unchanged when `share_scope` moves a module.
    """

    __slots__ = ("counts", "drawing", "inner", "names", "parent", "path", "shared")

    def __init__(
        self,
        variables: Mapping[str, Tree],
        rngs: Any = None,
        name: str | None = None,
        mutable: CollectionFilter = False,
        *,
        path: Sequence[str] = (),
        flags: Mapping[str, Any] = _NOTHING,
    ) -> None:
        """Make the root of an application of its own, to pass to a module as its `parent`.

        `path`, or else `name`, leads to it from the outermost module.
        Raises: InvalidRngError for anything but keys and dictionaries of keys.
        """
        keys = FoldedKeys(streams(rngs, "Scope"))
        at = tuple(path) or (() if name is None else (name,))
        self._place(Application(variables, keys, mutable, flags), None, at, (), DrawCounts())

    def _place(
        self,
        shared: Application,
        parent: Scope | None,
        path: Path,
        inner: Path,
        counts: DrawCounts,
        drawing: Path | None = None,
    ) -> None:
        self.shared = shared
        self.parent = parent
        self.path = path
        self.inner = inner
        self.drawing = inner if drawing is None else drawing
        self.counts = counts
        self.names: dict[str, set[str | None]] = {}

    @classmethod
    def within(
        cls,
        shared: Application,
        parent: Scope | None,
        path: Path,
        inner: Path,
        counts: DrawCounts,
        drawing: Path | None = None,
    ) -> Scope:
        """Return a scope of an application that exists."""
        scope = cls.__new__(cls)
        scope._place(shared, parent, path, inner, counts, drawing)
        return scope

    @classmethod
    def root(
        cls,
        variables: Mapping[str, Tree],
        keys: Keys,
        mutable: CollectionFilter = False,
        flags: Mapping[str, Any] = _NOTHING,
        *,
        path: Path = (),
        counts: DrawCounts | None = None,
    ) -> Scope:
        """Return the scope of an application's root, which is at `path` in the outer one."""
        shared = Application(variables, keys, mutable, flags)
        return cls.within(shared, None, path, (), DrawCounts() if counts is None else counts)

    @property
    def name(self) -> str | None:
        """The last name of the path."""
        return self.path[-1] if self.path else None

    @property
    def path_text(self) -> str:
        """The path as messages show it."""
        return "/" + "/".join(self.path)

    @property
    def mutable(self) -> CollectionFilter:
        """The filter of the collections that may be written."""
        return self.shared.mutable

    def push(self, name: str, *, reuse: bool = False) -> Scope:
        """Return a new scope for a submodule.

        Raises: NameInUseError if the name is taken, unless the scope is created again.
        """
        self.check()
        if not reuse:
            self.reserve(name, None)
        return self.child(name, self.counts.of(name), (*self.drawing, name))

    def child(self, name: str, counts: DrawCounts, drawing: Path) -> Scope:
        """Return a scope for a submodule whose keys are drawn for a path, with the given counts."""
        path, inner = (*self.path, name), (*self.inner, name)
        return self.within(self.shared, self, path, inner, counts, drawing)

    def rewound(self, *, rewind_rngs: bool = False) -> Scope:
        """Return this scope with all names free again, and optionally with new counts of draws."""
        counts = DrawCounts() if rewind_rngs else self.counts
        parent = self.parent
        return self.within(self.shared, parent, self.path, self.inner, counts, self.drawing)

    def check(self) -> None:
        """Raise InvalidScopeError once the init or apply has returned."""
        if not self.shared.valid:
            raise InvalidScopeError(self.path_text)

    def check_trace(self, value: Any) -> None:
        """Raise JaxTransformError if a value would leak from a transformation started inside."""
        trace: Trace | None = state.trace
        if trace is self.shared.trace:
            return
        inside = set()
        while trace is not None and trace is not self.shared.trace:
            inside.add(trace)
            trace = trace.parent
        for leaf in tree_leaves(value):
            if isinstance(leaf, Tracer) and leaf.owner in inside:
                raise JaxTransformError(self.path_text)

    def invalidate(self) -> None:
        """Invalidate all scopes of this application."""
        self.shared.valid = False

    def has_flag(self, name: str) -> bool:
        """Tell whether the application has a flag."""
        return name in self.shared.flags

    def get_flag(self, name: str, default: Any = None) -> Any:
        """Return a flag of the application, such as `initializing`."""
        return self.shared.flags.get(name, default)

    # ---- names

    def name_reserved(self, name: str, collection: str | None = None) -> bool:
        """Tell whether a name is taken: by a submodule, or by a variable of the collection."""
        taken = self.names.get(name)
        return taken is not None and (None in taken or collection is None or collection in taken)

    def reserve(self, name: str, collection: str | None = None) -> None:
        """Reserve a name for a submodule or for a variable of a collection.

        Raises: NameInUseError if it is taken.
        """
        if self.name_reserved(name, collection):
            kind = "submodule" if collection is None else "variable"
            raise NameInUseError(kind, name, f"at {self.path_text!r}")
        self.names.setdefault(name, set()).add(collection)

    def default_name(self, prefix: str) -> str:
        """Return the first free name `PREFIX_i`."""
        i = 0
        while f"{prefix}_{i}" in self.names:
            i += 1
        return f"{prefix}_{i}"

    # ---- keys

    def has_rng(self, name: str) -> bool:
        """Tell whether there is a stream of keys of that name."""
        return name in self.shared.keys

    def make_rng(self, name: str = "params") -> Any:
        """Draw a key: from the stream of that name, or from `params` if there is none.

        Raises: InvalidRngError if there is neither.
        """
        self.check()
        keys = self.shared.keys
        if name not in keys:
            if "params" not in keys:
                raise InvalidRngError(
                    f"make_rng({name!r}) in {self.path_text!r}",
                    f'{self.name} needs PRNG for "{name}", and the rngs given are '
                    f"{sorted(keys.roots)}",
                    f"write apply(..., rngs={{{name!r}: key}}), or init({{'params': key, ...}})",
                )
            name = "params"
        return keys.draw(name, self.drawing, self.counts.next(name))

    # ---- variables

    def is_mutable_collection(self, collection: str) -> bool:
        """Tell whether the variables of a collection may be written."""
        return in_filter(self.shared.mutable, collection)

    def is_collection_empty(self, collection: str) -> bool:
        """Tell whether a collection is empty in the whole application."""
        return not self.shared.collections.get(collection)

    def collection(self, collection: str) -> Tree:
        """Return the variables of a collection at this path and below, for reading."""
        tree: Any = self.shared.collections.get(collection)
        for name in self.inner:
            if not tree:
                break
            tree = tree.get(name)
        return _NOTHING if tree is None else tree

    def writable(self, collection: str) -> dict[str, Any]:
        """Return the variables of a mutable collection at this path, for writing."""
        tree: dict[str, Any] = self.shared.collections.setdefault(collection, {})
        for name in self.inner:
            tree = tree.setdefault(name, {})
        return tree

    def variables(self) -> dict[str, Tree]:
        """Return the collections with their variables at this path and below."""
        found = {name: self.collection(name) for name in self.shared.collections}
        return {name: tree for name, tree in found.items() if tree or not self.inner}

    def mutable_variables(self) -> dict[str, Tree]:
        """Return the mutable collections with their variables at this path and below."""
        return {n: tree for n, tree in self.variables().items() if self.is_mutable_collection(n)}

    def has_variable(self, collection: str, name: str) -> bool:
        """Tell whether a variable exists."""
        return name in self.collection(collection)

    def get_variable(self, collection: str, name: str, default: Any = None) -> Any:
        """Return a variable's value, or the default."""
        return self.collection(collection).get(name, default)

    def put_variable(self, collection: str, name: str, value: Any) -> None:
        """Write a variable.

        Raises: ModifyScopeVariableError if its collection is immutable.
        """
        self.check()
        self.check_trace(value)
        if not self.is_mutable_collection(collection):
            raise ModifyScopeVariableError(collection, name, self.path_text)
        self.writable(collection)[name] = value

    def _no_collection(self, collection: str, name: str) -> ScopeCollectionNotFound:
        given = sorted(k for k, v in self.shared.collections.items() if v)
        return ScopeCollectionNotFound(collection, name, self.path_text, given)

    def _names_there(self, collection: str) -> str:
        """Say which names a collection has here, or at the nearest place that has any."""
        tree: Any = self.shared.collections.get(collection, {})
        reached: Path = ()
        for step in self.inner:
            if not isinstance(tree, Mapping) or step not in tree:
                break
            tree, reached = tree[step], (*reached, step)
        names = sorted(tree) if isinstance(tree, Mapping) else []
        begin = self.path[: len(self.path) - len(self.inner)]
        where = "/" + "/".join((*begin, *reached))
        return f'{collection!r} holds {names} at "{where}"'

    def variable(
        self,
        collection: str,
        name: str,
        init_fn: Callable[..., Any] | None = None,
        *init_args: Any,
        unbox: bool = True,
        **init_kwargs: Any,
    ) -> Variable[Any]:
        """Return a variable; create it by `init_fn` if missing and the collection is mutable.

        Raises: ScopeCollectionNotFound, ScopeVariableNotFoundError if it cannot be created.
        """
        self.reserve(name, collection)
        if not self.has_variable(collection, name):
            if init_fn is None or not self.is_mutable_collection(collection):
                if self.is_collection_empty(collection):
                    raise self._no_collection(collection, name)
                there = self._names_there(collection)
                raise ScopeVariableNotFoundError(name, collection, self.path_text, there)
            self.put_variable(collection, name, init_fn(*init_args, **init_kwargs))
        return Variable(self, collection, name, unbox)

    def param(
        self,
        name: str,
        init_fn: Callable[..., Any],
        *init_args: Any,
        unbox: bool = True,
        **init_kwargs: Any,
    ) -> Any:
        """Return a parameter, created by `init_fn(key, *args)` if it does not exist.

        Raises: ScopeCollectionNotFound, ScopeParamNotFoundError if it cannot be created;
            ScopeParamShapeError if it has another shape than `init_fn` returns.
        """
        self.reserve(name, "params")
        here = self.collection("params")
        if name in here:
            value = here[name]
            made = shapes_made(init_fn, init_args, init_kwargs)
            is_array = is_typed(value)
            if unbox and not is_array:
                value = unboxed(value)
            leaves = (value,) if is_array else tree_leaves(value)
            for given, wanted in zip(leaves, made, strict=False):
                shape = aval_of(given).shape
                if shape != wanted:
                    raise ScopeParamShapeError(name, self.path_text, shape, wanted)
            return value
        if not self.is_mutable_collection("params"):
            if self.is_collection_empty("params"):
                raise self._no_collection("params", name)
            raise ScopeParamNotFoundError(name, self.path_text, self._names_there("params"))
        value = init_fn(self.make_rng("params"), *init_args, **init_kwargs)
        self.put_variable("params", name, value)
        return unboxed(value) if unbox else value


class Variable(Generic[T]):
    """A named variable of a collection: `value` reads and writes it.

    Example:
        >>> class Counter(linen.Module):
        ...     @linen.compact
        ...     def __call__(self):
        ...         count = self.variable("counts", "calls", lambda: 0)
        ...         count.value += 1
        ...         return count.value
        >>> Counter().apply({"counts": {"calls": 4}}, mutable=["counts"])
        (5, {'counts': {'calls': 5}})
    """

    __slots__ = ("collection", "name", "scope", "unbox")

    def __init__(self, scope: Scope, collection: str, name: str, unbox: bool = True) -> None:
        self.scope = scope
        self.collection = collection
        self.name = name
        self.unbox = unbox

    @property
    def value(self) -> T:
        """The current value."""
        value: T = self.scope.get_variable(self.collection, self.name)
        return unboxed(value) if self.unbox and not is_typed(value) else value

    @value.setter
    def value(self, value: T) -> None:
        scope = self.scope
        boxed: Any = value
        if self.unbox:
            before = scope.get_variable(self.collection, self.name)
            if _holds_boxes(before) and not _holds_boxes(value):
                boxed = replace_boxed(before, value)
        scope.put_variable(self.collection, self.name, boxed)

    def is_mutable(self) -> bool:
        """Tell whether the variable may be written."""
        return self.scope.is_mutable_collection(self.collection)

    def __repr__(self) -> str:
        where = "/".join((*self.scope.path, self.name))
        return f"Variable({self.collection}: {where})"


def _holds_boxes(tree: Any) -> bool:
    return any(map(is_axis_metadata, tree_leaves(tree, is_leaf=is_axis_metadata)))


def thawed(tree: Any) -> Any:
    """Copy nested mappings into plain dictionaries; leaves are shared."""
    if isinstance(tree, Mapping):
        return {name: thawed(value) for name, value in tree.items()}
    return tree


_shapes: WeakKeyDictionary[Any, dict[Any, list[tuple[Any, ...]]]] = WeakKeyDictionary()


def shapes_made(
    init_fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """Return the shapes of the leaves that an initializer returns, cached for its lifetime."""
    try:
        known = _shapes.setdefault(init_fn, {})
        question = (args, tuple(kwargs.items()))
        found = known.get(question)
        if found is not None:
            return found
    except TypeError:
        known = {}
        question = None
    made = eval_shape(lambda: init_fn(random_key(0), *args, **kwargs))
    shapes = [tuple(leaf.shape) for leaf in tree_leaves(made)]
    if question is not None:
        known[question] = shapes
    return shapes
