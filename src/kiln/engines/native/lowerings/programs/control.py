"""Loops and branches as statements that contain those of their bodies.

Each carry has one buffer, which the body reads and to which the next value is copied at the end of
an iteration; passes remove unnecessary copies. A row of what a scan runs over is a layout whose
offset depends on the loop's axis, and so is a row of its results.
"""

from __future__ import annotations

from collections.abc import Sequence

from kiln.control.cond import cond_p
from kiln.control.loops.fission import without_products
from kiln.control.loops.scan import scan_p
from kiln.control.loops.scan_split import split_by_counts
from kiln.control.loops.while_loop import while_p
from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.loop_ir.buffers import loaded
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.scalars import postorder
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Branch,
    Buffer,
    Index,
    Loop,
    Statement,
    Store,
    While,
    axis_index,
)
from kiln.engines.native.lowerings.elements import elementwise
from kiln.engines.native.lowerings.elements.elementwise import select_n
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray
from kiln.ops.elements import elementwise as ops
from kiln.ops.elements.conversion import convert_element_type_p

Out = Sequence[ShapedArray]
MOST_SELECTED = 6
"""Branches with at most this many operations are all computed, and one is selected."""
_SIMPLE = {
    *(elementwise.LOWERINGS.keys() - elementwise.FUNCTIONS.keys()),
    convert_element_type_p,
} - {ops.div_p, ops.rem_p, ops.pow_p, ops.nextafter_p}


def _while(
    b: Builder,
    out: Out,
    *operands: Layout,
    cond_jaxpr: Jaxpr,
    cond_nconsts: int,
    body_jaxpr: Jaxpr,
    body_nconsts: int,
) -> list[Layout]:
    cond_consts, body_consts, initial = split_by_counts(operands, cond_nconsts, body_nconsts)
    carry = [_variable(b, aval, x) for aval, x in zip(body_jaxpr.out_avals, initial, strict=True)]
    flag = b.room(cond_jaxpr.out_avals[0])
    with b.checking.inside("while", b.source), b.block() as condition:
        (goes_on,) = b.inline(cond_jaxpr, [*cond_consts, *carry])
        b.write(flag, goes_on)
    with b.checking.inside("while", b.source), b.block() as body:
        assign(b, carry, b.inline(body_jaxpr, [*body_consts, *carry]))
    b.body.append(While(condition, flag.buffer, body, b.source))
    return carry


def _scan(
    b: Builder,
    out: Out,
    *operands: Layout,
    jaxpr: Jaxpr,
    length: int,
    reverse: bool,
    num_consts: int,
    num_carry: int,
    unroll: int,
) -> list[Layout]:
    if type(length) is int and length > 1 and not b.checking.kinds and not b.is_batch_invariant:
        params = {"jaxpr": jaxpr, "length": length, "reverse": reverse, "unroll": unroll}
        split = without_products({**params, "num_consts": num_consts, "num_carry": num_carry})
        if split is not None:
            eqns = [e.with_(source=b.source) if e.primitive is scan_p else e for e in split.eqns]
            return b.inline(split.with_(eqns=eqns), operands)
    consts, carry, xs = split_by_counts(operands, num_consts, num_carry)
    ys = [b.room(aval) for aval in out[num_carry:]]
    if length == 0:
        return [*carry, *ys]
    axis = b.fresh_axis("t", length)

    def rows(values: Sequence[Layout]) -> list[Layout]:
        return [_row(x, axis, reverse=reverse) for x in values]

    if length == 1:
        outs = b.inline(jaxpr, [*consts, *carry, *rows(xs)])
        for y, row in zip(rows(ys), outs[num_carry:], strict=True):
            b.write(y, row)
        return [*outs[:num_carry], *ys]
    carry = [_variable(b, aval, x) for aval, x in zip(out, carry, strict=False)]
    given = [*consts, *carry, *rows(xs)]
    with b.checking.inside("scan", b.source), b.block() as body:
        outs = b.inline(jaxpr, given)
        # The old value of the carry is stored first, so that the carry may be overwritten early.
        early: list[Statement] = []
        earlier = {x.buffer for x in given}
        for y, row in zip(rows(ys), outs[num_carry:], strict=True):
            if earlier.issuperset((row.buffer, *_offset_reads(row))):
                with b.block() as writing:
                    b.write(y, row)
                early += writing
            else:
                b.write(y, row)
        body[:0] = early
        assign(b, carry, outs[:num_carry])
    b.body.append(Loop(axis, body, source=b.source))
    return [*carry, *ys]


