"""The rules of a `VJPHiPrimitive` as functions of the arrays that values consist of.

`hi_primitive_call_p` is the equation of a program that applies one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.errors import MissingRule, three_lines
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.base.tree import tree_flatten, tree_unflatten
from kiln.control.custom_rules.vjp import linearized
from kiln.core.absent import Zero, is_linear, is_zero
from kiln.core.hitypes import check_tangents, lowered, raised
from kiln.core.meaning import meaning
from kiln.core.primitive import Primitive
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import add
from kiln.ops.shape import filled
from kiln.transforms.batching import MappedAxis


class AxisData(Record):
    """The mapped axis, in the form that rules for stacks get."""

    size: Any
    name: Any = None
    spmd_name: Any = None
    explicit_mesh_axis: Any = None


class GradAccum:
    """Accumulates the cotangent of an operand for a backward rule."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval
        self.arrays: list[Any] | None = None

    def accum(self, ct: Any) -> None:
        """Add a cotangent; None and Zero add nothing."""
        if ct is None or is_zero(ct):
            return
        given = lowered([self.aval], [ct])
        self.arrays = given if self.arrays is None else list(map(add, self.arrays, given))

    def found(self) -> list[Any]:
        """Return the sum, as arrays."""
        return [Zero(aval) for aval in self.aval.lo_ty()] if self.arrays is None else self.arrays


class NullAccum(GradAccum):
    """The accumulator of an operand without a tangent: it drops cotangents."""

    def accum(self, ct: Any) -> None:
        """Drop a cotangent."""


class OnArrays:
    """The rules of a primitive as functions of the arrays that values consist of."""

    def __init__(self, prim: Any) -> None:
        self.prim = prim
        self.ins, self.outs = prim.in_avals_flat, prim.out_avals_flat

    def groups(self, arrays: Sequence[Any]) -> list[list[Any]]:
        """Divide arrays of the operands into those of each."""
        rest = iter(arrays)
        return [[next(rest) for _ in kind.lo_ty()] for kind in self.ins]

    def args(self, values: Sequence[Any]) -> Any:
        """Return values of the operands as a tuple of trees."""
        return tree_unflatten(self.prim.in_tree, values)

    def results(self, out: Any) -> list[Any]:
        """Return the arrays of a result."""
        return lowered(self.outs, self.prim.out_tree.flatten_up_to(out))

    def tangents(self, arrays: Sequence[Any]) -> Any:
        """Return tangents in the form that rules get: Zero, or a value."""
        return self.args(
            [
                Zero(kind.to_tangent_aval())
                if all(map(is_zero, group))
                else raised([kind.to_tangent_aval()], map(filled, group))[0]
                for kind, group in zip(self.ins, self.groups(arrays), strict=True)
            ]
        )

    def moved(self, tangents: Any) -> list[Any]:
        """Return the arrays of the tangent of a result."""
        found: list[Any] = []
        leaves = self.prim.out_tree.flatten_up_to(tangents)
        for kind, tangent in zip(self.outs, leaves, strict=True):
            to = kind.to_tangent_aval()
            found += [Zero(a) for a in to.lo_ty()] if is_zero(tangent) else lowered([to], [tangent])
        return found

    def nonzero(self, moving: Sequence[bool]) -> Any:
        """Return which operands have tangents, as a tuple of trees."""
        return self.args([any(group) for group in self.groups(moving)])


class Forward(Record, eq=False):
    """The forward rule of a primitive as a function of arrays."""

    prim: Any

    def __call__(self, primals: Sequence[Any], moving: Sequence[bool]) -> Any:
        """Return results, residuals, and how to read them."""
        on = OnArrays(self.prim)
        found = self.prim.vjp_fwd(on.nonzero(moving), *on.args(raised(on.ins, primals)))
        residuals, tree = tree_flatten(found[1])
        kinds = tuple([aval_of(x) for x in residuals])
        return on.results(found[0]), lowered(kinds, residuals), (kinds, tree, tuple(moving))


class Backward(Record, eq=False):
    """The backward rule of a primitive as a function of arrays."""

    prim: Any

    @property
    def __name__(self) -> str:
        return f"vjp_bwd of {type(self.prim).__name__}"

    def __call__(self, arrays: Sequence[Any], info: Any, cts: Sequence[Any], avals: Any) -> Any:
        """Return one cotangent per array of the operands."""
        on, (kinds, tree, moving) = OnArrays(self.prim), info
        to = [kind.to_ct_aval() for kind in on.outs]
        given = tree_unflatten(self.prim.out_tree, raised(to, map(filled, cts)))
        accumulators = [
            (GradAccum if any(group) else NullAccum)(kind.to_ct_aval())
            for kind, group in zip(on.ins, on.groups(moving), strict=True)
        ]
        residuals = tree_unflatten(tree, raised(kinds, arrays))
        self.prim.vjp_bwd(residuals, given, *on.args(accumulators))
        return [ct for accumulator in accumulators for ct in accumulator.found()]


