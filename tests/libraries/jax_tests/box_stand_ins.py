"""What JAX's tests of high values need from a private module: boxes and logs.

They are written here as any library would write them, with the public names of
`kiln.experimental.hijax`: a box holds a tree of values, which changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import kiln
from kiln.base.records import Record
from kiln.core.hitypes import lowered, raised
from kiln.experimental import hijax
from kiln.experimental.hijax import aval_method
from kiln.ir.own_effects import (
    OwnEffect,
    control_flow_allowed_effects,
    custom_derivatives_allowed_effects,
)


class BoxEffect(OwnEffect):
    """Reading or changing a box."""


box_effect = BoxEffect()
for _allowed in (control_flow_allowed_effects, custom_derivatives_allowed_effects):
    _allowed.add_type(BoxEffect)


class State(Record):
    """The types of what a box holds."""

    leaf_avals: tuple[Any, ...]
    treedef: Any

    def normalize(self) -> State:
        """Return the types without weak ones."""
        return State(tuple([kind.normalize() for kind in self.leaf_avals]), self.treedef)

    def to_tangent_qdd(self) -> State:
        """Return the types of what a tangent holds."""
        return State(tuple([kind.to_tangent_aval() for kind in self.leaf_avals]), self.treedef)


def _state_of(tree: Any) -> State:
    leaves, treedef = kiln.tree.flatten(tree)
    return State(tuple(map(kiln.typeof, leaves)), treedef)


class BoxTy(hijax.MutableHiType):
    """The type of a box."""

    def __hash__(self) -> int:
        return hash(type(self))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def lo_ty_qdd(self, state: Any, /) -> list[Any]:
        return [lo for kind in state.leaf_avals for lo in kind.lo_ty()]

    def new_from_loval(self, state: Any, /, *vals: Any) -> Any:
        return self.value_class._new(self._tree(state, vals))

    def read_loval(self, state: Any, val: Any, /) -> list[Any]:
        return lowered(state.leaf_avals, kiln.tree.leaves(val.get()))

    def update_from_loval(self, state: Any, val: Any, /, *lo_vals: Any) -> None:
        val.set(self._tree(state, lo_vals))

    def _tree(self, state: Any, lo_vals: Sequence[Any]) -> Any:
        return kiln.tree.unflatten(state.treedef, raised(state.leaf_avals, lo_vals))

    def to_tangent_aval(self) -> Any:
        return BoxTy()

    def str_short(self, *, short_dtypes: bool = False) -> str:
        return "BoxTy"

    value_class: Any = None


class Box:
    """Holds a tree of values, which changes."""

    _val: Any

    def __new__(cls, init_val: Any = None) -> Any:
        box = new_box_p.bind()
        box.set(init_val)
        return box

    @classmethod
    def _new(cls, value: Any) -> Any:
        box = super().__new__(cls)
        box._val = value
        return box

    def get(self) -> Any:
        state = kiln.experimental.cur_qdd(self)
        return kiln.tree.unflatten(state.treedef, box_get_p.bind(self, avals=state.leaf_avals))

    def set(self, value: Any) -> None:
        leaves, treedef = kiln.tree.flatten(value)
        box_set_p.bind(self, *leaves, treedef=treedef)

    def cur_qdd(self) -> State:
        return _state_of(self._val)

    type_state = cur_qdd


class LogTy(BoxTy):
    """The type of a log."""


class Log(Box):
    """Holds lists by name, which grow."""

    def __new__(cls) -> Any:
        return new_log_p.bind()

    @property
    def _dct(self) -> Any:
        return self._val

    def extend(self, lists: dict[str, list[Any]]) -> None:
        held = self.get()
        grown = {name: [*held.get(name, []), *items] for name, items in lists.items()}
        self.set({**held, **grown})

    def append(self, name: str, value: Any) -> None:
        self.extend({name: [value]})

    def read(self) -> Any:
        return self.get()


BoxTy.value_class = Box
LogTy.value_class = Log
hijax.register_hitype(Box, lambda box: BoxTy())
hijax.register_hitype(Log, lambda log: LogTy())


class _New(hijax.HiPrimitive):
    def __init__(self, name: str, kind: Any, empty: Any) -> None:
        super().__init__(name)
        self._kind, self._empty = kind, empty

    def abstract_eval(self) -> Any:
        return hijax.AvalQDD(self._kind, _state_of(self._empty)), {box_effect}

    def to_lojax(self) -> Any:
        return self._kind.value_class._new(self._empty)


class _Get(hijax.HiPrimitive):
    multiple_results = True

    def abstract_eval(self, box: Any, *, avals: Any) -> Any:
        return list(avals), {box_effect}

    def to_lojax(self, box: Any, *, avals: Any) -> Any:
        return kiln.tree.leaves(box._val)

    def jvp(self, primals: Any, tangents: Any, *, avals: Any) -> Any:
        moves = tuple([kind.to_tangent_aval() for kind in avals])
        return box_get_p.bind(*primals, avals=avals), box_get_p.bind(*tangents, avals=moves)


class _Set(hijax.HiPrimitive):
    multiple_results = True

    def to_lojax(self, box: Any, *leaves: Any, treedef: Any) -> Any:
        box._val = kiln.tree.unflatten(treedef, leaves)
        return []

    def jvp(self, primals: Any, tangents: Any, *, treedef: Any) -> Any:
        box_set_p.bind(*primals, treedef=treedef)
        box_set_p.bind(*tangents, treedef=treedef)
        return [], []


new_box_p = _New("new_box", BoxTy(), None)
new_log_p = _New("new_log", LogTy(), {})
box_get_p = _Get("box_get")
box_set_p = _Set("box_set")


def _set(box: Any, value: Any) -> None:
    box.set(value)


def _get(box: Any) -> Any:
    return box.get()


for _kind in (BoxTy, LogTy):
    _kind.get = aval_method(_get)
    _kind.set = aval_method(_set)


class MappingSpec:
    """The base of what says along which axes the arrays of a value are mapped."""


def box_stand_ins() -> dict[str, dict[str, Any]]:
    """Return the names by module."""
    return {
        "jax._src.hijax": {
            "Box": Box,
            "Log": Log,
            "MappingSpec": MappingSpec,
            "Ty": hijax.AbstractValue,
            "box_effect": box_effect,
            "box_get": _get,
            "box_set": _set,
            "custom_vjp3": kiln.custom_vjp,
            "new_box": Box,
        }
    }
