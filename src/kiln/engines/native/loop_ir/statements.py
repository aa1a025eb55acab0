"""Programs as loops: buffers, nests over them, kernels, control flow.

A `Function` computes its outputs from its inputs by a list of statements. Every buffer is dense and
row-major; an element is addressed by an `Index`, a linear function of axes and of integer values. A
`Nest` computes every point of a box of axes, in any order; it stores scalar expressions
(`scalars.py`). Other statements run in order.

A complex number is two elements, its real and its imaginary part. Sizes, constants and factors are
ints, or sizes of named axes (`extents.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from kiln.base.records import Record
from kiln.engines.native.loop_ir.callbacks import Callback
from kiln.engines.native.loop_ir.extents import Grain
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES, Scope, Value, number, postorder
from kiln.ir.sizes.size import Dim


class Axis:
    """A counter from 0 to `size - 1`; compared by identity."""

    __slots__ = ("name", "size")

    def __init__(self, name: str, size: Dim) -> None:
        self.name = name
        self.size = size

    def __repr__(self) -> str:
        return f"{self.name}:{self.size}"


class Index:
    """A linear function: a constant, plus axes and integer values times factors. Immutable."""

    __slots__ = ("_hash", "_operands", "const", "terms")

    def __init__(self, const: Dim = 0, terms: Iterable[tuple[Axis | Value, Dim]] = ()) -> None:
        self.const = const
        self.terms = tuple(terms)
        # Most indices are only intermediate results.
        self._hash: int | None = None
        self._operands: tuple[Value, ...] | None = None

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.const, frozenset(self.terms)))
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is Index
            and self.const == other.const
            and len(self.terms) == len(other.terms)
            and frozenset(self.terms) == frozenset(other.terms)
        )

    def __add__(self, other: Index | Dim) -> Index:
        if not isinstance(other, Index):
            return self if other == 0 else Index(self.const + other, self.terms)
        if not other.terms:
            return self + other.const
        if not self.terms:
            return other + self.const
        factors = dict(self.terms)
        for term, factor in other.terms:
            factors[term] = factors.get(term, 0) + factor
        return Index(self.const + other.const, [(t, f) for t, f in factors.items() if f != 0])

    def __mul__(self, factor: Dim) -> Index:
        if factor == 1:
            return self
        if factor == 0:
            return Index()
        return Index(self.const * factor, [(t, f * factor) for t, f in self.terms])

    def factor(self, term: Axis | Value) -> Dim:
        """Return the factor of a term, 0 if it does not occur."""
        for t, f in self.terms:
            if t is term:
                return f
        return 0

    def axes(self) -> Iterator[tuple[Axis, Dim]]:
        """Iterate over the axes with their factors."""
        return ((t, f) for t, f in self.terms if isinstance(t, Axis))

    def values(self) -> Iterator[tuple[Value, Dim]]:
        """Iterate over the integer values with their factors."""
        return ((t, f) for t, f in self.terms if isinstance(t, Value))

    @property
    def operands(self) -> tuple[Value, ...]:
        """The integer values."""
        if self._operands is None:
            self._operands = tuple([t for t, _ in self.terms if isinstance(t, Value)])
        return self._operands

    def replaced(self, axes: Mapping[Axis, Index], values: Mapping[Value, Value]) -> Index:
        """Return the index with axes replaced by indices, and values by values."""
        if not self.terms:
            return self
        plain: dict[Axis | Value, Dim] = {}
        const = self.const
        for term, factor in self.terms:
            if isinstance(term, Axis):
                found = axes.get(term)
                if found is None:
                    plain[term] = plain.get(term, 0) + factor
                    continue
                const += found.const * factor
                for t, f in found.terms:
                    plain[t] = plain.get(t, 0) + f * factor
            elif (value := values.get(term, term)).op == "constant":
                const += int(number(value)) * factor
            else:
                plain[value] = plain.get(value, 0) + factor
        return Index(const, [(t, f) for t, f in plain.items() if f != 0])


def axis_index(axis: Axis) -> Index:
    """Return an axis as an index."""
    return Index(0, ((axis, 1),)) if axis.size != 1 else Index()


class Role(Enum):
    """The memory space of a buffer.

    A row is a temporary of one iteration of a parallel loop; a block is the part of a product that
    its epilogue reads at a time.
    """

    INPUT = "input"
    OUTPUT = "output"
    TEMP = "temp"
    CONST = "const"
    ROW = "row"
    BLOCK = "block"


class Buffer:
    """Elements of one type in memory; compared by identity.

    An input is never written. A constant has a value. A complex buffer has twice the elements.
    """

    __slots__ = ("dtype", "name", "role", "size", "value")

    def __init__(
        self, name: str, dtype: str, size: Dim, role: Role, value: np.ndarray | None = None
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.size = size
        self.role = role
        self.value = value

    @property
    def nbytes(self) -> Dim:
        """The bytes of all elements."""
        return self.size * NUMPY_TYPES[self.dtype].itemsize

    def __repr__(self) -> str:
        return f"%{self.name}"


class Place:
    """A buffer and an offset into it: the start of a kernel's operand."""

    __slots__ = ("buffer", "index")

    def __init__(self, buffer: Buffer, index: Index = Index()) -> None:  # noqa: B008
        self.buffer = buffer
        self.index = index


