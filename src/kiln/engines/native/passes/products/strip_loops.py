"""Strips: a chain of products and nests runs for some rows at a time.

Attention is a product, a softmax over its rows, and a product with the result; what lies between
the two products is much larger than operands and results. Here the chain becomes parallel loops
over the items of the batch, and in each a loop over strips of rows, so that what lies between is
never materialized: an item holds one strip of it, which stays in the L2 cache.

A product takes part if its rows are those of the chain, or if it sums over them, as derivatives do:
then each strip adds its part. What the forward part of a gradient computes and its backward part
reads is recomputed if it is large.
"""

from __future__ import annotations

from collections import Counter

from kiln.engines.native.loop_ir.buffers import reads, roots_of, writes
from kiln.engines.native.loop_ir.scalars import Scope
from kiln.engines.native.loop_ir.statements import (
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
    walk,
)
from kiln.engines.native.loop_ir.substitution import substituted
from kiln.engines.native.passes.products.chains import Chain, is_seed, numbers_of
from kiln.engines.native.passes.products.recomputation import Recomputation
from kiln.engines.native.passes.rebuilding import with_places, with_roots


def run_in_strips(function: Function) -> None:
    """Run chains of products and nests in strips of rows.

    Programs with named sizes or checks are left unchanged.
    """
    if function.sites or not any(is_seed(each) for each in walk(function.body)):
        return
    touches = Counter(function.outputs)
    for statement in walk(function.body):
        touches.update({*reads(statement), *writes(statement)})
    _in_block(function, function.body, touches)


def _in_block(function: Function, statements: list[Statement], touches: Counter[Buffer]) -> None:
    for statement in statements:
        for block in statement.blocks:
            _in_block(function, block, touches)
    i = 0
    while i < len(statements):
        if is_seed(statements[i]):
            again = Recomputation(statements, i, touches)
            end = len(statements)
            if again.is_possible:
                statements[:] = again.statements
                touches.clear()
                touches.update(again.touches)
                i, end = again.start, again.end
            chain = Chain(statements, i, touches, end)
            if chain.is_worth_it():
                made = _Strips(chain, chain.strip()).statements()
                statements[chain.start : chain.end] = [*chain.before, *made, *chain.after]
                i += len(chain.before) + len(made)
                continue
        i += 1


class _Strips:
    """The loops of a chain."""

    def __init__(self, chain: Chain, rows: int) -> None:
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
        """Tell whether each strip adds to the result."""
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
        numbers = numbers_of(product)
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
    def scope(self) -> Scope:
        """The scope of the expressions."""
        return (
            next(each for each in self.chain.body if isinstance(each, Nest)).effects[0].value.scope
        )

    def body(self, first: Index, rows: int) -> list[Statement]:
        """Return the statements of a strip of rows from `first` on."""
        row = Axis("row", rows)
        found: list[Statement] = []
        for each in self.chain.body:
            if isinstance(each, Kernel):
                found.append(self.product(each, first, rows))
            elif isinstance(each, Nest):
                found.append(self.nest(each, first, row))
        return found

    def nest(self, nest: Nest, first: Index, row: Axis) -> Nest:
        """Return a nest over the rows of a strip."""
        found = self.chain.axes(nest)
        assert found is not None
        items, rows = found
        replaced = {axis: axis_index(mine) for axis, mine in zip(items, self.items, strict=True)}
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
        numbers = numbers_of(kernel)
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
