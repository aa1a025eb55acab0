"""The classes that are inner nodes of pytrees: built-in ones, and those registered by users.

A node kind says how to flatten a value into children and metadata, how to unflatten it, and what
its children are called in key paths. Everything else is a leaf. The runtime implements the usual
containers, namedtuples and dataclasses; other kinds have functions: one from a value to its
children and metadata, one from metadata and children to a value, and one from metadata and the
number of children to key entries, or from a value to (key entry, child) pairs and metadata.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar, cast

from kiln import _runtime
from kiln._runtime import Form, NodeKind
from kiln.base.caches.revisions import revise
from kiln.base.errors import three_lines
from kiln.base.pickled import pickled_as, reduced
from kiln.base.source import current_source
from kiln.base.tree.keys import DictKey, GetAttrKey

T = TypeVar("T")
C = TypeVar("C", bound=type)


def sorted_keys(mapping: dict[Any, Any]) -> tuple[Any, ...]:
    """Return the keys of a dict in the order of its leaves."""
    try:
        return tuple(sorted(mapping))
    except TypeError as error:
        raise ValueError(
            three_lines(
                f"a dict with the keys {list(mapping)!r:.200} was used as a pytree"
                f" at {current_source()}",
                f"its leaves are ordered by key, but the keys cannot be sorted ({error})",
                "use keys of one type, or a collections.OrderedDict",
            )
        ) from None


def _defaultdict_flatten(value: collections.defaultdict[Any, Any]) -> tuple[list[Any], Any]:
    # Another thread may change it meanwhile.
    found = dict(value)
    keys = sorted_keys(found)
    return [found[key] for key in keys], (value.default_factory, keys)


def _ordered_dict_flatten(
    value: collections.OrderedDict[Any, Any],
) -> tuple[list[Any], tuple[Any, ...]]:
    items = list(value.items())
    return [child for _, child in items], tuple(key for key, _ in items)


def _defaultdict_build(data: Any, children: Sequence[Any]) -> Any:
    factory, keys = data
    return collections.defaultdict(factory, zip(keys, children, strict=True))


KINDS: dict[type, NodeKind] = {
    tuple: NodeKind(form=Form.TUPLE),
    list: NodeKind(form=Form.LIST),
    type(None): NodeKind(form=Form.NONE),
    dict: NodeKind(form=Form.DICT),
    collections.OrderedDict: NodeKind(
        _ordered_dict_flatten,
        lambda keys, kids: collections.OrderedDict(zip(keys, kids, strict=True)),
        lambda keys, count: [DictKey(key) for key in keys],
    ),
    collections.defaultdict: NodeKind(
        _defaultdict_flatten,
        _defaultdict_build,
        lambda data, count: [DictKey(key) for key in data[1]],
    ),
}
"""Node kinds by exact class; namedtuple classes are added when first seen."""

LEAF_TYPES: set[type] = {bool, int, float, complex, str, bytes}
"""Classes known to be leaves; only ones that are never freed."""

_PERMANENT = ("builtins", "numpy", "kiln", "ml_dtypes")


def kind_of_new(cls: type) -> NodeKind | None:
    """Return the node kind of a class that is not in a table yet, or None for leaves."""
    found = KINDS.get(cls)
    if found is not None:
        return found
    if is_namedtuple(cls):
        names: tuple[str, ...] = tuple(cls._fields)  # type: ignore[attr-defined]
        kind = NodeKind(registered=False, form=Form.NAMEDTUPLE, children=names)
        return KINDS.setdefault(cls, kind)
    if cls.__module__.partition(".")[0] in _PERMANENT:
        LEAF_TYPES.add(cls)
    return None


_runtime.set_tree_tables(KINDS, LEAF_TYPES, kind_of_new, sorted_keys)


def is_namedtuple(cls: type) -> bool:
    """Tell whether a class was made by namedtuple or NamedTuple."""
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def flatten_one_level(tree: Any) -> tuple[list[Any], Any] | None:
    """Return the children and the metadata of a node, or None for a leaf."""
    node = KINDS.get(type(tree)) or kind_of_new(type(tree))
    if node is None:
        return None
    children, data = node.take_apart(tree)
    return list(children), data


def _register(cls: type, kind: NodeKind) -> None:
    known = KINDS.get(cls)
    if known is not None and known.registered:
        raise ValueError(
            three_lines(
                f"registration of {cls} at {current_source()}: "
                "Duplicate custom PyTreeDef type registration",
                "a class is a pytree node in one way only",
                "remove one of the two registrations",
            )
        )
    KINDS[cls] = kind
    LEAF_TYPES.discard(cls)
    _runtime.forget_leaf_types()
    revise()


def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Hashable]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_with_keys_func: Callable[[T], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Make a class a pytree node: `flatten_func(x) -> (children, metadata)` and back.

    Raises: ValueError if the class is already registered.
    """
    if not all([isinstance(nodetype, type), callable(flatten_func), callable(unflatten_func)]):
        raise TypeError(
            three_lines(
                f"register_pytree_node({nodetype!r}, {flatten_func!r}, {unflatten_func!r})"
                f" at {current_source()}",
                "a class and two functions are needed",
                "give flatten_func(x) -> (children, metadata), unflatten_func(metadata, children)",
            )
        )
    _register(
        nodetype,
        NodeKind(
            flatten_func,
            lambda data, kids: unflatten_func(data, tuple(kids)),
            keyed=flatten_with_keys_func,
        ),
    )


