"""Epilogue fusion: the consumer of a product reads each block while it is in cache.

The nest that consumes a product, or a loop nest over its rows, becomes part of the product. If
nothing else reads the product, it is never materialized: each thread holds one block at a time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from kiln.engines.native.loop_ir.buffers import everything, nodes, reads, touched, writes
from kiln.engines.native.loop_ir.extents import is_named
from kiln.engines.native.loop_ir.products import matrix_of
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Blocked,
    Buffer,
    Function,
    Index,
    Kernel,
    Loop,
    Nest,
    Role,
    Statement,
    axis_index,
    walk,
)
from kiln.engines.native.loop_ir.substitution import within
from kiln.engines.native.passes.rebuilding import with_axes
from kiln.engines.native.passes.schedule import varies, vector_axis
from kiln.ir.sizes.size import Dim

FEWEST_ROWS = 8
"""Of an item: the epilogue is called once for each."""
FEWEST_COLUMNS = 16
FEWEST_TERMS = 8
FEWEST_BYTES = 1 << 16
"""The nest after a smaller product reads it as fast; of a larger one another thread may have
written what it reads."""
MOST_ROW_BYTES = 1 << 13
"""Blocks need enough rows to pay off; if the epilogue needs whole rows, these must be short."""
MOST_BUFFERS = 48
FARTHEST = 32
"""How many statements after a product are searched, to keep compile time linear."""


def run_in_blocks(function: Function) -> None:
    """Turn nests that consume a product into its epilogue.

    Programs with named sizes or checks are left unchanged.
    """
    if function.sites:
        return
    touches = Counter(function.outputs)
    for statement in walk(function.body):
        touches.update({*reads(statement), *writes(statement)})
    _in_block(function.body, touches)


def _in_block(statements: list[Statement], touches: Counter[Buffer]) -> None:
    for statement in statements:
        for block in statement.blocks:
            _in_block(block, touches)
    # From the end: a nest that reads two products becomes the epilogue of the later one.
    for i in reversed(range(len(statements))):
        product = statements[i]
        if isinstance(product, Kernel) and is_worth_it(product):
            _with_epilogue(statements, i, product, touches)


def _with_epilogue(
    statements: list[Statement], i: int, product: Kernel, touches: Counter[Buffer]
) -> None:
    """Combine a product and the nest that reads it, if one may be moved to the other."""
    made = product.results[0].buffer
    operands = {place.buffer for place in product.operands} | set(reads(product))
    read_between: set[Buffer] = set()
    written_between: set[Buffer] = set()
    for j in range(i + 1, min(len(statements), i + 1 + FARTHEST)):
        statement = statements[j]
        read, written = everything(statement)
        found = epilogue_of(product, statement)
        if found is not None:
            if not written & (read_between | written_between) and not read & written_between:
                at = i
            elif made not in read_between and not operands & written_between:
                at = j
            else:
                return
            statements[at] = Blocked([product, found], found.source)
            del statements[i + j - at]
            inside = [made in {*reads(each), *writes(each)} for each in walk([statement])]
            is_only = touches[made] == 1 + sum(inside) and made not in written
            if is_only and made.role is Role.TEMP:
                made.role = Role.BLOCK
            return
        if made in written:
            return
        read_between |= read
        written_between |= written


def is_worth_it(product: Kernel) -> bool:
    """Tell whether a product may have an epilogue: it is a whole, large array."""
    matrix = matrix_of(product)
    if matrix is None:
        return False
    result = product.results[0]
    made = result.buffer
    if result.index != Index() or made.size != matrix.rows * matrix.columns:
        return False
    is_large = matrix.columns >= FEWEST_COLUMNS and matrix.terms >= FEWEST_TERMS
    return is_large and made.nbytes >= FEWEST_BYTES


def epilogue_of(product: Kernel, statement: Statement) -> Nest | Loop | None:
    """Return a statement that reads such a product, as its epilogue; None if it cannot be one."""
    made, n = product.results[0].buffer, _columns(product)
    read, written = everything(statement)
    if made not in read or written & {place.buffer for place in product.operands}:
        return None
    if not isinstance(statement, (Nest, Loop)) or len(touched(statement)) > MOST_BUFFERS:
        return None
    if isinstance(statement, Loop):
        return statement if _is_by_rows(product, statement) else None
    if statement.ordered or not statement.is_map:
        return None
    places = {x.attr[1] for x in nodes(statement) if x.op == "load" and x.attr[0] is made}
    places |= {effect.index for effect in statement.effects if effect.buffer is made}
    if len(places) != 1:
        return None
    found = _by_columns(statement, places.pop(), made.size, n)
    if found is None or found.axes[-2].size < FEWEST_ROWS:
        return None
    row, column = found.axes[-2:]
    if vector_axis(found) is not column or not all(varies(found, axis) for axis in (row, column)):
        return None
    return found


def _columns(product: Kernel) -> int:
    matrix = matrix_of(product)
    assert matrix is not None
    return matrix.columns


def _is_by_rows(product: Kernel, loop: Loop) -> bool:
    """Tell whether loops are parallel, and the innermost one reads a row of a product at a time."""
    made, n = product.results[0].buffer, _columns(product)
    if n * NUMPY_TYPES[made.dtype].itemsize > MOST_ROW_BYTES:
        return False
    axes = Blocked([product, loop]).axes
    if is_named(*[axis.size for axis in axes]) or axes[-1].size < FEWEST_ROWS:
        return False
    row, step = Index(), n
    for axis in reversed(axes):
        row += axis_index(axis) * step
        step *= int(axis.size)
    if step != made.size:
        return False
    for each in walk([loop]):
        if not isinstance(each, Nest):
            if not isinstance(each, Loop) or not each.parallel:
                return False
            continue
        places = [x.attr[1] for x in nodes(each) if x.op == "load" and x.attr[0] is made]
        places += [effect.index for effect in each.effects if effect.buffer is made]
        if not all(within(place, row, n) for place in places):
            return False
    return True


def _by_columns(nest: Nest, place: Index, size: Dim, columns: int) -> Nest | None:
    """Return a nest that visits elements in memory order, with the column axis last."""
    terms = dict(place.axes())
    axes = [axis for axis in nest.axes if axis.size != 1]
    if len(terms) != len(place.terms) or place.const != 0 or set(terms) != set(axes):
        return None
    if is_named(*terms.values(), *[axis.size for axis in axes]):
        return None
    order = sorted(axes, key=terms.__getitem__)
    if not _is_dense(order, terms, size):
        return None
    inner: list[Axis] = []
    while columns > 1 and order and columns % order[0].size == 0:
        inner.append(order.pop(0))
        columns //= int(inner[-1].size)
    replaced: dict[Axis, Index] = {}
    if columns > 1:
        # An axis that extends beyond the last column.
        if inner or not order or order[0].size % columns:
            return None
        both = order.pop(0)
        column = Axis(f"{both.name}_column", columns)
        row = Axis(f"{both.name}_row", both.size // columns)
        replaced[both] = axis_index(row) * columns + axis_index(column)
        inner, order = [column], [row, *order]
    if len(inner) != 1 or not order:
        return None
    ordered = [*reversed(order), *inner]
    return with_axes(nest, ordered, replaced)


def _is_dense(order: Sequence[Axis], factors: dict[Axis, Dim], size: Dim) -> bool:
    """Tell whether axes, innermost first, enumerate this many elements contiguously."""
    steps = [math.prod(axis.size for axis in order[:i]) for i in range(len(order) + 1)]
    return steps == [*(factors[axis] for axis in order), size]
