"""The parts of kiln that run on every call, in C++ (`_runtime/`)."""

from collections.abc import Callable, Iterable
from typing import Any

# state.cc

class State:
    """What the thread that asks has in force."""

    overrides: dict[str, Any] | None
    root: Any
    trace: Any
    axes: tuple[tuple[Any, Any], ...]
    source: Any

state: State

def options() -> Any: ...
def set_base_options(options: Any, /) -> None: ...
def set_merge(merge: Callable[[Any, dict[str, Any]], Any], /) -> None: ...

# tree.cc

class NodeKind:
    """How values of one class come apart and are put together."""

    flatten: Callable[[Any], tuple[Iterable[Any], Any]]
    build: Callable[[Any, Any], Any]
    entries: Callable[[Any, int], Any] | None
    keyed: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None
    registered: bool

    def __init__(
        self,
        flatten: Callable[[Any], tuple[Iterable[Any], Any]],
        build: Callable[[Any, Any], Any],
        entries: Callable[[Any, int], Any] | None = None,
        keyed: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
        registered: bool = True,
        form: int = 0,
        children: tuple[str, ...] | None = None,
        metadata: tuple[str, ...] | None = None,
    ) -> None: ...

class TreeDef:
    """The structure of a pytree."""

    def __init__(self, key: Any, /) -> None: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    @property
    def key(self) -> Any: ...
    @property
    def num_leaves(self) -> int: ...
    def unflatten(self, leaves: Iterable[Any], /) -> Any: ...
    def flatten_up_to(self, tree: Any, /) -> list[Any]: ...

def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], Any]: ...
def set_tree_tables(
    kinds: dict[type, Any], leaf_types: set[type], kind_of_new: Callable[[type], Any], /
) -> None: ...
def set_tree_class(cls: type, sorted_keys: Any, wrong_count: Any, no_prefix: Any, /) -> None: ...
def forget_leaf_types() -> None: ...
