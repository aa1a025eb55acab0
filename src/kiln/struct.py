"""Dataclasses that are pytrees: frozen, with `replace`, saved and restored by their fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform, overload

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.tree import register_dataclass
from kiln.serialization.state_dicts import register_fields

C = TypeVar("C", bound=type)
T = TypeVar("T")

__all__ = ["PyTreeNode", "dataclass", "field"]

_MARK = "_kiln_struct"


def field(
    pytree_node: bool = True, *, metadata: dict[str, Any] | None = None, **kwargs: Any
) -> Any:
    """Declare a field; with `pytree_node=False` it is metadata, compared by `==` and never traced.

    Accepts the options of `dataclasses.field`.
    """
    return dataclasses.field(
        metadata={**(metadata or {}), "pytree_node": pytree_node, "static": not pytree_node},
        **kwargs,
    )


@overload
def dataclass(clz: C, **kwargs: Any) -> C: ...
@overload
def dataclass(clz: None = None, **kwargs: Any) -> Callable[[C], C]: ...


@dataclass_transform(field_specifiers=(field,), frozen_default=True)
def dataclass(clz: Any = None, **kwargs: Any) -> Any:
    """Turn a class into a frozen dataclass that is a pytree node and has `replace(**fields)`.

    Accepts the options of `dataclasses.dataclass`.
    """
    if clz is None:
        return lambda cls: dataclass(cls, **kwargs)
    if _MARK in vars(clz):
        return clz
    kwargs.setdefault("frozen", True)
    made: Any = dataclasses.dataclass(**kwargs)(clz)
    data: list[str] = []
    meta: list[str] = []
    for f in dataclasses.fields(made):
        if f.init:
            (data if f.metadata.get("pytree_node", True) else meta).append(f.name)

    def replace(self: T, **updates: Any) -> T:
        """Return a copy with some fields replaced."""
        return dataclasses.replace(self, **updates)  # type: ignore[type-var]

    made.replace = replace
    register_dataclass(made, data, meta, [f.name for f in dataclasses.fields(made) if not f.init])
    register_fields(made, data)
    setattr(made, _MARK, True)
    return made


@dataclass_transform(field_specifiers=(field,), frozen_default=True)
class PyTreeNode:
    """A base class whose subclasses are dataclasses as made by `dataclass`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Turn the subclass into a dataclass with these options."""
        dataclass(cls, **kwargs)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Each subclass gets its own; this one tells type checkers that there is one.
        raise NotImplementedError

    def replace(self: T, **overrides: Any) -> T:
        """Return a copy with some fields replaced."""
        raise NotImplementedError


_suggest_names(globals())
