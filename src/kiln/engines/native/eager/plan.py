"""From a jaxpr to a plan of the extension: which loops run over which parts of which buffers.

Everything that depends only on types is done here, once: layouts, loops, constant folding. A
primitive without a loop falls back to its NumPy rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln._runtime import BufferSource, Container, Outcome, Plan
from kiln.base.dtypes import is_extended
from kiln.engines.native.eager.loops import (
    REDUCTIONS,
    RUNNING,
    copy_loop,
    loop_for,
    matrix_loop,
    named_loop,
    steps_of,
)
from kiln.engines.native.loop_ir.layout import VIEWS, Layout, dense
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.ir.operation import Operation
from kiln.ops.elements.elementwise import copy_p
from kiln.ops.elements.families import Elementwise
from kiln.ops.indexing import static_slicing
from kiln.ops.linear.contraction import accumulator_dtype, dot_general_p
from kiln.ops.reductions import reduction
from kiln.ops.shape import kept_axes

CONTAINERS: dict[type | None, Container] = {
    None: Container.SINGLE,
    tuple: Container.TUPLE,
    list: Container.LIST,
}

MOST_FOLDED_BYTES = 1 << 14
"""A larger constant result is computed when the plan runs."""
SHARED_BYTES = 1 << 12
"""A result that is a smaller part of an input is copied: that is faster than sharing it."""
MOST_COPIED_BYTES = 1 << 16
"""A larger part of an input is not copied: there is no plan, and the NumPy rule returns a view."""
MOST_AXES = 16


class Unplanned(Exception):
    """The program has no plan."""


def make_plan(jaxpr: Jaxpr, container: type | None) -> Plan | None:
    """Return a plan that runs a jaxpr, with its results in a container; None if there is none."""
    try:
        return _Planner(jaxpr).plan(container)
    except Unplanned:
        return None


class _Planner:
    def __init__(self, jaxpr: Jaxpr) -> None:
        self.jaxpr = jaxpr
        self.buffers: list[tuple[BufferSource, Any]] = []
        self.steps: list[tuple[Any, ...]] = []
        self.layouts: dict[Var, Layout] = {}
        self.known: dict[int, np.ndarray] = {}
        self.made: set[Var] = set()
        self.outputs = {v for v in jaxpr.outvars if isinstance(v, Var)}

    def plan(self, container: type | None) -> Plan:
        inputs = []
        for number, var in enumerate(self.jaxpr.invars):
            sizes, dtype = _plain(var.aval)
            self.layouts[var] = dense(self.buffer(BufferSource.INPUT, number), sizes, dtype)
            inputs.append((dtype, self.layouts[var].nbytes))
        for eqn in self.jaxpr.eqns:
            self.equation(eqn)
        results = [self.result(v) for v in self.jaxpr.outvars]
        fresh = [buffer for outcome, buffer, _ in results if outcome == Outcome.FRESH]
        if len(set(fresh)) < len(fresh) or not results:
            raise Unplanned
        return Plan(inputs, self.buffers, self.steps, results, CONTAINERS[container])

    # Buffers.

    def buffer(self, source: BufferSource, detail: Any) -> int:
        """Add a buffer and return its number."""
        self.buffers.append((source, detail))
        return len(self.buffers) - 1

    def constant(self, value: Any, dtype: np.dtype[Any]) -> Layout:
        """Return the layout of a constant."""
        array = np.ascontiguousarray(value, dtype)
        found = dense(self.buffer(BufferSource.CONSTANT, array), np.shape(value), dtype)
        self.known[found.buffer] = array
        return found

    def room(self, sizes: Sequence[int], dtype: np.dtype[Any], *, last: bool = False) -> Layout:
        """Return a new buffer for a value; the `last` one is a result."""
        nbytes = math.prod(sizes) * dtype.itemsize
        return dense(
            self.buffer(BufferSource.RESULT if last else BufferSource.SCRATCH, nbytes), sizes, dtype
        )

    def read(self, atom: Any) -> Layout:
        """Return the layout of an operand."""
        if isinstance(atom, Var):
            return self.layouts[atom]
        return self.constant(atom.val, _plain(atom.aval)[1])

    def value(self, x: Layout) -> np.ndarray | None:
        """Return the elements if they are constant."""
        found = self.known.get(x.buffer)
        if found is None:
            return None
        if x.size == 0:
            return np.empty(x.shape, x.dtype)
        # As bytes, because the buffer protocol does not support every dtype.
        return np.ndarray(x.shape, x.dtype, found.reshape(-1).view(np.uint8), x.offset, x.strides)

    # Steps.

    def run(self, loop: Any, operands: Sequence[Layout]) -> None:
        """Add a loop over operands of one shape, the last of which is written."""
        if operands[-1].size == 0:
            return
        axes = _merged(operands[-1].shape, [x.strides for x in operands])
        if not axes:
            # One element has a stride, too: for an operand without, NumPy has other loops.
            axes = [(1, tuple([x.dtype.itemsize for x in operands]))]
        self.loop(
            loop,
            tuple(n for n, _ in axes),
            [
                (x.buffer, x.offset, tuple(strides[i] for _, strides in axes))
                for i, x in enumerate(operands)
            ],
        )

    def loop(self, loop: Any, sizes: tuple[int, ...], operands: list[Any]) -> None:
        """Add a loop."""
        if len(sizes) > MOST_AXES:
            raise Unplanned
        self.steps.append((loop, sizes, operands))

    def copy(self, x: Layout, to: Layout) -> None:
        """Add a copy."""
        loop = copy_loop(x.dtype)
        if loop is None:
            raise Unplanned
        self.run(loop, [x, to])

    def equation(self, eqn: Eqn) -> None:
        """Add the steps that compute an equation."""
        primitive = eqn.primitive
        operands = [self.read(v) for v in eqn.invars]
        avals = [v.aval for v in eqn.invars]
        if primitive.region or eqn.effects or not primitive.runs_on_host(avals):
            raise Unplanned
        if primitive.evaluate is not None or primitive.stage is not None:
            raise Unplanned
        if primitive in VIEWS:
            seen = VIEWS[primitive](*operands, **eqn.params)
            if seen is not None:
                self.layouts[eqn.outvars[0]] = seen
                return
        if self.folded(eqn, operands):
            return
        if primitive.multiple or not self.by_loops(eqn, operands):
            self.by_meaning(eqn, operands)
        self.made.update(v for v in eqn.outvars if v in self.outputs)

    def folded(self, eqn: Eqn, operands: Sequence[Layout]) -> bool:
        """Compute an equation of constants now."""
        values = [self.value(x) for x in operands]
        sizes = sum(math.prod(_plain(v.aval)[0]) * _plain(v.aval)[1].itemsize for v in eqn.outvars)
        if sizes > MOST_FOLDED_BYTES or any(v is None for v in values):
            return False
        found = _quiet(eqn.primitive, eqn.params)(*values)
        for var, value in zip(eqn.outvars, found if len(eqn.outvars) > 1 else [found], strict=True):
            self.layouts[var] = self.constant(np.asarray(value), _plain(var.aval)[1])
        return True

    def by_loops(self, eqn: Eqn, operands: Sequence[Layout]) -> bool:
        """Compute an equation by loops, if it has any."""
        primitive, (out,) = eqn.primitive, eqn.outvars
        sizes, dtype = _plain(out.aval)
        if primitive is static_slicing.concatenate_p:
            return self.concatenate(operands, out, eqn.params["dimension"])
        if primitive in REDUCTIONS:
            return self.reduce(primitive, operands[0], out, eqn.params["axes"])
        if primitive is reduction.argmax_p or primitive is reduction.argmin_p:
            return self.position(primitive, operands[0], out, eqn.params["axes"])
        if primitive in RUNNING:
            return self.accumulate(primitive, operands[0], out, **eqn.params)
        if primitive is dot_general_p:
            return self.contract(operands, out, eqn.params["dimension_numbers"])
        if not isinstance(primitive, Elementwise) and primitive is not copy_p:
            return False
        steps = steps_of(primitive, eqn.params, [x.dtype for x in operands], dtype)
        if steps is None:
            return False
        values = list(operands)
        for i, step in enumerate(steps):
            given = [
                self.constant(step.constants[j], step.constants[j].dtype).spread(sizes)
                if j < 0
                else values[j].spread(sizes)
                for j in step.operands
            ]
            last = i == len(steps) - 1
            made = self.room(sizes, step.dtype, last=last and out in self.outputs)
            self.run(step.loop, [*given, made])
            values.append(made)
        self.layouts[out] = values[-1]
        return True

    def concatenate(self, operands: Sequence[Layout], out: Var, dimension: int) -> bool:
        sizes, dtype = _plain(out.aval)
        if copy_loop(dtype) is None:
            return False
        made = self.room(sizes, dtype, last=out in self.outputs)
        offset = 0
        for x in operands:
            part = made.with_axes(list(zip(x.shape, made.strides, strict=True)), offset)
            self.copy(x, part)
            offset += x.shape[dimension] * made.strides[dimension]
        self.layouts[out] = made
        return True

    def reduce(self, primitive: Operation, x: Layout, out: Var, axes: Sequence[int]) -> bool:
        """Reduce as NumPy does: in memory order, from the identity."""
        sizes, dtype = _plain(out.aval)
        loop = loop_for(REDUCTIONS[primitive].ufunc, [dtype, dtype], dtype)
        if loop is None or not x.is_dense or x.size == 0 or dtype.kind not in "?biuf":
            return False
        if dtype.itemsize < 4 and dtype.kind == "f":
            return False
        identity = self.constant(REDUCTIONS[primitive].identity(dtype), dtype)
        made = self.room(sizes, dtype, last=out in self.outputs)
        self.copy(identity.spread(sizes), made)
        kept = iter(made.strides)
        whole = made.with_axes([(n, 0 if d in axes else next(kept)) for d, n in enumerate(x.shape)])
        self.run(loop, [whole, x, whole])
        self.layouts[out] = made
        return True

    def position(self, primitive: Operation, x: Layout, out: Var, axes: Sequence[int]) -> bool:
        sizes, dtype = _plain(out.aval)
        loop = named_loop(primitive.name, [x.dtype], dtype)
        if loop is None:
            return False
        made = self.room(sizes, dtype, last=out in self.outputs)
        self.layouts[out] = made
        if made.size == 0:
            return True
        (axis,) = axes
        outer = [d for d in range(len(x.shape)) if d != axis]
        order = (*outer, axis)
        self.loop(
            loop,
            tuple(x.shape[d] for d in order),
            [
                (x.buffer, x.offset, tuple(x.strides[d] for d in order)),
                (made.buffer, made.offset, (*made.strides, 0)),
            ],
        )
        return True

    def accumulate(
        self, primitive: Operation, x: Layout, out: Var, axis: int, reverse: bool
    ) -> bool:
        sizes, dtype = _plain(out.aval)
        loop = loop_for(RUNNING[primitive], [dtype] * 2, dtype)
        copy = copy_loop(dtype)
        if loop is None or copy is None or (dtype.kind == "f" and dtype.itemsize < 4):
            return False
        made = self.room(sizes, dtype, last=out in self.outputs)
        self.layouts[out] = made
        if made.size == 0:
            return True
        order = [*[d for d in range(len(sizes)) if d != axis], axis]
        at = [(v.offset, [v.strides[d] for d in order]) for v in (x, made)]
        if reverse:
            at = [(o + s[-1] * (sizes[axis] - 1), [*s[:-1], -s[-1]]) for o, s in at]
        (x_offset, x_strides), (offset, strides) = at
        first, rest = [[*[sizes[d] for d in order[:-1]], n] for n in (1, sizes[axis] - 1)]
        self.loop(
            copy,
            tuple(first),
            [(x.buffer, x_offset, tuple(x_strides)), (made.buffer, offset, tuple(strides))],
        )
        if rest[-1] > 0:
            self.loop(
                loop,
                tuple(rest),
                [
                    (made.buffer, offset, tuple(strides)),
                    (x.buffer, x_offset + x_strides[-1], tuple(x_strides)),
                    (made.buffer, offset + strides[-1], tuple(strides)),
                ],
            )
        return True

    def contract(self, operands: Sequence[Layout], out: Var, dimension_numbers: Any) -> bool:
        """Multiply matrices by NumPy's loop, as the NumPy rule does."""
        sizes, dtype = _plain(out.aval)
        (x, y), ((lc, rc), (lb, rb)) = operands, dimension_numbers
        loop = matrix_loop(dtype)
        if loop is None or x.dtype != dtype or y.dtype != dtype or x.size * y.size == 0 or lb or rb:
            return False
        if accumulator_dtype(x.dtype, y.dtype, dtype) != dtype:
            return False
        left = self.matrix(x, kept_axes(len(x.shape), lc), lc)
        right = self.matrix(y, rc, kept_axes(len(y.shape), rc))
        if left is None or right is None:
            return False
        made = self.room(sizes, dtype, last=out in self.outputs)
        (m, n), p, item = left.shape, right.shape[1], dtype.itemsize
        self.steps.append(
            (
                loop,
                (1, m, n, p),
                [(v.buffer, v.offset, ()) for v in (left, right, made)],
                (0, 0, 0, *left.strides, *right.strides, p * item, item),
            )
        )
        self.layouts[out] = made
        return True

    def matrix(self, x: Layout, rows: Sequence[int], columns: Sequence[int]) -> Layout | None:
        """Return a value as a matrix, copied if its axes cannot be merged in place."""
        sizes = [math.prod([x.shape[d] for d in axes]) for axes in (rows, columns)]
        item = x.dtype.itemsize
        if len(rows) <= 1 and len(columns) <= 1:
            across = x.strides[columns[0]] if columns else item
            # A single row or column is laid out as in a matrix of its own.
            down = x.strides[rows[0]] if sizes[0] != 1 else sizes[1] * across
            across = across if sizes[1] != 1 else item
            return x.with_axes([(sizes[0], down), (sizes[1], across)])
        transposed = x.with_axes([(x.shape[d], x.strides[d]) for d in (*rows, *columns)])
        if not transposed.is_dense:
            spread_out = self.room(transposed.shape, x.dtype)
            self.copy(transposed, spread_out)
            transposed = spread_out
        return transposed.with_axes([(sizes[0], sizes[1] * item), (sizes[1], item)])

    def by_meaning(self, eqn: Eqn, operands: Sequence[Layout]) -> None:
        """Call the NumPy rule."""
        made = []
        for var in eqn.outvars:
            sizes, dtype = _plain(var.aval)
            self.layouts[var] = dense(self.buffer(BufferSource.FROM_FUNCTION, 0), sizes, dtype)
            made.append(self.layouts[var])
        self.steps.append(
            (_quiet(eqn.primitive, eqn.params), list(map(_view, operands)), list(map(_view, made)))
        )

    def result(self, atom: Any) -> tuple[Outcome, int, Any]:
        """Return how a result is produced."""
        x, aval = self.read(atom), atom.aval
        source = self.buffers[x.buffer][0]
        whole = x.is_dense and x.offset == 0
        if source == BufferSource.INPUT:
            if isinstance(atom, Var) and atom in self.jaxpr.invars:
                return Outcome.SAME, x.buffer, aval
            if whole and x.nbytes > SHARED_BYTES and self.is_whole(x):
                return Outcome.SHARING, x.buffer, aval
        if atom in self.made:
            return Outcome.FRESH, x.buffer, aval
        if x.nbytes > MOST_COPIED_BYTES and source in (BufferSource.INPUT, BufferSource.CONSTANT):
            raise Unplanned
        made = self.room(x.shape, x.dtype, last=True)
        self.copy(x, made)
        return Outcome.FRESH, made.buffer, aval

    def is_whole(self, x: Layout) -> bool:
        """Tell whether a layout has all elements of its input."""
        var = self.jaxpr.invars[self.buffers[x.buffer][1]]
        return bool(x.nbytes == self.layouts[var].nbytes)


