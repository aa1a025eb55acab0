"""Chains: products and nests that can run for a strip of rows at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kiln.base.records import Record
from kiln.engines.native.loop_ir.buffers import everything, loads, reads, writes
from kiln.engines.native.loop_ir.extents import is_named
from kiln.engines.native.loop_ir.products import PRODUCTS
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES
from kiln.engines.native.loop_ir.statements import (
    EFFECTS,
    Axis,
    Buffer,
    Index,
    Kernel,
    Nest,
    Place,
    Role,
    Statement,
    Store,
    walk,
)
from kiln.engines.native.loop_ir.substitution import within

FEWEST_BYTES = 1 << 19
"""Of what is not materialized: less stays in the L2 cache anyway."""
MOST_ROWS = 128
STRIP_BYTES = 1 << 20
"""Of the widest buffer: the strips of a chain fit in the L2 cache."""
FEWEST_ROWS = 32
FEWEST_COLUMNS = 64
FARTHEST = 48
"""How many statements after a product are searched, to keep compile time linear."""


class Numbers(Record):
    """The numbers of a product of matrices: see `kiln_gemm_T`."""

    batch: int
    m: int
    n: int
    k: int
    transpose_a: int
    transpose_b: int
    a_step: int
    b_step: int
    c_step: int
    flags: int

    @property
    def a_row(self) -> int:
        """The row stride of A."""
        return self.m if self.transpose_a else self.k

    @property
    def b_row(self) -> int:
        """The row stride of B."""
        return self.k if self.transpose_b else self.n


def numbers_of(statement: Statement) -> Numbers | None:
    """Return the numbers of a product whose matrices are dense and of known sizes."""
    if not isinstance(statement, Kernel) or statement.symbol not in PRODUCTS:
        return None
    if is_named(*statement.numbers):
        return None
    found = Numbers(*map(int, statement.numbers))
    return found if found.flags == 0 and found.c_step == found.m * found.n else None


def is_seed(statement: Statement) -> bool:
    """Tell whether a statement is a product whose result is large, and read by rows."""
    numbers = numbers_of(statement)
    if numbers is None:
        return False
    assert isinstance(statement, Kernel)
    (place,) = statement.results
    made = place.buffer
    return (
        numbers.batch > 1
        and numbers.m >= FEWEST_ROWS
        and numbers.n >= max(FEWEST_COLUMNS, numbers.k)
        and made.role is Role.TEMP
        and place.index == Index()
        and made.size == numbers.batch * numbers.c_step
        and int(made.nbytes) >= FEWEST_BYTES
    )


class Chain:
    """Statements that can run for a strip of rows at a time, from a product on.

    Those between them are before or after the chain.
    """

    def __init__(
        self,
        statements: Sequence[Statement],
        start: int,
        touches: Counter[Buffer],
        end: int | None = None,
    ) -> None:
        self.start = start
        self.end = start + 1
        self.touches = touches
        seed = numbers_of(statements[start])
        assert seed is not None
        self.count, self.rows, self.columns = seed.batch, seed.m, seed.n
        self.items: list[int] | None = None
        self.body: list[Statement] = []
        self.before: list[Statement] = []
        self.after: list[Statement] = []
        self.widths: dict[Buffer, int] = {}
        """What the chain writes by rows: the elements of a row."""
        self.sums: set[Buffer] = set()
        """What products that sum over rows write."""
        self.read: set[Buffer] = set()
        self.written: set[Buffer] = set()
        self.roles: dict[Statement, str] = {}
        read_after: set[Buffer] = set()
        written_after: set[Buffer] = set()
        last = len(statements) if end is None else end
        for i in range(start, min(last, start + FARTHEST)):
            statement = statements[i]
            if any(isinstance(x, Kernel) and x.symbol in EFFECTS for x in walk([statement])):
                break
            read, written = everything(statement)
            touched = read | written
            late = touched & written_after or written & read_after
            role = None if late else self.role(statement)
            if role is not None:
                self.body.append(statement)
                self.roles[statement] = role
                self.read |= read
                self.written |= written
                self.end = i + 1
            elif late or touched & self.written or written & self.read:
                self.after.append(statement)
                read_after |= read
                written_after |= written
            else:
                self.before.append(statement)
        # What follows the last statement of the chain stays where it is.
        inside = set(statements[self.start : self.end])
        self.before = [each for each in self.before if each in inside]
        self.after = [each for each in self.after if each in inside]

    def role(self, statement: Statement) -> str | None:
        """Return how a statement joins the chain, and note what it writes; None if it cannot."""
        if isinstance(statement, Nest):
            return self.nest(statement)
        numbers = numbers_of(statement)
        if numbers is None or numbers.batch != self.count:
            return None
        assert isinstance(statement, Kernel)
        a, b = statement.operands
        (made,) = statement.results
        mine = made.buffer in self.written or made.buffer in self.read
        if mine or made.buffer.role not in (Role.TEMP, Role.OUTPUT) or made.index != Index():
            return None
        if made.buffer.size != self.count * numbers.c_step:
            return None
        has_a, has_b = a.buffer in self.written, b.buffer in self.written
        by_rows = numbers.m == self.rows and not numbers.transpose_a and not has_b
        if has_a and by_rows:
            if self.is_mine(a, numbers.k, numbers.a_step):
                self.widths[made.buffer] = numbers.n
                return "rows"
            return None
        if has_a or has_b:
            if numbers.k != self.rows:
                return None
            if has_a and not (numbers.transpose_a and self.is_mine(a, numbers.m, numbers.a_step)):
                return None
            if has_b and not (
                not numbers.transpose_b and self.is_mine(b, numbers.n, numbers.b_step)
            ):
                return None
            self.sums.add(made.buffer)
            return "sum"
        if by_rows and numbers.n == self.columns and made.buffer.role is Role.TEMP:
            self.widths[made.buffer] = numbers.n
            return "rows"
        return None

    def is_mine(self, place: Place, width: int, step: int) -> bool:
        """Tell whether a product reads the rows that the chain writes."""
        return (
            place.index == Index()
            and self.widths.get(place.buffer) == width
            and step == self.rows * width
        )

    def axes(self, nest: Nest) -> tuple[list[Axis], Axis] | None:
        """Return the axes of the items and of the rows of a nest."""
        axes = [axis for axis in nest.axes if axis.size != 1]
        if is_named(*[axis.size for axis in axes]):
            return None
        count, at = 1, 0
        while at < len(axes) and count < self.count:
            count *= int(axes[at].size)
            at += 1
        if count != self.count or at == len(axes) or axes[at].size != self.rows:
            return None
        sizes = [int(axis.size) for axis in axes[:at]]
        if self.items is not None and self.items != sizes:
            return None
        return axes[:at], axes[at]

    def nest(self, nest: Nest) -> str | None:
        """Return how a nest joins the chain, if each point accesses only its own row of it."""
        if nest.ordered or not self.written & {x.attr[0] for x in loads(nest)}:
            return None
        found = self.axes(nest)
        if found is None or {*found[0], found[1]} & set(nest.reduced_axes()):
            return None
        items, row = found
        widths: dict[Buffer, int] = {}
        for x in loads(nest):
            buffer, index = x.attr
            if buffer in self.written:
                width = self.widths.get(buffer)
                if width is None or not self.is_row(index, items, row, width):
                    return None
        for effect in nest.effects:
            buffer, index = effect.buffer, effect.index
            if buffer in self.read or buffer in self.written or buffer in widths:
                return None
            if buffer.role not in (Role.TEMP, Role.OUTPUT) or index.operands:
                return None
            if isinstance(effect, Store) and effect.mask is not None:
                return None
            width = int(index.factor(row))
            if buffer.size != self.count * self.rows * width:
                return None
            if not self.is_row(index, items, row, width):
                return None
            widths[buffer] = width
        self.items = [int(axis.size) for axis in items]
        self.widths |= widths
        return "nest"

    def is_row(self, index: Index, items: Sequence[Axis], row: Axis, width: int) -> bool:
        """Tell whether an index is in the row of its point, in rows of a given width."""
        if width <= 0:
            return False
        here, step = Index(0, ((row, width),)), self.rows * width
        for axis in reversed(items):
            here += Index(0, ((axis, step),))
            step *= int(axis.size)
        return within(index, here, width)

    def contracted(self) -> dict[Buffer, int]:
        """Return the temporaries that nothing else accesses, with the elements of a row."""
        mine: Counter[Buffer] = Counter()
        for statement in self.body:
            mine.update({*reads(statement), *writes(statement)})
        return {
            buffer: width
            for buffer, width in self.widths.items()
            if buffer.role is Role.TEMP and self.touches[buffer] == mine[buffer]
        }

    def is_worth_it(self) -> bool:
        """Tell whether a product of the same rows reads what is not materialized.

        One that only sums over the rows is not worth it: where the rows are features, as of an
        inverted bottleneck, the product's epilogue is faster.
        """
        if self.items is None or not self.items:
            return False
        kept = self.contracted()
        return any(
            kept.get(place.buffer) == self.columns
            for statement in self.body
            if isinstance(statement, Kernel) and self.roles[statement] == "rows"
            for place in statement.operands
        )

    def strip(self) -> int:
        """Return the number of rows of a strip."""
        item = max(NUMPY_TYPES[buffer.dtype].itemsize for buffer in self.widths)
        widest = max(self.widths.values()) * item
        most = min(self.rows, MOST_ROWS, max(FEWEST_ROWS // 2, STRIP_BYTES // widest))
        # Strips of equal size need no code for the last one.
        for rows in range(most, most // 2, -1):
            if self.rows % rows == 0:
                return rows
        return most
