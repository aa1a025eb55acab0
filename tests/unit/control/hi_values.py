"""High values that tests define, as libraries do: a scaled array, and a box."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln.experimental import hijax


@dataclasses.dataclass(frozen=True)
class Scaled:
    """An array as small integers and a scale."""

    small: Any
    scale: Any


@dataclasses.dataclass(frozen=True)
class ScaledTy(hijax.HiType):
    shape: tuple[int, ...]

    def lo_ty(self) -> list[Any]:
        return [
            hijax.ShapedArray(self.shape, np.dtype(np.int8)),
            hijax.ShapedArray((), np.dtype(np.float32)),
        ]

    def lower_val(self, hi_val: Any) -> list[Any]:
        return [hi_val.small, hi_val.scale]

    def raise_val(self, *lo_vals: Any) -> Any:
        return Scaled(*lo_vals)

    def to_tangent_aval(self) -> Any:
        return hijax.ShapedArray(self.shape, np.dtype(np.float32))


hijax.register_hitype(Scaled, lambda x: ScaledTy(tuple(x.small.shape)))


class ToScaled(hijax.HiPrimitive):
    """Round to multiples of the largest number by 127."""

    def abstract_eval(self, x: Any) -> Any:
        return ScaledTy(x.shape), set()

    def to_lojax(self, x: Any) -> Any:
        scale = jnp.max(jnp.abs(x)) / 127
        return Scaled(jnp.round(x / scale).astype(jnp.int8), scale)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        return to_scaled_p.bind(*primals), hijax.instantiate_zeros(tangents[0])


class FromScaled(hijax.HiPrimitive):
    def abstract_eval(self, x: Any) -> Any:
        return hijax.ShapedArray(x.shape, np.dtype(np.float32)), set()

    def to_lojax(self, x: Any) -> Any:
        return x.small.astype(jnp.float32) * x.scale

    def jvp(self, primals: Any, tangents: Any) -> Any:
        return from_scaled_p.bind(*primals), hijax.instantiate_zeros(tangents[0])


to_scaled_p = ToScaled("to_scaled")
from_scaled_p = FromScaled("from_scaled")


def rounded(x: Any) -> Any:
    return from_scaled_p.bind(to_scaled_p.bind(x))


@dataclasses.dataclass(frozen=True)
class Pair:
    """A number as the sum of a large and a small part."""

    large: Any
    small: Any


@dataclasses.dataclass(frozen=True)
class PairTy(hijax.HiType):
    part: Any

    def lo_ty(self) -> list[Any]:
        return [self.part, self.part]

    def lower_val(self, hi_val: Any) -> list[Any]:
        return [hi_val.large, hi_val.small]

    def raise_val(self, *lo_vals: Any) -> Any:
        return Pair(*lo_vals)

    def to_tangent_aval(self) -> Any:
        return PairTy(self.part.to_tangent_aval())


hijax.register_hitype(Pair, lambda x: PairTy(kiln.typeof(x.large)))


class Halve(hijax.HiPrimitive):
    """Round to whole numbers; what is left is the small part. The derivative: a tenth of it too."""

    def abstract_eval(self, x: Any) -> Any:
        return PairTy(x), set()

    def to_lojax(self, x: Any) -> Any:
        large = jnp.round(x)
        return Pair(large, x - large)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        return halve_p.bind(*primals), tenth_p.bind(*tangents)


class Tenth(hijax.HiPrimitive):
    def abstract_eval(self, x: Any) -> Any:
        return PairTy(x), set()

    def to_lojax(self, x: Any) -> Any:
        return Pair(x, x / 10)

    def jvp(self, primals: Any, tangents: Any) -> Any:
        return tenth_p.bind(*primals), tenth_p.bind(*tangents)

    def transpose(self, ct: Any, x: Any) -> Any:
        assert type(ct) is Pair and hijax.is_undefined_primal(x)
        return [ct.large + ct.small / 10]


class Total(hijax.HiPrimitive):
    def abstract_eval(self, x: Any) -> Any:
        return x.part, set()

    def to_lojax(self, x: Any) -> Any:
        return x.large + x.small

    def jvp(self, primals: Any, tangents: Any) -> Any:
        if type(tangents[0]) is hijax.Zero:
            return total_p.bind(*primals), tangents[0]
        assert type(tangents[0]) is Pair
        return total_p.bind(*primals), total_p.bind(*tangents)

    def transpose(self, ct: Any, x: Any) -> Any:
        assert hijax.is_undefined_primal(x) and type(x.aval) is PairTy
        return [Pair(ct, ct)]


halve_p = Halve("halve")
tenth_p = Tenth("tenth")
total_p = Total("total")


def halved(x: Any) -> Any:
    return total_p.bind(halve_p.bind(x))


@dataclasses.dataclass(frozen=True)
class BoxState:
    leaf_avals: tuple[Any, ...]
    treedef: Any

    def normalize(self) -> Any:
        return BoxState(tuple(x.normalize() for x in self.leaf_avals), self.treedef)


class BoxTy(hijax.MutableHiType):
    def __hash__(self) -> int:
        return hash(BoxTy)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoxTy)

    def lo_ty_qdd(self, state: Any, /) -> list[Any]:
        return [lo for kind in state.leaf_avals for lo in kind.lo_ty()]

    def new_from_loval(self, state: Any, /, *vals: Any) -> Any:
        return Box._new(kiln.tree.unflatten(state.treedef, vals))

    def read_loval(self, state: Any, val: Any, /) -> list[Any]:
        leaves = kiln.tree.leaves(val.get())
        assert len(leaves) == len(state.leaf_avals)
        return leaves

    def update_from_loval(self, state: Any, val: Any, /, *lo_vals: Any) -> None:
        val.set(kiln.tree.unflatten(state.treedef, lo_vals))


class Box:
    """Holds a tree of arrays, which changes."""

    _val: Any

    def __new__(cls, value: Any = None) -> Any:
        box = new_box_p.bind()
        box.set(value)
        return box

    @classmethod
    def _new(cls, value: Any) -> Any:
        box = super().__new__(cls)
        box._val = value
        return box

    def get(self) -> Any:
        state = kiln.experimental.cur_qdd(self)
        leaves = box_get_p.bind(self, avals=state.leaf_avals)
        return kiln.tree.unflatten(state.treedef, leaves)

    def set(self, value: Any) -> None:
        leaves, treedef = kiln.tree.flatten(value)
        box_set_p.bind(self, *leaves, treedef=treedef)

    def cur_qdd(self) -> Any:
        leaves, treedef = kiln.tree.flatten(self._val)
        return BoxState(tuple(map(kiln.typeof, leaves)), treedef)


hijax.register_hitype(Box, lambda box: BoxTy())


class NewBox(hijax.HiPrimitive):
    def abstract_eval(self) -> Any:
        return hijax.AvalQDD(BoxTy(), BoxState((), kiln.tree.structure(None))), set()

    def to_lojax(self) -> Any:
        return Box._new(None)


class BoxGet(hijax.HiPrimitive):
    multiple_results = True

    def to_lojax(self, box: Any, *, avals: Any) -> Any:
        return kiln.tree.leaves(box._val)


class BoxSet(hijax.HiPrimitive):
    multiple_results = True

    def to_lojax(self, box: Any, *leaves: Any, treedef: Any) -> Any:
        box._val = kiln.tree.unflatten(treedef, leaves)
        return []


new_box_p = NewBox("new_box")
box_get_p = BoxGet("box_get")
box_set_p = BoxSet("box_set")