class _Effect:
    """What a nest does with a value at each point. Immutable, so its loads are cached."""

    __slots__ = ("_loads", "_nodes")

    buffer: Buffer
    index: Index
    value: Value

    def __init__(self) -> None:
        self._nodes: tuple[Value, ...] | None = None
        self._loads: tuple[Value, ...] | None = None

    def roots(self) -> tuple[Value, ...]:
        """Return its expressions: its value, its index, its mask."""
        return (self.value, *self.index.operands)

    @property
    def nodes(self) -> tuple[Value, ...]:
        """All nodes of its expressions, operands first."""
        if self._nodes is None:
            self._nodes = tuple(postorder(self.roots()))
        return self._nodes

    @property
    def loads(self) -> tuple[Value, ...]:
        """The loads among its nodes."""
        if self._loads is None:
            self._loads = tuple([x for x in self.nodes if x.op == "load"])
        return self._loads


class Store(_Effect):
    """Store a value; if there is a mask, only where it holds."""

    __slots__ = ("buffer", "index", "mask", "value")

    def __init__(
        self, buffer: Buffer, index: Index, value: Value, mask: Value | None = None
    ) -> None:
        super().__init__()
        self.buffer = buffer
        self.index = index
        self.value = value
        self.mask = mask

    def roots(self) -> tuple[Value, ...]:
        """Return its expressions: its value, its index, its mask."""
        masks = () if self.mask is None else (self.mask,)
        return (self.value, *self.index.operands, *masks)


class Reduce(_Effect):
    """Combine the values over the axes that `index` does not have, and write the result.

    `op` is add, mul, min, max, and, or, xor; or argmin, argmax, which write the position along the
    axis `along` where the value is least or greatest (the first of equals; nan precedes
    everything).
    """

    __slots__ = ("along", "buffer", "index", "op", "value")

    def __init__(
        self, buffer: Buffer, index: Index, op: str, value: Value, along: Axis | None = None
    ) -> None:
        super().__init__()
        self.buffer = buffer
        self.index = index
        self.op = op
        self.value = value
        self.along = along


class _Leaf:
    """A statement without others inside."""

    __slots__ = ()
    blocks: ClassVar[Sequence[list[Statement]]] = ()


class _Enclosing:
    """A statement with one block inside."""

    __slots__ = ("body",)
    body: list[Statement]

    @property
    def blocks(self) -> Sequence[list[Statement]]:
        """The blocks of statements inside it, as of every statement."""
        return (self.body,)


class Nest(_Leaf):
    """Compute every point of a box, in any order.

    `ordered` nests run their last axes in order: they may store to the same element twice.
    `lines` are the lines of the user's code whose operations it computes, each with its approximate
    number of instructions.
    """

    __slots__ = ("axes", "effects", "lines", "ordered", "source")

    def __init__(
        self,
        axes: Sequence[Axis],
        effects: Sequence[Store | Reduce],
        *,
        ordered: bool = False,
        source: Any = None,
        lines: Mapping[Any, float] | None = None,
    ) -> None:
        self.axes = tuple(axes)
        self.lines = {source: 1.0} if lines is None else lines
        self.effects = list(effects)
        self.ordered = ordered
        self.source = source

    @property
    def points(self) -> Dim:
        """The number of points of the box."""
        return math.prod(axis.size for axis in self.axes)

    @property
    def is_map(self) -> bool:
        """Whether it stores and does not reduce."""
        return all(isinstance(effect, Store) for effect in self.effects)

    def reduced_axes(self) -> list[Axis]:
        """Return the axes over which something is combined."""
        reductions = [effect for effect in self.effects if isinstance(effect, Reduce)]
        wide = [axis for axis in self.axes if axis.size != 1] if reductions else []
        return [axis for axis in wide if any(e.index.factor(axis) == 0 for e in reductions)]


class Loop(_Enclosing):
    """Run statements for each index of an axis, in order unless `parallel`."""

    __slots__ = ("axis", "parallel", "source")

    def __init__(
        self, axis: Axis, body: list[Statement], *, parallel: bool = False, source: Any = None
    ) -> None:
        self.axis = axis
        self.body = body
        self.parallel = parallel
        self.source = source