def _plain(aval: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    dtype = aval.dtype
    if is_extended(dtype):
        # Four words are held as a complex number, and two of equal bits may be unequal.
        dtype = dtype.physical_dtype if dtype.itemsize <= 8 else None
    if not isinstance(dtype, np.dtype) or aval.varying:
        raise Unplanned
    if not all(type(n) is int for n in aval.shape) or len(aval.shape) > MOST_AXES:
        raise Unplanned
    return aval.shape, dtype


def _view(x: Layout) -> tuple[Any, ...]:
    return x.buffer, x.offset, x.dtype, x.shape, x.strides


def _quiet(primitive: Operation, params: dict[str, Any]) -> Any:
    def call(*xs: Any) -> Any:
        with np.errstate(all="ignore"):
            found = primitive.numpy(*xs, **params)
        return found[0] if primitive.multiple and len(found) == 1 else found

    return call


def _merged(
    sizes: Sequence[int], strides: Sequence[Sequence[int]]
) -> list[tuple[int, tuple[int, ...]]]:
    """Return sizes with a stride per operand, axes merged as far as the strides allow."""
    found: list[tuple[int, tuple[int, ...]]] = []
    for d, n in enumerate(sizes):
        if n == 1:
            continue
        step = tuple(s[d] for s in strides)
        if found and all(a == b * n for a, b in zip(found[-1][1], step, strict=True)):
            found[-1] = (found[-1][0] * n, step)
        else:
            found.append((n, step))
    return found
