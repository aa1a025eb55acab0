"""Verifies loops: the invariants on which every pass may rely, and which it must preserve."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.base.errors import CheckError
from kiln.engines.native.loop_ir.buffers import everything, loads, nodes
from kiln.engines.native.loop_ir.extents import at_least
from kiln.engines.native.loop_ir.products import matrix_of
from kiln.engines.native.loop_ir.scalars import BASIC, Value
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Blocked,
    Branch,
    Buffer,
    Copy,
    Function,
    Index,
    Kernel,
    Loop,
    Nest,
    Place,
    Reduce,
    Role,
    Statement,
    Store,
    While,
    walk,
)
from kiln.engines.native.loop_ir.substitution import bounds, within

POSITIONS = ("argmin", "argmax")
COMBINED = ("add", "mul", "min", "max", "and", "or", "xor", *POSITIONS)
_SAME = frozenset(
    ("add", "sub", "mul", "div", "rem", "neg", "abs", "min", "max", "fma", "muladd", "sqrt")
    + ("floor", "ceil", "trunc", "rint", "copysign", "and", "or", "xor", "not", "shl")
    + ("lshr", "ashr", "popcount", "clz", "mulhi")
)
_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


Verified = set[tuple[tuple[Axis, ...], tuple[Store | Reduce, ...], frozenset[Axis]]]
"""Nests that were verified, each with the axes of the loops around it. Effects are immutable."""


def check(function: Function, when: str, verified: Verified | None = None) -> None:
    """Check a function; of nests that are `verified` only the order of reads and writes.

    Most passes leave most nests alone: verifying each once takes half the time.

    Raises: CheckError naming the statement, and `when` it was found.
    """
    _Checker(function, when, set() if verified is None else verified).run()


class _Checker:
    def __init__(self, function: Function, when: str, verified: Verified) -> None:
        self.function = function
        self.when = when
        self.verified = verified
        self.axes: set[Axis] = set()
        self.written: set[Buffer] = set(function.inputs)

    def run(self) -> None:
        if len(self.written) < len(self.function.inputs):
            raise self.error("two inputs are one buffer", None)
        self.statements(self.function.body)
        for buffer in self.function.outputs:
            if buffer.size != 0 and buffer not in self.written and buffer.role is not Role.CONST:
                raise self.error(f"the output {buffer} is never written", None)

    def error(self, what: str, statement: Statement | None) -> CheckError:
        where = "" if statement is None else f" in a {type(statement).__name__.lower()}"
        return CheckError(
            f"loops of {self.function.name} after {self.when}{where}\n{what}\nmend the pass"
        )

    def statements(self, statements: Sequence[Statement]) -> None:
        for statement in statements:
            match statement:
                case Nest():
                    self.nest(statement)
                case Kernel():
                    for place in statement.operands:
                        self.place(place, statement, is_read=True)
                    for place in statement.results:
                        self.place(place, statement, is_read=False)
                case Copy():
                    self.place(statement.operand, statement, is_read=True)
                    self.place(statement.result, statement, is_read=False)
                case Branch():
                    self.place(statement.number, statement, is_read=True)
                case While() | Loop():
                    pass
            if isinstance(statement, Loop):
                if statement.axis in self.axes:
                    raise self.error(f"the axis {statement.axis} is counted already", statement)
                self.axes.add(statement.axis)
            if isinstance(statement, Blocked):
                self.blocked(statement)
            for block in statement.blocks:
                self.statements(block)
            if isinstance(statement, Loop):
                self.axes.remove(statement.axis)
            if isinstance(statement, While) and statement.flag not in self.written:
                raise self.error(f"the flag {statement.flag} is never written", statement)

    def blocked(self, statement: Blocked) -> None:
        kinds = [type(each) for each in statement.body]
        if kinds not in ([Kernel, Nest], [Kernel, Loop]):
            raise self.error("its body is a product, then a nest or loops over its rows", statement)
        product, epilogue = statement.product, statement.epilogue
        made = product.results[0].buffer
        is_nest, matrix = isinstance(epilogue, Nest), matrix_of(product)
        if matrix is None:
            raise self.error(f"{product.symbol} has no epilogue", statement)
        inner = 1 if is_nest else matrix.columns
        here, step = Index(), inner
        for axis in reversed(statement.axes):
            here += Index(0, ((axis, step),))
            step *= axis.size
        if step != made.size or len(statement.axes) < 1 + is_nest:
            raise self.error(f"the epilogue does not compute each point of {made} once", statement)
        for each in walk([epilogue]):
            if isinstance(each, Loop) and each.parallel:
                continue
            if not isinstance(each, Nest) or (is_nest and (each.ordered or not each.is_map)):
                raise self.error("an epilogue is parallel loops and nests", statement)
            places = [x.attr for x in nodes(each) if x.op == "load"]
            places += [(effect.buffer, effect.index) for effect in each.effects]
            if any(buffer is made and not within(index, here, inner) for buffer, index in places):
                raise self.error(f"the epilogue touches {made} at another place", statement)
        # Other blocks still read them.
        written = everything(epilogue)[1] & {place.buffer for place in product.operands}
        for buffer in written:
            raise self.error(f"the epilogue writes {buffer}, an operand", statement)

    def place(self, place: Place, statement: Statement, *, is_read: bool) -> None:
        self.index(place.index, place.buffer, self.axes, statement)
        if is_read:
            self.read(place.buffer, statement)
        else:
            self.write(place.buffer, statement)

    def read(self, buffer: Buffer, statement: Statement) -> None:
        if buffer.size != 0 and buffer.role is not Role.CONST and buffer not in self.written:
            raise self.error(f"{buffer} is read before it is written", statement)

    def write(self, buffer: Buffer, statement: Statement) -> None:
        if buffer.role in (Role.INPUT, Role.CONST):
            raise self.error(f"{buffer}, an {buffer.role.value}, is written", statement)
        self.written.add(buffer)

    def index(
        self,
        index: Index,
        buffer: Buffer,
        axes: set[Axis],
        statement: Statement,
        *,
        is_masked: bool = False,
    ) -> None:
        for axis, _ in index.axes():
            if axis not in axes:
                raise self.error(f"the axis {axis} is counted by nothing", statement)
        low, high = bounds(index)
        if is_masked or low is None or high is None or buffer.size == 0:
            return
        if at_least(-1, low) or at_least(high, buffer.size):
            raise self.error(
                f"elements {low} to {high} of {buffer}, which has {buffer.size}", statement
            )

    def nest(self, nest: Nest) -> None:
        this = (nest.axes, tuple(nest.effects), frozenset(self.axes))
        if this not in self.verified:
            self.expressions(nest)
            self.verified.add(this)
        mine = {effect.buffer for effect in nest.effects}
        for x in loads(nest):
            if x.attr[0] not in mine:
                self.read(x.attr[0], nest)
        for buffer in mine:
            self.write(buffer, nest)

    def expressions(self, nest: Nest) -> None:
        axes = self.axes | set(nest.axes)
        if len(set(nest.axes)) < len(nest.axes) or self.axes & set(nest.axes):
            raise self.error("an axis is counted twice", nest)
        for x in nodes(nest):
            self.value(x, nest, axes)
        for effect in nest.effects:
            self.effect(effect, nest, axes)

    def effect(self, effect: Store | Reduce, nest: Nest, axes: set[Axis]) -> None:
        masked = isinstance(effect, Store) and effect.mask is not None
        self.index(effect.index, effect.buffer, axes, nest, is_masked=masked)
        if isinstance(effect, Store):
            if effect.value.dtype != effect.buffer.dtype:
                raise self.error(
                    f"a {effect.value.dtype} is stored in {effect.buffer}: {effect.buffer.dtype}",
                    nest,
                )
            if effect.mask is not None and effect.mask.dtype != "i1":
                raise self.error("a mask is not a bool", nest)
            return
        if effect.op not in COMBINED or (effect.op in POSITIONS) != (effect.along is not None):
            raise self.error(f"a reduction by {effect.op}", nest)
        if effect.along is None and effect.value.dtype != effect.buffer.dtype:
            raise self.error(f"{effect.value.dtype} is reduced to {effect.buffer.dtype}", nest)

    def value(self, x: Value, nest: Nest, axes: set[Axis]) -> None:
        dtypes = [y.dtype for y in x.operands]
        if x.op == "load":
            buffer, index = x.attr
            self.index(index, buffer, axes, nest)
            wrong = x.dtype != buffer.dtype
        elif x.op == "index":
            for axis, _ in x.attr.axes():
                if axis not in axes:
                    raise self.error(f"the axis {axis} is counted by nothing", nest)
            wrong = False
        elif x.op in _COMPARISONS:
            wrong = x.dtype != "i1" or dtypes[0] != dtypes[1]
        elif x.op in _SAME:
            wrong = any(dtype != x.dtype for dtype in dtypes)
        elif x.op in ("select", "rare"):
            wrong = dtypes != ["i1", x.dtype, x.dtype]
        else:
            wrong = False
        if wrong or (x.op in BASIC and len(dtypes) != BASIC[x.op]):
            raise self.error(f"{x.op} of {', '.join(dtypes)} to {x.dtype}", nest)