class While:
    """Run `condition`, then `body` if the flag is true, and repeat."""

    __slots__ = ("body", "condition", "flag", "source")

    def __init__(
        self, condition: list[Statement], flag: Buffer, body: list[Statement], source: Any = None
    ) -> None:
        self.condition = condition
        self.flag = flag
        self.body = body
        self.source = source

    @property
    def blocks(self) -> Sequence[list[Statement]]:
        """Its condition and its body."""
        return (self.condition, self.body)


class Branch:
    """Run the block whose number is in a buffer of one i32, clamped to the valid range."""

    __slots__ = ("blocks", "number", "source")

    def __init__(self, number: Place, blocks: list[list[Statement]], source: Any = None) -> None:
        self.number = number
        self.blocks = blocks
        self.source = source


EFFECTS = frozenset(("kiln_call_python", "kiln_draw_counters"))
"""Kernels with side effects: no call may be dropped."""


class Kernel(_Leaf):
    """Call a function of the extension by name: see `_runtime/abi/native_call.h`.

    With a `grain`, the first two numbers are the first row and the count of rows to compute, and
    tasks have this many rows.
    """

    __slots__ = ("grain", "numbers", "operands", "results", "source", "symbol")

    def __init__(
        self,
        symbol: str,
        operands: Sequence[Place],
        results: Sequence[Place],
        numbers: Sequence[Dim],
        source: Any = None,
        grain: int | Grain = 0,
    ) -> None:
        self.symbol = symbol
        self.operands = list(operands)
        self.results = list(results)
        self.numbers = tuple(numbers)
        self.source = source
        self.grain = grain


class Blocked(_Enclosing):
    """Compute a product in blocks, and run its epilogue on each block as soon as it is computed.

    The body is the product and the epilogue, with the semantics of running one after the other. The
    epilogue is a nest whose last two axes are rows and columns, and which reads the element of the
    product at each point; or a nest of parallel loops, the innermost of which reads a row of it per
    iteration.
    """

    __slots__ = ("source",)

    def __init__(self, body: list[Statement], source: Any = None) -> None:
        self.body = body
        self.source = source

    @property
    def product(self) -> Kernel:
        """The kernel that computes the product."""
        kernel = self.body[0]
        assert isinstance(kernel, Kernel)
        return kernel

    @property
    def epilogue(self) -> Nest | Loop:
        """The epilogue, which runs on each block."""
        epilogue = self.body[1]
        assert isinstance(epilogue, (Nest, Loop))
        return epilogue

    @property
    def axes(self) -> list[Axis]:
        """The axes of items and of the rows of an item, then the column axis if there is one."""
        epilogue: Statement = self.body[1]
        if isinstance(epilogue, Nest):
            return list(epilogue.axes)
        found = []
        while isinstance(epilogue, Loop):
            found.append(epilogue.axis)
            if len(epilogue.body) > 1:
                break
            epilogue = epilogue.body[0]
        return found


class Copy(_Leaf):
    """Copy contiguous elements."""

    __slots__ = ("count", "operand", "result", "source")

    def __init__(self, operand: Place, result: Place, count: Dim, source: Any = None) -> None:
        self.operand = operand
        self.result = result
        self.count = count
        self.source = source


Statement = Nest | Loop | While | Branch | Kernel | Blocked | Copy


class KeptCopy(Record, eq=False):
    """A copy of a whole buffer that the program makes, and the reason."""

    to: Buffer
    reason: str
    source: Any


class Function:
    """A program: outputs from inputs; checkpoints are numbered by the statements they recompute.

    An output may be an input, or the same buffer as another output: the caller shares it.
    """

    def __init__(
        self,
        name: str,
        scope: Scope,
        inputs: list[Buffer],
        outputs: list[Buffer],
        body: list[Statement],
        *,
        callbacks: Iterable[Callback] = (),
        sites: Iterable[Any] = (),
    ) -> None:
        self.name = name
        self.scope = scope
        self.inputs = inputs
        self.outputs = outputs
        self.body = body
        self.callbacks = list(callbacks)
        self.copies: list[KeptCopy] = []
        self.sites = list(sites)
        self.recomputed: Mapping[Statement, int] = {}


def walk(statements: Sequence[Statement]) -> Iterator[Statement]:
    """Iterate over all statements in pre-order."""
    waiting = list(reversed(statements))
    while waiting:
        yield (statement := waiting.pop())
        for block in reversed(statement.blocks):
            waiting += reversed(block)


def load(scope: Scope, buffer: Buffer, index: Index) -> Value:
    """Return the node that reads an element."""
    return scope.node("load", buffer.dtype, index.operands, (buffer, index))
