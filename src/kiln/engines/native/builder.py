"""From a jaxpr to loops: what lowerings build a function with.

A value of the program is a `Layout` of a buffer, so operations that only rearrange elements cost
nothing. Every other equation becomes nests of loops or kernels with results of their own; passes
then fuse them. The axes of nests over one shape are the same objects, so that equal expressions of
two such nests are equal nodes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from kiln.base.dtypes import short_name
from kiln.core.staging import stage_pure
from kiln.engines.native.checks import CHECKED, WITHIN, Around, Site
from kiln.engines.native.layout import Layout, dense
from kiln.engines.native.loop_ir import (
    Axis,
    Buffer,
    Callback,
    Copy,
    Function,
    Index,
    Kernel,
    Nest,
    Place,
    Reduce,
    Role,
    Statement,
    Store,
    axis_index,
    load,
)
from kiln.engines.native.passes.buffers import everything
from kiln.engines.native.scalars import MACHINE_TYPES, NUMPY_TYPES, Scope, Value, is_float
from kiln.ir.jaxpr import Eqn, Jaxpr, Literal
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray


class Unsupported(Exception):
    """The program, or a part of it, is not compiled by this engine; the text is the reason."""


class Complex(NamedTuple):
    """The parts of a complex scalar."""

    re: Value
    im: Value


Scalar = Value | Complex
Lowering = Callable[..., Any]


def part_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the elements in memory: of a complex number, that of its parts."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def machine_type(dtype: np.dtype[Any]) -> str:
    """Return the machine type of a dtype's elements in memory.

    Raises: Unsupported for dtypes without one.
    """
    found = MACHINE_TYPES.get(part_dtype(dtype))
    if found is None:
        raise Unsupported(f"no code is generated for the dtype {short_name(dtype)}")
    return found


class Builder:
    """Builds a function, equation by equation."""

    def __init__(
        self,
        name: str,
        lowerings: Mapping[Operation, Lowering],
        checks: frozenset[str] = frozenset(),
    ) -> None:
        self.name = name
        self.checks = checks
        self.sites: list[Site] = []
        self.around: list[Around] = []
        self.eqn: Eqn | None = None
        """The equation of the program that is being lowered."""
        self._is_expanding = False
        self.scope = Scope()
        self.body: list[Statement] = []
        self.source: Any = None
        self.callbacks: list[Callback] = []
        self._lowerings = lowerings
        self._axes: dict[tuple[int, int], Axis] = {}
        self._constants: dict[Any, Layout] = {}
        self._numbers = 0

    # Types and buffers.

    def sizes(self, aval: ShapedArray) -> tuple[int, ...]:
        """Return the sizes of a type.

        Raises: Unsupported for sizes that are named.
        """
        sizes: list[int] = []
        for n in aval.shape:
            if type(n) is not int:
                raise Unsupported(f"the size {n} is not known when the program is compiled")
            sizes.append(n)
        return tuple(sizes)

    def room(self, aval: ShapedArray, role: Role = Role.TEMP) -> Layout:
        """Return a new buffer for a value of a type."""
        aval = aval.physical()
        return self.space(self.sizes(aval), aval.dtype, role)

    def space(self, sizes: Sequence[int], dtype: np.dtype[Any], role: Role = Role.TEMP) -> Layout:
        """Return a new buffer of a shape and dtype."""
        kind = machine_type(dtype)
        count = math.prod(sizes) * (2 if dtype.kind == "c" else 1)
        self._numbers += 1
        buffer = Buffer(f"{role.value[0]}{self._numbers}", kind, count, role)
        return dense(buffer, sizes, dtype)

    def constant(self, value: Any, dtype: Any) -> Layout:
        """Return a constant's layout."""
        array = np.ascontiguousarray(value, dtype)
        key = (array.dtype, array.shape, array.tobytes())
        found = self._constants.get(key)
        if found is None:
            found = self.space(np.shape(value), array.dtype, Role.CONST)
            found.buffer.value = array
            self._constants[key] = found
        return found

    def number(self, x: Layout) -> Any:
        """Return the value of a constant scalar; None for other values."""
        value = x.buffer.value
        return value.reshape(())[()] if value is not None and value.size == 1 else None

    # Nests.

    def axes(self, sizes: Sequence[int]) -> tuple[Axis, ...]:
        """Return the axes of nests over a shape."""
        return tuple([self.axis(d, n) for d, n in enumerate(sizes)])

    def axis(self, depth: int, size: int) -> Axis:
        """Return the axis of a size at a depth of nests."""
        found = self._axes.get((depth, size))
        if found is None:
            found = self._axes[depth, size] = Axis(f"i{depth}", size)
        return found

    def fresh_axis(self, name: str, size: int) -> Axis:
        """Return an axis of its own."""
        self._numbers += 1
        return Axis(f"{name}{self._numbers}", size)

    def element(self, x: Layout, at: Sequence[Axis | Index]) -> Index:
        """Return the index of an element, in units of the buffer's elements."""
        item = part_dtype(x.dtype).itemsize
        offset = x.offset if isinstance(x.offset, Index) else Index(x.offset)
        total = offset
        for place, stride, size in zip(at, x.strides, x.shape, strict=True):
            if size != 1 or isinstance(place, Index):
                index = axis_index(place) if isinstance(place, Axis) else place
                total = total + index * stride
        return _in_elements(total, item)

    def read(self, x: Layout, at: Sequence[Axis | Index] = ()) -> Scalar:
        """Return the element at some axes, or indices; that of a scalar wherever it is read."""
        if x.buffer.role is Role.CONST and x.buffer.value.size == 1:
            known = x.buffer.value.reshape(())[()]
            if x.dtype.kind == "c":
                kind = x.buffer.dtype
                return Complex(
                    self.scope.constant(known.real, kind), self.scope.constant(known.imag, kind)
                )
            return self.scope.constant(known, x.buffer.dtype)
        index = self.element(x, at if x.shape else ())
        if x.dtype.kind != "c":
            return load(self.scope, x.buffer, index)
        return Complex(load(self.scope, x.buffer, index), load(self.scope, x.buffer, index + 1))

    def stores(
        self, x: Layout, at: Sequence[Axis | Index], value: Scalar, mask: Value | None = None
    ) -> list[Store]:
        """Return what writes an element."""
        index = self.element(x, at)
        if isinstance(value, Complex):
            return [
                Store(x.buffer, index, value.re, mask),
                Store(x.buffer, index + 1, value.im, mask),
            ]
        return [Store(x.buffer, index, value, mask)]

    def nest(
        self, axes: Sequence[Axis], effects: Sequence[Store | Reduce], *, ordered: bool = False
    ) -> None:
        """Add a nest of loops, unless it has no point."""
        if all(axis.size for axis in axes):
            self.body.append(Nest(axes, effects, ordered=ordered, source=self.source))

    def map(self, out: ShapedArray, function: Callable[..., Scalar], *operands: Layout) -> Layout:
        """Return a new value: a function of the operands element by element."""
        made = self.room(out)
        axes = self.axes(made.shape)
        value = function(*[self.read(x, axes) for x in operands])
        self.nest(axes, self.stores(made, axes, value))
        return made

    def fill(self, made: Layout, value: Any) -> None:
        """Set all elements of a new value to a number."""
        self.write(made, self.constant(value, made.dtype))

    def write(self, to: Layout, x: Layout) -> None:
        """Copy elements; a scalar goes everywhere."""
        axes = self.axes(to.shape)
        self.nest(axes, self.stores(to, axes, self.read(x, axes)))

    def dense(self, x: Layout) -> Layout:
        """Return a value whose elements are contiguous, copied if they are not."""
        if x.is_dense and x.buffer.role is not Role.CONST:
            return x
        made = self.space(x.shape, x.dtype)
        self.write(made, x)
        return made

    # Kernels.

    def place(self, x: Layout) -> Place:
        """Return where a dense value begins."""
        offset = x.offset if isinstance(x.offset, Index) else Index(x.offset)
        return Place(x.buffer, _in_elements(offset, part_dtype(x.dtype).itemsize))

    def kernel(
        self,
        symbol: str,
        operands: Sequence[Layout],
        results: Sequence[Layout],
        numbers: Sequence[int],
        grain: int = 0,
    ) -> None:
        """Call a kernel on dense copies of the operands; a thread takes `grain` rows at a time."""
        given = [self.place(self.dense(x)) for x in operands]
        made = [self.place(x) for x in results]
        self.body.append(Kernel(symbol, given, made, numbers, self.source, grain))

    def copy(self, to: Layout, x: Layout) -> None:
        """Copy a dense value to another of its size."""
        count = to.size * (2 if to.dtype.kind == "c" else 1)
        if count:
            self.body.append(Copy(self.place(x), self.place(to), count, self.source))

    # Programs.

    @contextlib.contextmanager
    def block(self) -> Iterator[list[Statement]]:
        """Collect the statements that are added until the context exits."""
        outer, self.body = self.body, []
        try:
            yield self.body
        finally:
            self.body = outer

    def inline(self, jaxpr: Jaxpr, operands: Sequence[Layout]) -> list[Layout]:
        """Add the equations of a jaxpr without constants; return its results."""
        env: dict[Any, Layout] = dict(zip(jaxpr.invars, operands, strict=True))

        def read(atom: Any) -> Layout:
            if isinstance(atom, Literal):
                return self.constant(np.asarray(atom.val, atom.aval.dtype), atom.aval.dtype)
            return env[atom]

        for eqn in jaxpr.eqns:
            operands = [read(v) for v in eqn.invars]
            if self._is_expanding:
                # What a primitive is made of has no lines of the user's.
                results = self.equation(eqn, operands)
            else:
                outer = self.source, self.eqn
                self.source, self.eqn = eqn.source, eqn
                start = len(self.body)
                results = self.equation(eqn, operands)
                if "nan" in self.checks and not eqn.primitive.region:
                    results = [self._checked(eqn, i, x, start) for i, x in enumerate(results)]
                self.source, self.eqn = outer
            env.update(zip(eqn.outvars, results, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def equation(self, eqn: Eqn, operands: Sequence[Layout]) -> Sequence[Layout]:
        """Add an equation by its lowering, or by the primitive's `expand`; return its results.

        Raises: Unsupported if it has neither.
        """
        primitive = eqn.primitive
        lowering = self._lowerings.get(primitive)
        if lowering is not None:
            avals = [v.aval for v in eqn.outvars]
            found = lowering(self, avals, *operands, **eqn.params)
            return found if primitive.multiple else [found]
        if not primitive.has("expand"):
            raise Unsupported(f"the primitive {primitive.name} has no native lowering")
        return self.expansion(primitive, [v.aval for v in eqn.invars], operands, eqn.params)

    def expansion(
        self,
        primitive: Operation,
        avals: Sequence[ShapedArray],
        operands: Sequence[Layout],
        params: Mapping[str, Any],
    ) -> Sequence[Layout]:
        """Add what a primitive's `expand` makes of operands of some types; return its results."""

        def expanded(*xs: Any) -> Sequence[Any]:
            results = primitive.expand(*xs, **params)
            return results if primitive.multiple else [results]

        jaxpr = stage_pure(expanded, avals, name=primitive.name)
        if primitive.region:
            return self.inline(jaxpr, operands)
        outer, self._is_expanding = self._is_expanding, True
        try:
            return self.inline(jaxpr, operands)
        finally:
            self._is_expanding = outer

    # Checks.

    @contextlib.contextmanager
    def loop(self, name: str) -> Iterator[list[Statement]]:
        """Collect the statements of the turn of a loop until the context exits."""
        self.around.append(Around(name, self.source))
        try:
            with self.block() as body:
                yield body
        finally:
            self.around.pop()

    def in_bounds(self, start: Value, last: int, axis: int, size: int) -> Value:
        """Return an index, checked if indices are: whether it is from 0 to `last`."""
        eqn = self.eqn
        if "index" not in self.checks or eqn is None or start.op == "constant":
            return start
        number = self._site(eqn, 0, "index", axis, size, last)
        return self.scope.node(WITHIN, start.dtype, (start,), (number, last))

    def _site(self, eqn: Eqn, result: int, kind: str, *bounds: int) -> int:
        operands = [v.aval for v in eqn.invars]
        name, aval = eqn.primitive.name, eqn.outvars[result].aval
        self.sites.append(
            Site(kind, name, operands, aval, self.source, tuple(self.around), *bounds)
        )
        return len(self.sites) - 1

    def _checked(self, eqn: Eqn, number: int, x: Layout, start: int) -> Layout:
        """Return a result that the code watches for nan; statements from `start` on compute it.

        What stores its elements stores them checked; what sums, or is a kernel, is followed by a
        nest that reads it.
        """
        buffer = x.buffer
        if not is_float(buffer.dtype) or buffer.role is Role.CONST:
            return x
        writers = [each for each in self.body[start:] if buffer in everything(each)[1]]
        if not writers or not x.size:
            return x
        site = self._site(eqn, number, "nan")

        def checked(value: Value) -> Value:
            return self.scope.node(CHECKED, value.dtype, (value,), (site,))

        nests = [each for each in writers if isinstance(each, Nest) and each.is_map]
        if len(nests) < len(writers):
            made = self.space(x.shape, x.dtype)
            axes = self.axes(x.shape)
            value = self.read(x, axes)
            parts = [checked(part) for part in (value if isinstance(value, Complex) else [value])]
            whole = Complex(*parts) if isinstance(value, Complex) else parts[0]
            self.nest(axes, self.stores(made, axes, whole))
            return made
        for nest in nests:
            nest.effects[:] = [
                dataclasses.replace(effect, value=checked(effect.value))
                if effect.buffer is buffer
                else effect
                for effect in nest.effects
            ]
        return x


def function_of(
    jaxpr: Jaxpr,
    name: str,
    lowerings: Mapping[Operation, Lowering],
    checks: frozenset[str] = frozenset(),
) -> Function:
    """Return a jaxpr without constants as loops, with checks of some kinds.

    Raises: Unsupported if a part of it cannot be compiled.
    """
    b = Builder(name, lowerings, checks)
    inputs = [b.room(v.aval, Role.INPUT) for v in jaxpr.invars]
    outputs: list[Buffer] = []
    for x, aval in zip(b.inline(jaxpr, inputs), jaxpr.out_avals, strict=True):
        outputs.append(_output(b, x, aval.physical(), outputs))
    given = [x.buffer for x in inputs]
    return Function(name, b.scope, given, outputs, b.body, b.callbacks, sites=b.sites)


def _output(b: Builder, x: Layout, aval: ShapedArray, others: list[Buffer]) -> Buffer:
    """Return a buffer with the elements of a result and nothing else."""
    is_whole = x.is_dense and b.place(x).index == Index() and x.shape == aval.shape
    whole = is_whole and x.buffer.size == x.size * (2 if x.dtype.kind == "c" else 1)
    if whole and x.buffer.role is not Role.CONST and x.buffer not in others:
        buffer: Buffer = x.buffer
        if buffer.role is Role.TEMP:
            buffer.role = Role.OUTPUT
        return buffer
    made = b.room(aval, Role.OUTPUT)
    b.write(made, x)
    return made.buffer  # type: ignore[no-any-return]


def _in_elements(index: Index, item: int) -> Index:
    if item == 1:
        return index
    return Index(index.const // item, [(t, f // item) for t, f in index.terms])


def real(x: Scalar) -> Value:
    """Return the node of a real scalar."""
    assert isinstance(x, Value)
    return x


def is_narrow(kind: str) -> bool:
    """Tell whether a machine type is a float of less than 32 bits."""
    return kind in ("f16", "bf16")


def numpy_type(kind: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a machine type."""
    return NUMPY_TYPES[kind]