class HiPrimitiveCall(Primitive):
    """Apply a `VJPHiPrimitive` to the arrays that its operands consist of."""

    name = "call_hi_primitive"
    multiple = True

    def infer(self, *xs: Any, prim: Any) -> list[ShapedArray]:
        return [aval for kind in prim.out_avals_flat for aval in kind.lo_ty()]

    def expand(self, *xs: Any, prim: Any) -> Any:
        on = OnArrays(prim)
        return on.results(prim.expand(*on.args(raised(on.ins, xs))))

    evaluate = expand

    def numpy(self, *xs: Any, prim: Any) -> Any:
        avals = [aval_of(x) for x in xs]
        return meaning(stage_pure(lambda *ys: self.expand(*ys, prim=prim), avals), xs)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], *, prim: Any) -> Any:
        on = OnArrays(prim)
        check_tangents(repr(prim), (*on.ins, *on.outs))
        if prim.has("jvp"):
            values = on.args(raised(on.ins, primals))
            out, moved = prim.jvp(values, on.tangents(tangents))
            return on.results(out), on.moved(moved)
        if prim.has("lin"):
            moving = [not is_zero(t) for t in tangents]
            values = on.args(raised(on.ins, primals))
            found = prim.lin(on.nonzero(moving), *values)
            return on.results(found[0]), on.moved(prim.linearized(found[1], *on.tangents(tangents)))
        return linearized(Forward(prim), Backward(prim), primals, tangents)

    def transpose(self, cts: Sequence[Any], *xs: Any, prim: Any) -> Any:
        on = OnArrays(prim)
        operands = [
            GradAccum(kind.to_ct_aval()) if any(map(is_linear, group)) else raised([kind], group)[0]
            for kind, group in zip(on.ins, on.groups(xs), strict=True)
        ]
        to = [kind.to_ct_aval() for kind in on.outs]
        given = tree_unflatten(prim.out_tree, raised(to, map(filled, cts)))
        prim.transpose(given, *on.args(operands))
        back: list[Any] = []
        for operand, group in zip(operands, on.groups(xs), strict=True):
            is_pulled = isinstance(operand, GradAccum)
            back += operand.found() if is_pulled else [None] * len(group)
        return back

    def batch_over(
        self, axis: MappedAxis, xs: Sequence[Any], axes: Sequence[Any], /, *, prim: Any
    ) -> Any:
        on = OnArrays(prim)
        dims = [
            _dim_of(prim, kind, group) for kind, group in zip(on.ins, on.groups(axes), strict=True)
        ]
        values = on.args(raised(on.ins, xs))
        data = AxisData(axis.size, axis.name)
        out, out_dims = prim.batch(data, values, tree_unflatten(prim.in_tree, dims))
        leaves, found = prim.out_tree.flatten_up_to(out), prim.out_tree.flatten_up_to(out_dims)
        at: list[Any] = []
        for kind, dim in zip(on.outs, found, strict=True):
            at += [_dim_of(prim, kind, [dim] * len(kind.lo_ty()))] * len(kind.lo_ty())
        return lowered([aval_of(x) for x in leaves], leaves), at

    def write(self, outs: Sequence[str], xs: Sequence[str], *, prim: Any) -> str:
        given = [f"{name}={value}" for name, value in sorted(prim.params.items())]
        named = f"{type(prim).__name__}{f'[{chr(32).join(given)}]' if given else ''}"
        return f"{' '.join(outs) or '_'} = {' '.join([named, *xs])}"


hi_primitive_call_p = HiPrimitiveCall()


def _dim_of(prim: Any, kind: Any, axes: Sequence[int | None]) -> int | None:
    """Return the position of the mapped axis of a value.

    Raises: MissingRule for a mapped high value.
    """
    if all(at is None for at in axes):
        return None
    if isinstance(kind, ShapedArray):
        return axes[0]
    raise MissingRule(
        three_lines(
            f"{prim!r} under vmap at {current_source()}",
            f"a value of type {kind} is mapped: its type does not say along which axes of its "
            "arrays",
            "map the arrays, and make the value outside of vmap",
        )
    )