def register_pytree_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Any], T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Make a class a pytree node whose children have names: ((key entry, child), ...), metadata.

    `flatten_with_keys` returns ((key, child), ...) and hashable metadata of a value of `nodetype`;
    `unflatten_func(metadata, children)` makes a value; `flatten_func` is the same as the first
    without keys, for speed.
    Raises: ValueError if the class is registered already.
    """

    def flatten_without_keys(value: T) -> tuple[Iterable[Any], Any]:
        pairs, data = flatten_with_keys(value)
        return [child for _, child in pairs], data

    register_pytree_node(
        nodetype, flatten_func or flatten_without_keys, unflatten_func, flatten_with_keys
    )


def register_pytree_node_class(cls: C) -> C:
    """Decorate a class that has `tree_flatten()` and a classmethod `tree_unflatten(data, kids)`."""
    node: Any = cls
    register_pytree_node(cls, lambda x: x.tree_flatten(), node.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: C) -> C:
    """Decorate a class that has `tree_flatten_with_keys(self)` and `tree_unflatten`."""
    node: Any = cls
    register_pytree_with_keys(
        cls,
        lambda x: x.tree_flatten_with_keys(),
        node.tree_unflatten,
        (lambda x: x.tree_flatten()) if hasattr(cls, "tree_flatten") else None,
    )
    return cls


def register_dataclass(
    nodetype: C,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> C:
    """Make a dataclass a pytree node: `data_fields` are children, `meta_fields` are metadata.

    By default, the fields made by `static_field` are metadata and the others children.
    Raises: ValueError if the named fields are not those of the dataclass's constructor.
    """
    if data_fields is None or meta_fields is None:
        if (data_fields is None) != (meta_fields is None) or not dataclasses.is_dataclass(nodetype):
            raise TypeError(
                three_lines(
                    f"register_dataclass({nodetype!r}) at {current_source()}",
                    "register_dataclass: data_fields and meta_fields "
                    + (
                        "must both be specified when either is specified. Got "
                        f"data_fields={data_fields} meta_fields={meta_fields}."
                        if (data_fields is None) != (meta_fields is None)
                        else f"are required when nodetype is not a dataclass. Got {nodetype=}"
                    ),
                    "give both; only a dataclass can be registered without them",
                )
            )
        fields = [f for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields]
        data_fields = [f.name for f in fields if not f.metadata.get("static", False)]
        meta_fields = [f.name for f in fields if f.metadata.get("static", False)]
    data_names, meta_names = tuple(data_fields), tuple(meta_fields)
    if both := {*data_names} & {*meta_names}:
        raise ValueError(
            three_lines(
                f"register_dataclass({nodetype.__name__}, ...) at {current_source()}",
                f"data_fields and meta_fields must not overlap. Overlapping fields: {_names(both)}",
                "leave each field in one of the two",
            )
        )
    if dataclasses.is_dataclass(nodetype):
        _check_fields(nodetype, {*data_names, *meta_names}, set(drop_fields))
    kind = NodeKind(form=Form.FIELDS, children=data_names, metadata=meta_names)
    _register(nodetype, kind)
    return nodetype


def static_field(**options: Any) -> Any:
    """Declare a dataclass field that is metadata; accepts the options of `dataclasses.field`.

    Example:
        >>> import dataclasses
        >>> @kiln.tree_util.register_dataclass
        ... @dataclasses.dataclass
        ... class Scaled:
        ...     value: kiln.Array
        ...     unit: str = kiln.tree.static(default="m")
        >>> kiln.tree.leaves(Scaled(1.0))
        [1.0]
    """
    metadata = {**(options.pop("metadata", None) or {}), "static": True}
    return dataclasses.field(metadata=metadata, **options)


def _check_fields(cls: Any, named: set[str], dropped: set[str]) -> None:
    wanted = {f.name for f in dataclasses.fields(cls) if f.init} - dropped
    if named == wanted:
        return
    missing, unexpected = wanted - named, named - wanted
    wrong = [f"Missing fields: {_names(missing)}." if missing else ""]
    wrong += [f"Unexpected fields: {_names(unexpected)}." if unexpected else ""]
    raise ValueError(
        three_lines(
            f"register_dataclass({cls.__name__}, ...) at {current_source()}",
            "data_fields and meta_fields must include all dataclass fields of the constructor, and "
            "only them. " + " ".join(filter(None, wrong)),
            "add each field to one of the two, or to drop_fields",
        )
    )


def _names(fields: set[str]) -> str:
    return "{" + ", ".join(map(repr, sorted(fields))) + "}"


def register_static(cls: C) -> C:
    """Decorate a class whose instances are metadata: no leaves, compared by `==`.

    Raises: ValueError if the class is registered already.
    """
    _register(cls, NodeKind(lambda x: ((), x), lambda data, kids: data))
    return cls


@pickled_as("Partial")
class Partial(functools.partial, Generic[T]):  # type: ignore[type-arg]
    """`functools.partial` as a pytree: the function is metadata, bound arguments are children."""

    def __new__(cls, func: Callable[..., T], /, *args: Any, **kwargs: Any) -> Partial[T]:
        """Bind arguments to a function."""
        # functools.partial would merge the arguments of an inner partial into ours, and so turn
        # parts of the function into leaves.
        if isinstance(func, functools.partial):
            func = _Opaque(func)
        return super().__new__(cls, func, *args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        kind, func, state = cast("tuple[Any, ...]", super().__reduce__())
        return (*reduced("Partial", *func), state) if kind is Partial else (kind, func, state)


@pickled_as("Partial.func")
class _Opaque:
    """A callable that is not recognized as a partial."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self.func = func
        functools.update_wrapper(self, func)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "func":
            raise AttributeError(name)
        return getattr(self.func, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced("Partial.func", self.func)

    def __eq__(self, other: object) -> bool:
        return bool(self.func == (other.func if isinstance(other, _Opaque) else other))

    def __hash__(self) -> int:
        return hash(self.func)

    def __repr__(self) -> str:
        return repr(self.func)


register_pytree_with_keys(
    Partial,
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
    lambda p: ((p.args, p.keywords), p.func),
)
