"""Strips: a chain of products and nests runs for some rows at a time.

Attention is a product, a softmax over its rows, and a product with the result; what lies between
the two products is much larger than operands and results. Here the chain becomes parallel loops
over the items of the batch, and in each a loop over strips of rows, so that what lies between is
never materialized: an item holds one strip of it, which stays in the L2 cache.

A product takes part if its rows are those of the chain, or if it sums over them, as derivatives do:
then each strip adds its part. What the forward part of a gradient computes and its backward part
reads again is computed again if it is large.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from kiln.base.records import Record
from kiln.engines.native.loop_ir.buffers import everything, loads, reads, writes
from kiln.engines.native.loop_ir.extents import is_named
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES
from kiln.engines.native.loop_ir.statements import (
    EFFECTS,
    Axis,
    Buffer,
    Function,
    Index,
    Kernel,
    Loop,
    Nest,
    Place,
    Role,
    Statement,
    Store,
    axis_index,
    blocks,
    walk,
)
from kiln.engines.native.loop_ir.substitution import substituted, within
from kiln.engines.native.loop_ir.buffers import roots_of
from kiln.engines.native.passes.epilogues import PRODUCTS
from kiln.engines.native.passes.rebuilding import with_places, with_roots

FEWEST_BYTES = 1 << 19
"""Of what is not materialized: less stays in the L2 cache anyway."""
RECOMPUTED_BYTES = 1 << 19
"""What a gradient reads again is computed again if it is larger."""
MOST_ROWS = 128
STRIP_BYTES = 1 << 20
"""Of the widest buffer: the strips of a chain fit in the L2 cache."""
FEWEST_ROWS = 32
FEWEST_COLUMNS = 64
FARTHEST = 48
"""How many statements after a product are searched, to keep compile time linear."""


def run_in_strips(function: Function) -> None:
    """Run chains of products and nests in strips of rows.

    Programs with named sizes or checks are left unchanged.
    """
    if function.sites or not any(_is_seed(each) for each in walk(function.body)):
        return
    touches = Counter(function.outputs)
    for statement in walk(function.body):
        touches.update({*reads(statement), *writes(statement)})
    _in_block(function, function.body, touches)


def _in_block(function: Function, statements: list[Statement], touches: Counter[Buffer]) -> None:
    for statement in statements:
        for block in blocks(statement):
            _in_block(function, block, touches)
    i = 0
    while i < len(statements):
        if _is_seed(statements[i]):
            again = _Again(statements, i, touches)
            end = len(statements)
            if again.is_possible:
                statements[:], touches = again.statements, again.touches
                i, end = again.start, again.end
            chain = _Chain(statements, i, touches, end)
            if chain.is_worth_it():
                i = chain.apply(statements)
                continue
        i += 1


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


def _numbers(statement: Statement) -> Numbers | None:
    """Return the numbers of a product whose matrices are dense and of known sizes."""
    if not isinstance(statement, Kernel) or statement.symbol not in PRODUCTS:
        return None
    if is_named(*statement.numbers):
        return None
    found = Numbers(*map(int, statement.numbers))
    return found if found.flags == 0 and found.c_step == found.m * found.n else None


def _is_seed(statement: Statement) -> bool:
    """Tell whether a statement is a product whose result is large, and read by rows."""
    numbers = _numbers(statement)
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


class _Chain:
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
        seed = _numbers(statements[start])
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
        numbers = _numbers(statement)
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
        """Tell whether a product reads what is not materialized."""
        if self.items is None or not self.items:
            return False
        kept = self.contracted()
        for statement in self.body:
            if isinstance(statement, Kernel):
                for place in statement.operands:
                    if place.buffer in kept and kept[place.buffer] == self.columns:
                        return True
        return False

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

    def apply(self, statements: list[Statement]) -> int:
        """Replace the statements of the chain by loops; return the place after them."""
        made = _Strips(self, self.strip()).statements()
        replaced = [*self.before, *made, *self.after]
        statements[self.start : self.end] = replaced
        return self.start + len(self.before) + len(made)


class _Again:
    """Statements after a chain, which compute again what they read of it.

    `is_possible` tells whether they are then a chain in which it is not materialized either.
    """

    def __init__(self, statements: list[Statement], start: int, touches: Counter[Buffer]) -> None:
        self.is_possible = False
        chain = _Chain(statements, start, touches)
        kept = chain.contracted()
        large = {
            buffer
            for buffer, width in chain.widths.items()
            if buffer.role is Role.TEMP
            and buffer not in kept
            and width == chain.columns
            and int(buffer.nbytes) >= RECOMPUTED_BYTES
        }
        if not large or not chain.items:
            return
        parts, outside = self.parts(chain, large)
        later = [*chain.after, *statements[chain.end :]]
        if any(outside & everything(each)[1] for each in later):
            return
        made = {
            buffer: Buffer(buffer.name, buffer.dtype, buffer.size, Role.TEMP)
            for each in parts
            for buffer in writes(each)
        }
        copies = [_renamed(each, made) for each in parts]
        renamed = {buffer: made[buffer] for buffer in large}
        first = next((i for i, x in enumerate(later) if large & everything(x)[0]), None)
        if first is None:
            return
        # A product that only the following statements read belongs to them.
        for i in range(first - 1, max(-1, first - FARTHEST), -1):
            numbers = _numbers(later[i])
            if numbers is not None and (numbers.batch, numbers.m, numbers.n) == (
                chain.count,
                chain.rows,
                chain.columns,
            ):
                first = i
        self.touches = Counter(touches)
        found: list[Statement] = []
        for each in later:
            if isinstance(each, (Nest, Kernel)) and large & {*reads(each)}:
                self.touches.subtract({*reads(each), *writes(each)})
                each = _renamed(each, renamed)
                self.touches.update({*reads(each), *writes(each)})
            found.append(each)
        found[first:first] = copies
        for each in copies:
            self.touches.update({*reads(each), *writes(each)})
        head = [*statements[:start], *chain.before, *chain.body]
        self.start, self.end = start + len(chain.before), len(head)
        self.statements = [*head, *found]
        at = len(head) + first
        following = _Chain(self.statements, at, self.touches)
        private = following.contracted()
        self.is_possible = following.is_worth_it() and all(
            made[buffer] in private for buffer in made if chain.widths[buffer] == chain.columns
        )

    def parts(self, chain: _Chain, wanted: set[Buffer]) -> tuple[list[Statement], set[Buffer]]:
        """Return the statements that compute buffers, and what they read from outside."""
        needed, outside = set(wanted), set()
        found: list[Statement] = []
        for each in reversed(chain.body):
            if needed & {*writes(each)}:
                found.insert(0, each)
                inside = {x for x in reads(each) if x in chain.written}
                needed |= inside
                outside |= {*reads(each)} - inside
        return found, outside


def _renamed(statement: Statement, made: dict[Buffer, Buffer]) -> Nest | Kernel:
    """Return a statement that accesses other buffers."""

    def move(buffer: Buffer, index: Index) -> tuple[Buffer, Index]:
        return made.get(buffer, buffer), index

    if isinstance(statement, Nest):
        return with_places(statement, statement.axes, move)
    assert isinstance(statement, Kernel)
    operands, results = (
        [Place(made.get(place.buffer, place.buffer), place.index) for place in places]
        for places in (statement.operands, statement.results)
    )
    return Kernel(
        statement.symbol, operands, results, statement.numbers, statement.source, statement.grain
    )


class _Strips:
    """The loops of a chain."""

    def __init__(self, chain: _Chain, rows: int) -> None:
        self.chain = chain
        self.size = rows
        assert chain.items is not None
        self.items = [Axis(f"s{i}", size) for i, size in enumerate(chain.items)]
        self.made = {
            buffer: Buffer(buffer.name, buffer.dtype, chain.count * rows * width, Role.TEMP)
            for buffer, width in chain.contracted().items()
        }

    def statements(self) -> list[Statement]:
        """Return loops over items and strips."""
        chain, count = self.chain, self.chain.rows // self.size
        source = chain.body[0].source
        strips = Axis("strip", count)
        inner = self.body(axis_index(strips) * self.size, self.size)
        body: list[Statement] = [self.zeros(each) for each in chain.body if self.is_sum(each)]
        body += inner if count == 1 else [Loop(strips, inner, source=source)]
        rest = chain.rows - count * self.size
        if rest:
            body += self.body(Index(count * self.size), rest)
        # The longest axis is the outermost one: threads share its iterations.
        for axis in sorted(self.items, key=lambda axis: int(axis.size)):
            body = [Loop(axis, body, parallel=True, source=source)]
        return body

    def is_sum(self, statement: Statement) -> bool:
        return self.chain.roles[statement] == "sum"

    def item(self, step: int) -> Index:
        """Return where an item starts whose elements are `step` elements."""
        index = Index()
        for axis in reversed(self.items):
            index += axis_index(axis) * step
            step *= int(axis.size)
        return index

    def zeros(self, product: Statement) -> Nest:
        """Return a nest that clears an item of a sum."""
        numbers = _numbers(product)
        assert isinstance(product, Kernel)
        assert numbers is not None
        buffer = product.results[0].buffer
        axis = Axis("zero", numbers.c_step)
        zero = self.scope.constant(0, buffer.dtype)
        return Nest(
            [axis],
            [Store(buffer, self.item(numbers.c_step) + axis_index(axis), zero)],
            source=product.source,
        )

    @property
    def scope(self):
        for each in self.chain.body:
            if isinstance(each, Nest):
                return each.effects[0].value.scope
        raise AssertionError

    def body(self, first: Index, rows: int) -> list[Statement]:
        """Return the statements of a strip of rows from `first` on."""
        row = Axis("row", rows)
        return [
            self.nest(each, first, row)
            if isinstance(each, Nest)
            else self.product(each, first, rows)  # type: ignore[arg-type]
            for each in self.chain.body
        ]

    def nest(self, nest: Nest, first: Index, row: Axis) -> Nest:
        found = self.chain.axes(nest)
        assert found is not None
        items, rows = found
        replaced = {
            axis: axis_index(mine) for axis, mine in zip(items, self.items, strict=True)
        }
        inner = list(nest.axes[nest.axes.index(rows) + 1 :])

        def move(buffer: Buffer, index: Index) -> tuple[Buffer, Index]:
            made = self.made.get(buffer)
            if made is None:
                return buffer, index
            width = self.chain.widths[buffer]
            rest = Index(index.const, [(t, f) for t, f in index.terms if t in inner])
            return made, self.item(self.size * width) + axis_index(row) * width + rest

        # First the places, then axes: a strip numbers its rows from 0.
        moved = with_places(nest, [*items, row, *inner], move)
        replaced[rows] = first + axis_index(row)
        roots = substituted(roots_of(moved), replaced, {})
        return with_roots(
            moved,
            roots,
            [row, *inner],
            lambda buffer, index: (buffer, index.replaced(replaced, {})),
        )

    def product(self, kernel: Kernel, first: Index, rows: int) -> Kernel:
        """Return a product of the rows of a strip."""
        numbers = _numbers(kernel)
        assert numbers is not None
        a, b = kernel.operands
        (c,) = kernel.results
        is_sum = self.is_sum(kernel)
        n = numbers
        if is_sum:
            left = self.at(a, n.a_step, first * (n.m if n.transpose_a else 1), n.m)
            right = self.at(b, n.b_step, first * (1 if n.transpose_b else n.n), n.n)
            out = Place(c.buffer, self.item(n.c_step))
            sizes = (n.m, n.n, rows)
        else:
            left = self.at(a, n.a_step, first * n.k, n.k)
            right = Place(b.buffer, b.index + self.item(n.b_step))
            out = self.at(c, n.c_step, first * n.n, n.n)
            sizes = (rows, n.n, n.k)
        flags = [n.transpose_a, n.transpose_b, n.a_row, n.b_row, n.n, int(is_sum)]
        symbol = kernel.symbol.replace("gemm", "gemm_strip")
        operands = [left, right, out] if is_sum else [left, right]
        return Kernel(symbol, operands, [out], [*sizes, *flags], kernel.source)

    def at(self, place: Place, step: int, offset: Index, width: int) -> Place:
        """Return where the rows of a strip start: of an operand, or of what the chain holds."""
        made = self.made.get(place.buffer)
        if made is not None:
            return Place(made, self.item(self.size * width))
        return Place(place.buffer, place.index + self.item(step) + offset)
