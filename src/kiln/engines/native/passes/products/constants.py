"""What depends only on arrays that a function closes over is computed once, not in each call.

`divided` moves such statements out of a function into another one, the prologue. First it packs the
constant matrices of products, wherever in the function these are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

from kiln.engines.native.loop_ir.buffers import everything, reads, writes
from kiln.engines.native.loop_ir.checks import has_checks
from kiln.engines.native.loop_ir.extents import is_named
from kiln.engines.native.loop_ir.statements import (
    Buffer,
    Function,
    Kernel,
    Place,
    Role,
    Statement,
)
from kiln.engines.native.passes.carries import rename
from kiln.engines.native.passes.dead import is_pure
from kiln.engines.native.passes.products.loop_operands import Packing, is_packing

MOST_BYTES = 1 << 28
"""Of all panels of a function: more memory is not worth the time."""


def divided(function: Function, constants: int) -> Function | None:
    """Move what the first `constants` inputs of a function determine to a prologue, if anything.

    The prologue takes these inputs. Its results are further inputs of the function, the last ones.
    """
    fixed = set(function.inputs[:constants])
    packing = Packing()
    rename(function.body, _taken(function.body, fixed, packing))
    _pack(function.body, fixed, packing)
    function.body[:0] = packing.statements
    moved = _moved(function.body, fixed)
    rest = [each for each in function.body if each not in moved]
    needed = set[Buffer]().union(*[everything(each)[0] for each in rest])
    # A nest may write a buffer by several effects.
    kept = list(dict.fromkeys(b for each in moved for b in writes(each) if b in needed))
    if not kept:
        return None
    results = {b: Buffer(b.name, b.dtype, b.size, Role.OUTPUT) for b in kept}
    before = [*moved]
    rename(before, results)
    function.body[:] = rest
    for buffer in kept:
        buffer.role = Role.INPUT
    inputs = function.inputs[:constants]
    function.inputs += kept
    name = f"{function.name}_constants"
    return Function(name, function.scope, inputs, [*results.values()], before)


def _taken(
    statements: list[Statement], fixed: Set[Buffer], packing: Packing
) -> dict[Buffer, Buffer]:
    """Remove statements that pack constants; return the panels to use instead of theirs."""
    instead: dict[Buffer, Buffer] = {}
    for statement in list(statements):
        if isinstance(statement, Kernel) and is_packing(statement):
            if _is_fixed(statement.operands[0], fixed):
                instead[statement.results[0].buffer] = packing.adopt(statement)
                statements.remove(statement)
        for block in statement.blocks:
            instead |= _taken(block, fixed, packing)
    return instead


def _pack(statements: list[Statement], fixed: Set[Buffer], packing: Packing) -> None:
    """Let products of constant matrices, and convolutions by constant kernels, read panels."""
    for i, statement in enumerate(statements):
        if isinstance(statement, Kernel) and len(statement.operands) == 2:
            right = statement.operands[1]
            if _is_fixed(right, fixed) and packing.nbytes + right.buffer.nbytes <= MOST_BYTES:
                statements[i] = packing.packed(statement) or statement
        for block in statement.blocks:
            _pack(block, fixed, packing)


def _is_fixed(place: Place, fixed: Set[Buffer]) -> bool:
    return place.buffer in fixed and not place.index.terms


def _moved(statements: Sequence[Statement], fixed: Set[Buffer]) -> dict[Statement, None]:
    """Return the statements that compute no more than they read, from constants alone."""
    writers: Counter[Buffer] = Counter()
    for statement in statements:
        writers.update(everything(statement)[1])
    known, found = set(fixed), dict[Statement, None]()
    for statement in statements:
        if not is_pure(statement) or has_checks([statement]):
            continue
        read = {b for b in reads(statement) if b.role is not Role.CONST}
        written = set(writes(statement))
        if (
            read
            and read <= known
            and all(b.role is Role.TEMP and writers[b] == 1 for b in written)
            and (is_packing(statement) or _nbytes(written) <= _nbytes(read))
        ):
            found[statement] = None
            known |= written
    return found


def _nbytes(buffers: Set[Buffer]) -> int:
    sizes = [buffer.nbytes for buffer in buffers]
    assert not is_named(*sizes)
    return sum(map(int, sizes))