def _row(x: Layout, axis: Axis, *, reverse: bool) -> Layout:
    """Return the layout of the row that an iteration of a loop processes."""
    (size, step), *axes = zip(x.shape, x.strides, strict=True)
    at = axis_index(axis) * step
    if reverse:
        at = axis_index(axis) * -step + (size - 1) * step
    return x.with_axes(axes).moved(at + x.offset)


def _variable(b: Builder, aval: ShapedArray, initial: Layout) -> Layout:
    """Return a new buffer with a value that statements may change."""
    made = b.room(aval)
    b.write(made, initial)
    return made


def assign(b: Builder, to: Sequence[Layout], values: Sequence[Layout]) -> None:
    """Write values to buffers simultaneously: the values may be in the same buffers.

    Values of one shape are written by one nest, so buffers can be swapped; a value elsewhere in the
    buffers is copied first.
    """
    moved = [(x, value) for x, value in zip(to, values, strict=True) if x != value]
    places = {x.buffer: x for x, _ in moved}
    nests: dict[tuple[int, ...], list[tuple[Layout, Layout]]] = {}
    for x, value in moved:
        place = places.get(value.buffer)
        moves = place is not None and (value.shape != x.shape or value != place)
        if moves or any(buffer in places for buffer in _offset_reads(value)):
            made = b.space(value.shape, value.dtype)
            b.write(made, value)
            value = made
        nests.setdefault(x.shape, []).append((x, value))
    for shape, pairs in nests.items():
        axes = b.axes(shape)
        effects: list[Store] = []
        for x, value in pairs:
            effects += b.stores(x, axes, b.read(value, axes))
        b.nest(axes, effects)


def _offset_reads(x: Layout) -> list[Buffer]:
    """Return the buffers that determine the offset of a value."""
    if not isinstance(x.offset, Index):
        return []
    return list(loaded(postorder(x.offset.operands)))


def _cond(
    b: Builder, out: Out, index: Layout, *operands: Layout, branches: Sequence[Jaxpr]
) -> list[Layout]:
    known = b.number(index)
    if known is not None or len(branches) == 1:
        chosen = min(max(int(known or 0), 0), len(branches) - 1)
        return b.inline(branches[chosen], operands)
    if all(map(_is_cheap, branches)) and not b.checking.kinds:
        # A branch misprediction costs more than computing all branches.
        cases = [b.inline(branch, operands) for branch in branches]
        return [
            select_n(b, [aval], index, *values)
            for aval, values in zip(out, zip(*cases, strict=True), strict=True)
        ]
    results = [b.room(aval) for aval in out]
    written: list[list[Statement]] = []
    for branch in branches:
        with b.block() as block:
            values = b.inline(branch, operands)
            for x, value in zip(results, values, strict=True):
                b.write(x, value)
        written.append(block)
    b.body.append(Branch(b.place(index), written, b.source))
    return results


def _is_cheap(branch: Jaxpr) -> bool:
    """Tell whether a branch has few simple operations on few elements."""
    return (
        len(branch.eqns) <= MOST_SELECTED
        and all(
            eqn.primitive in _SIMPLE and all(v.aval.shape == () for v in eqn.outvars)
            for eqn in branch.eqns
        )
        and all(aval.shape == () for aval in branch.out_avals)
    )


LOWERINGS: dict[Operation, Lowering] = {while_p: _while, cond_p: _cond, scan_p: _scan}
