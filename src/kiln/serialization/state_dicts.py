"""Converting trees of any kind to state dicts, nested dicts with string keys, and back.

A table maps classes to conversions (`register_serialization_state`). A value whose class is not in
the table is a leaf. Restoring needs a target, which determines the structure.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from kiln._runtime import Assigned
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import Partial
from kiln.base.tree.nodes import is_namedtuple

StateDict = dict[str, Any]
ToState = Callable[[Any], Any]
FromState = Callable[[Any, Any], Any]


class _NamedTuple:
    """The key under which all named tuples are registered."""


_handlers: dict[type, tuple[ToState, FromState]] = {}


class _Path(threading.local):
    """The names from the root to the subtree that this thread is restoring."""

    names: tuple[str, ...] = ()


_path = _Path()


def current_path() -> str:
    """Return the path in the target that `from_state_dict` is restoring, as `./name/name`."""
    return "/".join(_path.names)


def _inside(name: str) -> AbstractContextManager[None]:
    return Assigned(_path, "names", (*_path.names, name), None)


def _handler(value: Any) -> tuple[ToState, FromState] | None:
    cls = type(value)
    return _handlers.get(_NamedTuple if is_namedtuple(cls) else cls)


def is_serializable(target: Any) -> bool:
    """Tell whether values of a class, or a value, become subtrees of a state dict."""
    cls = target if isinstance(target, type) else type(target)
    return cls in _handlers


def register_serialization_state(
    ty: type, ty_to_state_dict: ToState, ty_from_state_dict: FromState, override: bool = False
) -> None:
    """Register how values of a class are saved, and restored by `(target, state) -> value`.

    Raises: ValueError if the class is already registered, unless `override`.
    """
    if ty in _handlers and not override:
        raise ValueError(
            three_lines(
                f"register_serialization_state({ty.__name__}, ...) at {current_source()}",
                f'a serialization handler for "{ty.__name__}" is already registered',
                "pass override=True to replace it",
            )
        )
    _handlers[ty] = (ty_to_state_dict, ty_from_state_dict)


def to_state_dict(target: Any) -> Any:
    """Convert a tree to nested dicts with string keys; a leaf is returned unchanged.

    Raises: ValueError if two keys of a dict have the same text.
    """
    handler = _handler(target)
    if handler is None:
        return target
    state = handler[0](target)
    if isinstance(state, dict) and not all(isinstance(key, str) for key in state):
        raise ValueError(
            three_lines(
                f"to_state_dict of a {type(target).__name__} at {current_source()}",
                "A state dict must only have string keys.",
                "correct the function given to register_serialization_state",
            )
        )
    return state


def from_state_dict(target: Any, state: Any, name: str = ".") -> Any:
    """Restore a tree like `target` from the leaves of a state dict.

    Extra names in the state of a dict are ignored. Arrays must have the shape and the dtype of the
    target's; for a target that is a Python number or None, any value is accepted.

    Raises: ValueError with the path, for missing names, wrong shapes and wrong dtypes.
    """
    with _inside(name):
        handler = _handler(target)
        if handler is None:
            _require_alike(target, state)
            return state
        if not isinstance(state, Mapping):
            _mismatch(
                target,
                f"the target is a {type(target).__name__}, the state a {type(state).__name__}",
                "pass a state dict that to_state_dict made from such a target",
            )
        return handler[1](target, state)


def _mismatch(target: Any, wrong: str, remedy: str) -> None:
    raise ValueError(
        three_lines(
            f"from_state_dict into a {_kind(target)} at path {current_path()}"
            f" at {current_source()}",
            wrong,
            remedy,
        )
    )


def _kind(target: Any) -> str:
    return f"{target.dtype} array" if hasattr(target, "dtype") else type(target).__name__


def _require_alike(target: Any, state: Any) -> None:
    shape, dtype = getattr(target, "shape", None), getattr(target, "dtype", None)
    if shape is None or dtype is None or state is None:
        return
    given = getattr(state, "shape", None)
    found = tuple(np.shape(state)) if given is None else tuple(given)
    if found != tuple(shape):
        _mismatch(
            target,
            f"the target has the shape {tuple(shape)}, the state {found}",
            "restore into a target made with the same sizes, or change the state dict first",
        )
    stored = getattr(state, "dtype", None)
    if stored is not None and stored != dtype:
        _mismatch(
            target,
            f"the target has the dtype {dtype}, the state {stored}",
            f"restore into a target of dtype {stored} and convert afterwards",
        )


def _dict_to_state(value: Mapping[Any, Any]) -> StateDict:
    state = {str(key): to_state_dict(child) for key, child in value.items()}
    if len(state) != len(value):
        keys = list(value)
        raise ValueError(
            three_lines(
                f"to_state_dict of a dict with the keys {keys} at {current_source()}",
                f"Dict keys do not have a unique string representation: {set(state)} vs given: "
                f"{keys}",
                "use keys with distinct strings",
            )
        )
    return state


def restored_items(target: Mapping[Any, Any], state: Mapping[str, Any]) -> dict[Any, Any]:
    """Return the items of a mapping restored from a state dict.

    Raises: ValueError if the state lacks a key of the target.
    """
    missing = [str(key) for key in target if str(key) not in state]
    if missing:
        _mismatch(
            target,
            "The target dict keys and state dict keys do not match, target dict contains keys "
            f"{set(missing)} which are not present in state dict",
            f"the state has the keys {sorted(state)}: rename them, or take the names out of the "
            "target",
        )
    return {k: from_state_dict(child, state[str(k)], str(k)) for k, child in target.items()}


def _list_to_state(value: Sequence[Any]) -> StateDict:
    return {str(i): to_state_dict(child) for i, child in enumerate(value)}


def _list_from_state(target: Sequence[Any], state: Mapping[str, Any]) -> list[Any]:
    if len(state) != len(target):
        _mismatch(
            target,
            "The size of the list and the state dict do not match, got "
            f"{len(target)} and {len(state)}",
            "restore into a list of the same length",
        )
    missing = [str(i) for i in range(len(target)) if str(i) not in state]
    if missing:
        _mismatch(
            target,
            f"the state of a list has the keys '0', '1', ...; {missing} are missing",
            f"the state has the keys {sorted(state)}: rename them",
        )
    return [from_state_dict(child, state[str(i)], str(i)) for i, child in enumerate(target)]


def _namedtuple_to_state(value: Any) -> StateDict:
    return {name: to_state_dict(getattr(value, name)) for name in value._fields}


def _namedtuple_from_state(target: Any, state: Mapping[str, Any]) -> Any:
    if set(state) == {"name", "fields", "values"}:
        # The format in which old programs stored named tuples.
        count = len(state["fields"])
        state = {state["fields"][str(i)]: state["values"][str(i)] for i in range(count)}
    if set(state) != set(target._fields):
        _mismatch(
            target,
            "The field names of the state dict and the named tuple do not match, got "
            f"{set(state)} and {set(target._fields)}",
            "restore into the class that was saved",
        )
    return type(target)(
        **{name: from_state_dict(getattr(target, name), state[name], name) for name in state}
    )


def register_fields(cls: type, names: Sequence[str]) -> None:
    """Register a dataclass to be saved as its fields `names`, and restored by `replace`.

    Raises: ValueError, when a value is restored, if the state does not have these fields.
    """

    def to_state(value: Any) -> StateDict:
        return {name: to_state_dict(getattr(value, name)) for name in names}

    def from_state(target: Any, state: Mapping[str, Any]) -> Any:
        what = f"in state dict while restoring an instance of {cls.__name__}"
        missing = [name for name in names if name not in state]
        if missing:
            fields = "field" if len(missing) == 1 else "fields"
            _mismatch(
                target,
                f"Missing {fields} {', '.join(missing)} {what},",
                f"the state has {sorted(state)}: add what is missing, or restore into the class "
                "that was saved",
            )
        unknown = [name for name in state if name not in names]
        if unknown:
            listed = ", ".join(f'"{name}"' for name in unknown)
            _mismatch(
                target,
                f"Unknown field(s) {listed} {what}",
                f"the class has the fields {list(names)}: remove the others from the state",
            )
        return target.replace(
            **{n: from_state_dict(getattr(target, n), state[n], n) for n in names}
        )

    register_serialization_state(cls, to_state, from_state)


def _partial_to_state(value: Any) -> StateDict:
    return {"args": to_state_dict(value.args), "keywords": to_state_dict(value.keywords)}


def _partial_from_state(target: Any, state: Mapping[str, Any]) -> Any:
    return Partial(
        target.func,
        *from_state_dict(target.args, state["args"], "args"),
        **from_state_dict(target.keywords, state["keywords"], "keywords"),
    )


register_serialization_state(dict, _dict_to_state, restored_items)
register_serialization_state(list, _list_to_state, _list_from_state)
register_serialization_state(
    tuple, _list_to_state, lambda target, state: tuple(_list_from_state(list(target), state))
)
register_serialization_state(_NamedTuple, _namedtuple_to_state, _namedtuple_from_state)
register_serialization_state(Partial, _partial_to_state, _partial_from_state)
